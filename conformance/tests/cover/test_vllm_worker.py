"""Each check of a batch against vLLM's worker can fail."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.drivers.vllm.slotproof_vllm import runner
from slotproof.drivers.vllm.slotproof_vllm.worker import PLACES, Misread, Worker
from tests.cover.test_vllm_driver import batch, new

BLOCKS = {"r": [3, 1], "s": [7], "t": [8]}


def run(*batches: Any, v2: bool = False, ahead: bool = False, **changed: Any) -> runner.Runner:
    """Run the batches on a worker with 2 rows, 6 tokens a batch, and a context of 8."""
    limits = {"requests": 2, "tokens": 6, "context": 8, "drafts": 1, **changed}
    worker = Worker(v2, ahead, holds=lambda key: BLOCKS.get(key, []), **limits)
    made = runner.Runner(4, draft=1, worker=worker)
    for output in batches:
        made.execute(output)
    return made


def sent(new: list[Any] | None = None, cached: Any = None, /, **counts: int) -> Any:
    """Return a batch with the fields that the checks read. ``cached``: blocks, computed tokens and
    output tokens of each cached request."""
    cached = cached or {}
    output = batch(new, {key: entry[:2] for key, entry in cached.items()}, **counts)
    output.scheduled_cached_reqs.num_output_tokens = [entry[2] for entry in cached.values()]
    output.total_num_scheduled_tokens = sum(counts.values())
    output.preempted_req_ids = set()
    return output


def changed(output: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        owner = output if hasattr(output, name) else output.scheduled_cached_reqs
        setattr(owner, name, value)
    return output


def first() -> Any:
    return sent([new("r", [5, 6, 7, 8, 9], [3, 1])], r=5)


def second(**fields: Any) -> Any:
    return changed(sent(None, {"r": (None, 5, 1)}, r=1), **fields)


def others() -> Any:
    return sent([new("s", [1], [7]), new("t", [2], [8])], s=1, t=1)


def test_sound_batches_pass() -> None:
    for v2 in (False, True):
        made = run(first(), second(), v2=v2)
        assert len(made.requests["r"].tokens) == 7
    resumed = changed(sent(None, {"r": ([3, 1], 0, 1)}, r=6), resumed_req_ids={"r"})
    assert run(first(), sent(), resumed).requests["r"].blocks == [3, 1]
    gone = changed(sent(), preempted_req_ids={"r"})
    assert run(first(), gone, v2=True).requests == {}


WRONG: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "4 tokens in all, but 5": ("counts", [changed(first(), total_num_scheduled_tokens=4)], {}),
    "5 tokens of 4": ("counts", [first()], {"tokens": 4}),
    "2 of 1 rows": ("rows", [others()], {"requests": 1}),
    "['r'] are sent, ['r', 's'] scheduled": ("counts", [sent([new("r", [5], [3])], r=1, s=1)], {}),
    "r has 2 of 1": ("drafts", [first(), second(scheduled_spec_decode_tokens={"r": [1, 1]})], {}),
    "r: 1 drafts among 1 tokens": (
        "drafts",
        [first(), second(scheduled_spec_decode_tokens={"r": [1]})],
        {},
    ),
    "no free row for t, ['r', 's'] have them": (
        "rows",
        [first(), sent([new("s", [1], [7])], s=1), sent([new("t", [2], [8])], t=1)],
        {"v2": True},
    ),
    "r is unknown": ("known", [second()], {}),
    "r is resumed, but not sent as new": (
        "known",
        [first(), second(resumed_req_ids={"r"})],
        {"v2": True},
    ),
    "r is resumed without blocks": ("known", [first(), second(resumed_req_ids={"r"})], {}),
    "r: 3 output tokens, the worker has 1": ("known", [first(), second(num_output_tokens=[3])], {}),
    "r joins the batch without its tokens": ("known", [first(), sent(), second()], {"ahead": True}),
    "r has other tokens than the worker": (
        "tokens",
        [first(), sent(), second(all_token_ids={"r": [5, 6, 7, 8, 9, 9]})],
        {},
    ),
    "r: reads 7 tokens and 0 drafts, it has 6 tokens": (
        "tokens",
        [first(), sent(None, {"r": (None, 5, 1)}, r=2)],
        {},
    ),
    "r: reads 4 tokens and 1 drafts, it has 5 tokens": (
        "drafts",
        [
            changed(
                sent([new("r", [5, 6, 7, 8, 9], [3, 1])], r=5),
                scheduled_spec_decode_tokens={"r": [-1]},
            )
        ],
        {},
    ),
    "r: 6 tokens of 5": ("context", [first()], {"context": 5}),
    "r: blocks [3, 1, 3, 1], but the scheduler gave it [3, 1]": (
        "table",
        [first(), sent(None, {"r": ([3, 1], 5, 1)}, r=1)],
        {},
    ),
}
"""Batches that a worker would misread, by the words: the place, the batches, the worker."""


@pytest.mark.parametrize("words", WRONG)
def test_a_batch_that_the_worker_would_misread_is_a_fault(words: str) -> None:
    place, batches, worker = WRONG[words]
    *sound, _ = batches
    run(*sound, **worker)
    with pytest.raises(Misread) as raised:
        run(*batches, **worker)
    where = PLACES[place][worker.get("v2", False)]
    assert words in str(raised.value) and where in str(raised.value)


def test_each_place_has_a_batch_that_is_wrong_there() -> None:
    assert {place for place, *_ in WRONG.values()} == set(PLACES)


def test_the_worker_is_the_one_that_the_scheduler_serves() -> None:
    limits = SimpleNamespace(max_num_seqs=4, max_num_batched_tokens=64)
    scheduler = SimpleNamespace(scheduler_config=limits, max_model_len=48, num_spec_tokens=2)
    made = Worker.of(scheduler, True, lambda _: ())
    assert (made.v2, made.requests, made.tokens, made.context) == (False, 4, 64, 48)
    scheduler.use_v2_model_runner = True
    assert Worker.of(scheduler, True, lambda _: ()).v2
