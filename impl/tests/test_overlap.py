"""Overlap scheduling: a batch is launched before the previous result is processed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from slotproof_engine import expected_next


def expected_next_tokens(tokens: list[int], count: int) -> list[int]:
    """Return the answer of a request that runs alone."""
    known = list(tokens)
    for _ in range(count):
        known.append(expected_next(known, 0))
    return known[len(tokens) :]


def told(d: Any) -> list[tuple[str, dict[str, int]]]:
    """Return the last iteration's transitions that move C or the output, with parameters."""
    moving = ("T-EXTEND", "T-DECODE", "T-LAUNCH", "T-RESULT", "T-SAVE")
    return [(e[0], e[3]) for e in d.engine.events if e[0] in moving]


def test_a_token_is_known_one_iteration_after_its_round(drive: Any) -> None:
    """T-LAUNCH, T-RESULT: C is ahead of the processed tokens by one, but not of the device."""
    d = drive(overlap=True).open("s").submit("s", "r", [5, 6], 3).step()
    (req,) = d.engine.scheduler.reqs.values()
    assert told(d) == [("T-EXTEND", {"t": 2, "ahead": 0, "sampled": 0, "told": 0, "row": 0})]
    assert (req.kv_committed_len, req.output_ids) == (2, [])
    d.step()
    one = {"k": 0, "sampled": 1, "told": 1}
    assert told(d) == [("T-LAUNCH", {"d": 1, "k": 1}), ("T-RESULT", {"at": 2, **one})]
    assert (req.kv_committed_len, len(req.output_ids)) == (3, 1)
    d.step(2)
    assert told(d)[1:] == [("T-RESULT", {"at": 4, **one}), ("T-SAVE", {})]
    assert (d.engine.cache.slots["s"].kv_committed_len, d.broken()) == (5, set())
    assert d.step().tids == []


def test_a_speculative_round_counts_when_its_result_comes(drive: Any) -> None:
    """T-LAUNCH allocates for the new round and for tokens accepted by the round in flight."""
    d = drive(overlap=True, draft=3, topk=2).submit(None, "r", [5, 6], 40).step(2)
    first = {"at": 2, "k": 0, "sampled": 1, "told": 1}
    assert told(d) == [("T-LAUNCH", {"d": 11, "k": 0}), ("T-RESULT", first)]
    accepted = set()
    for _ in range(8):
        (req,) = d.engine.scheduler.reqs.values()
        before = req.kv_committed_len
        d.step()
        (launch, result) = told(d)
        assert result[1]["at"] == before + 1
        assert launch[1]["k"] == 0 and result[1]["k"] == result[1]["sampled"]
        assert req.kv_committed_len == before + result[1]["sampled"] == req.seqlen - 1
        accepted.add(result[1]["sampled"])
    assert len(accepted) > 1


def test_three_batches_are_under_way(drive: Any) -> None:
    """C is ahead of the known tokens by two. Only known tokens are published."""
    d = drive(overlap=True, batches=3, context_len=16).submit(None, "r", [5, 6], 9).step(2)
    (req,) = d.engine.scheduler.reqs.values()
    assert [told(d), req.output_ids] == [[("T-LAUNCH", {"d": 1, "k": 1})], []]
    d.step()
    one = {"k": 0, "sampled": 1, "told": 1}
    assert told(d) == [("T-LAUNCH", {"d": 1, "k": 1}), ("T-RESULT", {"at": 2, **one})]
    assert (req.kv_committed_len, req.seqlen, req.cache_protected_len) == (4, 3, 3)
    d.step(9)
    assert d.answer("r")["tokens"] == expected_next_tokens([5, 6], 9)


def test_a_retracted_turn_keeps_no_unknown_kv(drive: Any) -> None:
    """T-RETRACT: the slot has the KV of known tokens."""
    d = drive(overlap=True, batches=3).open("s").submit("s", "r", [5, 6], 9).step(3)
    d.engine.intake.retract()
    assert d.engine.cache.slots["s"].kv_committed_len == 3
    d.step(12)
    assert (d.answer("r")["tokens"], d.broken()) == (expected_next_tokens([5, 6], 9), set())


@pytest.mark.parametrize("batches", [2, 3])
@pytest.mark.parametrize("sid", ["s", None])
def test_results_arrive_after_a_retraction_that_wipes(
    drive: Any, sid: str | None, batches: int
) -> None:
    """T-LATE-RESULT, T-LATE-FINISH: the last tokens come while the request waits."""
    d = drive(overlap=True, batches=batches, retract="wipe").open("s")
    d.submit(sid, "r", [5, 6], batches).step(batches)
    (req,) = d.engine.scheduler.reqs.values()
    d.engine.scheduler.retract_decode(req)
    d.do("pause").step(batches)
    seen = [(name, params) for name, _, rid, params in d.events if rid == "r"]
    late = [("T-LATE-RESULT", {"at": at, "sampled": 1}) for at in range(3, 2 + batches)]
    assert [event for event in seen if "LATE" in event[0]] == [*late, ("T-LATE-FINISH", {})]
    assert d.answer("r")["tokens"] == expected_next_tokens([5, 6], batches)
    assert d.broken() == set()


def test_a_turn_that_has_finished_is_in_one_more_batch(drive: Any) -> None:
    """T-SAVE cuts the KV computed by the extra batch past the end, in full."""
    d = drive(overlap=True).open("s").submit("s", "r", [5, 6], 0).step(2)
    assert told(d) == [("T-LAUNCH", {"d": 1, "k": 1}), ("T-SAVE", {})]
    slot = d.engine.cache.slots["s"]
    assert (slot.kv_committed_len, slot.kv_allocated_len, d.broken()) == (2, 2, set())
    d.step()
    assert d.answer("r")["tokens"] == []


@pytest.mark.parametrize("draft", [0, 3])
def test_a_full_row_is_launched_without_a_token(drive: Any, draft: int) -> None:
    d = drive(overlap=True, context_len=4, draft=draft).open("s").submit("s", "r", [5] * 4, 0)
    d.step(2)
    assert told(d) == [("T-LAUNCH", {"d": 0, "k": 0}), ("T-SAVE", {})]
    assert d.broken() == set()


@pytest.mark.parametrize("how", ["abort", "retract", "close", "abort_all", "pause"])
def test_what_comes_while_a_result_is_under_way(drive: Any, how: str) -> None:
    """A result in flight: dropped by an abort, recomputed after a retract, processed in a pause."""
    d = drive(overlap=True).open("s").submit("s", "r", [5, 6], 4).step(3)
    fields = {"abort": {"rid": "r"}, "close": {"session": "s"}}.get(how, {})
    d.do(how, **fields).step()
    results = [e for e in d.engine.events if e[0] == "T-RESULT"]
    assert len(results) == (how in ("close", "pause"))
    assert d.broken() == set()
    if how == "pause":
        assert d.step().tids == []
        d.do("continue")
    d.drain()
    whole = drive().open("s").submit("s", "r", [5, 6], 4).drain().answer("r")["tokens"]
    tokens = d.answer("r")["tokens"]
    assert tokens == (whole[:2] if "abort" in how else whole)


def test_memory_runs_out_while_a_result_is_under_way(drive: Any) -> None:
    """T-OOM, T-RETRACT: the token not processed yet is dropped."""
    d = drive(overlap=True, total_tokens=8).open("s").submit("s", "r", [5] * 4, 9).drain()
    assert d.tids == ["T-OOM"]
    assert len(d.answer("r")["tokens"]) == 4
    d = drive(overlap=True, total_tokens=12).open("s").submit(None, "p", [1, 2, 3], 8)
    d.submit("s", "r", [4, 5, 6], 8).drain()
    assert "T-RETRACT" in {event[0] for event in d.events}
    plain = drive(total_tokens=12).open("s").submit(None, "p", [1, 2, 3], 8)
    plain.submit("s", "r", [4, 5, 6], 8).drain()
    for rid in ("p", "r"):
        assert d.answer(rid)["tokens"] == plain.answer(rid)["tokens"]


def test_a_window_is_there_for_a_retracted_turn(drive: Any) -> None:
    """T-SWA-ADVANCE before the round commits: a restore leaves out the last processed token."""
    d = drive(overlap=True, window=2, swa_tokens=100).open("s").submit("s", "r", [5] * 4, 9)
    d.step(4).do("retract").step()
    assert d.tids[:3] == ["T-RETRACT", "T-RESTORE", "T-EXTEND"]
    d.drain()
    assert d.broken() == set()


def conversation(d: Any, r: random.Random) -> dict[str, tuple[str, list[int]]]:
    """Return the answers to turns of three sessions and plain requests, with random retracts."""
    d.open("a", "b", "c")
    for number in range(4):
        for sid in ("a", "b", "c", None):
            tokens = [r.randint(1, 3) for _ in range(r.choice([1, 2, 5]))]
            stop = tuple(r.randint(1, 249) for _ in range(20))
            d.submit(sid, f"{sid}{number}", tokens, r.choice([0, 1, 3, 8]), stop)
        for _ in range(r.randint(0, 12)):
            d.do(r.choice(["retract", "retract", "flush"]))
            d.step(r.choice([1, 1, 2, 3]))
            assert d.broken() == set()
        d.drain()
    return {m["rid"]: (m["reason"], m["tokens"]) for m in d.messages if m["type"] == "finish"}


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_without_overlap(drive: Any, seed: int) -> None:
    """INV-CONTENT: whatever the pages, chunks, drafts, windows, and however tight the pool."""
    r = random.Random(seed)
    page, window = r.choice([1, 2, 4]), r.choice([0, 0, 2, 5])
    config = {
        "page_size": page,
        "total_tokens": page * r.choice([20, 60]) + 64,
        "swa_tokens": page * r.choice([20, 60]) + 64 if window else 0,
        "window": window,
        "max_running": r.choice([2, 4]),
        "rows": 8,
        "chunk": r.choice([0, 0, 4]),
        "draft": r.choice([0, 0, 3]),
        "topk": r.choice([1, 2]),
        "retract": r.choice(["keep", "wipe"]),
    }
    with_it = conversation(drive(**config, overlap=True), random.Random(seed))
    assert len(with_it) == 16
    assert with_it == conversation(drive(**config), random.Random(seed))
