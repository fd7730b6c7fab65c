"""Random walks through small engines: after every step, every page is in its place."""

from __future__ import annotations

import random
from typing import Any

import pytest


def configuration(r: random.Random) -> dict[str, Any]:
    page = r.choice([1, 1, 2, 4])
    window = r.choice([0, 0, 1, 3, 5])
    return {
        "page_size": page,
        "total_tokens": page * r.randint(4, 30),
        "swa_tokens": page * r.randint(3, 30) if window else 0,
        "window": window,
        "max_running": r.randint(1, 3),
        "rows": r.randint(1, 4),
        "context_len": r.choice([12, 30, 60]),
        "chunk": r.choice([0, 0, 1, 4]),
        "draft": r.choice([0, 0, 1, 4]),
        "topk": r.choice([1, 2]),
        "reserve": r.choice([0, 50]),
        "retract": r.choice(["keep", "wipe"]),
        "aligned_reuse": r.random() < 0.2,
        "overlap": r.random() < 0.5,
        "loan_publishes": r.random() < 0.5,
        "drops_last": r.random() < 0.3,
        "queues_turns": r.random() < 0.3,
        "keeps_slack": r.random() < 0.3,
    }


def command(r: random.Random, number: int) -> dict[str, Any]:
    sid, rid = r.choice("abc"), f"r{number}"
    tokens = [r.randint(1, 3) for _ in range(r.choice([0, 1, 2, 5, 9]))]
    submit = {
        "do": "submit",
        "session": r.choice([sid, sid, None]),
        "rid": rid,
        "tokens": tokens,
        "max_new": r.choice([0, 1, 3, 8]),
        "stop": [r.randint(1, 249) for _ in range(9)],
    }
    return r.choice(
        [
            submit,
            submit,
            submit,
            submit,
            {"do": "open", "session": sid},
            {"do": "abort", "rid": f"r{number - r.randint(1, 4)}"},
            {"do": "close", "session": sid},
            {"do": "retract"},
            {"do": "evict", "tokens": r.randint(1, 9)},
            {"do": "flush"},
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_walk(drive: Any, seed: int) -> None:
    r = random.Random(seed)
    d = drive(**configuration(r)).open("a", "b")
    for number in range(30):
        d.engine.do(command(r, number))
        for _ in range(r.choice([0, 1, 1, 2])):
            d.step()
            assert d.broken() == set()
            assert d.engine.checker.verdict == "ok"
    d.drain()
    answered = [m["rid"] for m in d.messages if m["type"] == "finish"]
    assert len(answered) == len(set(answered))
    for sid in "abc":
        d.do("close", session=sid)
    d.do("flush").step()
    assert d.figures()[0] == d.config.total_tokens
    assert d.engine.kv.req_to_token_pool.available_size() == d.config.rows
