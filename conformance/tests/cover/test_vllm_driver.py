"""The vLLM driver without a build: its model runner, its clients, its refusals."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.drivers.vllm.slotproof_vllm import boot, clients, content, layout, runner
from slotproof.engines.methods import methods_of
from slotproof.lockstep.abstraction import UNSHOWN
from slotproof_model.evaluation.layout import LAYOUT, OWN

DRIVER = Path(boot.__file__).parent


def test_the_layout_says_where_each_field_of_the_spec_is() -> None:
    cells = re.findall(r"^\| ([a-z]+\.[\w., ]+) \| `", layout.__doc__ or "", re.MULTILINE)
    said = {name for cell in cells for name in cell.split(", ")}
    wanted = {name for name in LAYOUT if name.partition(".")[0] not in ("swa", "frame", "config")}
    assert wanted - {name for name, index in OWN.items() if index in UNSHOWN} == said


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"draft": 2, "topk": 2, "chunk": 8}, "config.topk: must be 1 with chunks"),
        ({"draft": 4, "chunk": 4}, "config.chunk: 4 is less than a round of 4 drafts"),
        ({"swa_tokens": 16, "window": 4}, "config.swa_tokens: 16 is not supported, only 0"),
        ({"chunk": -1}, "config.chunk: -1 is negative"),
        ({"wings": 2}, "config.wings: unknown field"),
        ({"total_tokens": 50, "page_size": 4}, "50 is not a positive multiple of 4"),
        ({"max_running": 0}, "config.max_running and config.rows must be at least 1"),
        ({"rows": "many"}, "config.rows: 'many' is not a number"),
    ],
)
def test_what_vllm_does_not_take_is_one_line(config: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=re.escape(text)):
        boot.normalise(config)


def test_a_configuration_is_filled_and_retract_is_the_engines_own() -> None:
    assert boot.normalise({})["retract"] == "wipe"
    assert boot.normalise({"retract": "keep"})["retract"] == "keep"
    assert boot.normalise({"max_running": 4, "rows": 2})["max_running"] == 2


def test_an_unknown_layout_is_one_clear_line() -> None:
    with pytest.raises(Exception, match=r"^unknown layout: .* no attribute 'kv_cache_manager'$"):
        layout.Layout(SimpleNamespace(), 4)
    pool = SimpleNamespace(_maybe_evict_cached_block=None)
    group = SimpleNamespace(req_to_blocks={})
    manager = SimpleNamespace(
        block_pool=pool,
        coordinator=SimpleNamespace(single_type_managers=[group]),
        **dict.fromkeys(layout.WRAPPED["manager"]),
    )
    scheduler = SimpleNamespace(
        kv_cache_manager=manager, **dict.fromkeys(layout.WRAPPED["scheduler"])
    )
    layout.Layout(scheduler, 4)
    del scheduler._preempt_request
    with pytest.raises(Exception, match=r"^unknown layout: SimpleNamespace has no _preempt_req"):
        layout.Layout(scheduler, 4)


# The model runner -------------------------------------------------------------------------------


def batch(new: list[Any] | None = None, cached: dict[str, Any] | None = None, **counts: int) -> Any:
    """Return a `SchedulerOutput`: new requests, then blocks and computed tokens of cached ones."""
    cached = cached or {}
    return SimpleNamespace(
        finished_req_ids=set(),
        scheduled_new_reqs=new or [],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(cached),
            new_block_ids=[blocks and (blocks,) for blocks, _ in cached.values()],
            num_computed_tokens=[computed for _, computed in cached.values()],
            resumed_req_ids=set(),
            all_token_ids={},
        ),
        num_scheduled_tokens=counts,
        scheduled_spec_decode_tokens={},
    )


def new(key: str, tokens: list[int], blocks: list[int], computed: int = 0) -> Any:
    return SimpleNamespace(
        req_id=key, prompt_token_ids=tokens, block_ids=(blocks,), num_computed_tokens=computed
    )


PROMPT = [5, 6, 7, 8, 9]


def test_tokens_are_those_that_follow_without_a_cache() -> None:
    """In one go, in chunks, and from blocks written by another request."""
    answer = content.follows(PROMPT, 3)
    assert len(answer) == 3 and all(1 <= token <= content.TOKENS for token in answer)
    assert content.follows([*PROMPT, answer[0]], 2) == answer[1:]
    whole = runner.Runner(4)
    assert whole.execute(batch([new("r", PROMPT, [3, 1])], r=5)) == {"r": answer[:1]}
    assert whole.execute(batch(cached={"r": (None, 5)}, r=1)) == {"r": answer[1:2]}
    chunks = runner.Runner(4)
    assert chunks.execute(batch([new("r", PROMPT, [3])], r=3)) == {"r": []}
    assert chunks.execute(batch(cached={"r": ([1], 3)}, r=2)) == {"r": answer[:1]}
    assert whole.execute(batch([new("s", PROMPT, [3, 2], computed=4)], s=1)) == {"s": answer[:1]}
    assert whole.stamps([3, 2], 5) == [[token, at] for at, token in enumerate(PROMPT)]


def test_who_reads_another_block_samples_another_token() -> None:
    sound = runner.Runner(4)
    sound.execute(batch([new("r", PROMPT, [3, 1])], r=5))
    wrong = sound.execute(batch([new("s", PROMPT, [7, 2], computed=4)], s=1))["s"]
    assert wrong != content.follows(PROMPT, 1)
    assert sound.stamps([7, 2], 5)[:2] == [[0, -1], [0, -1]], "nobody wrote there"


def test_a_position_beyond_the_block_table_is_an_error_of_the_engine() -> None:
    with pytest.raises(IndexError, match="r: position 4 is beyond its 1 blocks"):
        runner.Runner(4).execute(batch([new("r", PROMPT, [3])], r=5))


def test_a_session_that_comes_again_has_another_id_in_the_engine() -> None:
    them = clients.Clients()
    first = them.open("s")
    first.turn = clients.ClientRequest("r1", "s", [1], 1)
    first.queue.append(clients.ClientRequest("r2", "s", [2], 1))
    assert them.find("r2") is first and them.find("r3") is None
    first.closed = True
    assert not first.closing, "the close waits behind r2"
    them.end(first.key)
    assert them.open("s").key != first.key


@pytest.mark.parametrize("release", ["0.15.0", "0.20.0", "0.25.0", "0.33.0"])
def test_whatever_the_driver_tells_of_has_methods(release: str) -> None:
    told = set(re.findall(r'"(T-[A-Z-]+)"', (DRIVER / "engine.py").read_text()))
    told.add("T-DISCARD")  # of a patched build alone
    assert len(told) == 25 and told == methods_of(f"vllm {release}").keys()
