"""Tokens depend on the KV actually in memory, and on nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from slotproof_engine import expected_next


def output(d: Any, rid: str = "r") -> list[int]:
    tokens: list[int] = d.answer(rid)["tokens"]
    return tokens


def by_hand(prompt: list[int], count: int, window: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(expected_next(tokens, window))
    return tokens[len(prompt) :]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"page_size": 4},
        {"chunk": 3},
        {"draft": 4},
        {"draft": 2, "topk": 3},
        {"window": 3, "swa_tokens": 100},
        {"window": 5, "swa_tokens": 100, "chunk": 2},
        {"window": 2, "swa_tokens": 20, "draft": 4, "page_size": 2},
        {"num_layers": 3},
    ],
)
def test_tokens_are_those_computed_from_tokens_alone(drive: Any, config: dict[str, Any]) -> None:
    """INV-CONTENT, over two turns."""
    d = drive(**config).open("s")
    d.submit("s", "r1", [7, 8, 9, 10, 11], 6).drain().submit("s", "r2", [3, 4], 5).drain()
    layers, window = config.get("num_layers", 2), config.get("window", 0)
    tokens = [7, 8, 9, 10, 11]
    for rid, new, count in (("r1", [], 6), ("r2", [3, 4], 5)):
        tokens += new
        for got in output(d, rid):
            assert got == expected_next(tokens, window, layers)
            tokens.append(got)
        assert len(output(d, rid)) == count


@pytest.mark.parametrize("pool", ["full", "swa"])
@pytest.mark.parametrize("field", ["k", "v"])
def test_corrupted_kv_changes_the_tokens(drive: Any, pool: str, field: str) -> None:
    d = drive(window=4, swa_tokens=100).submit(None, "r", [7, 8, 9], 5).step()
    layer = 0 if pool == "full" else 1
    getattr(d.engine.kv.kv_pools[pool], field)[layer][2, 0, 0] += 1
    assert d.broken() == {"INV-CONTENT"} or pool == "full"
    d.drain()
    assert output(d) != by_hand([7, 8, 9], 5, 4)


def test_content_reads_stamps_back(drive: Any) -> None:
    d = drive(window=1, swa_tokens=100).submit(None, "r", [7, 8, 9], 5).step(2)
    first = output_so_far = d.engine.scheduler.reqs["r"].output_ids[0]
    assert output_so_far == by_hand([7, 8, 9], 1, 1)[0]
    assert d.engine.content({0: 4}) == {0: [(7, 0), (8, 1), (9, 2), (first, 3)]}
    assert d.engine.content({}) == {}
    d.engine.kv.kv_pools["full"].v[0][0] += 1
    assert d.engine.content({0: 1}) == {0: [(-1, -1)]}
