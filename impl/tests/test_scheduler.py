"""Scheduling: chunks, budgets, memory pressure, and no request waiting forever."""

from __future__ import annotations

from typing import Any


def test_prefill_joins_the_running_batch_one_iteration_later(drive: Any) -> None:
    d = drive().submit(None, "a", [1, 2], 5).step()
    scheduler = d.engine.scheduler
    assert scheduler.running_batch.is_empty()
    assert [req.rid for req in scheduler.last_batch.reqs] == ["a"]
    d.submit(None, "b", [3, 4], 5).step()
    assert [req.rid for req in scheduler.running_batch.reqs] == ["a"]
    assert [req.rid for req in scheduler.last_batch.reqs] == ["b"]
    d.step()
    assert scheduler.last_batch is scheduler.running_batch
    assert d.tids == ["T-DECODE", "T-DECODE"]


def test_a_long_prompt_is_prefilled_in_chunks(drive: Any) -> None:
    """T-PARK (#37502): between chunks, the request is in no batch, but counted."""
    d = drive(chunk=8).submit(None, "a", list(range(1, 20)), 2).step()
    assert d.tids == ["T-PLAIN-SUBMIT", "T-MATCH", "T-EXTEND", "T-PARK"]
    scheduler = d.engine.scheduler
    assert scheduler.chunked_req.rid == "a"
    assert scheduler.chunked_req.phase == "parked"
    assert d.figures() == (92, 0, 0, 0, 8)
    d.step(2)
    assert d.tids == ["T-EXTEND", "T-INSERT"]
    assert scheduler.chunked_req is None
    assert [e[0] for e in d.events].count("T-EXTEND") == 3


def test_a_chunk_takes_turns_with_decoding(drive: Any) -> None:
    d = drive(chunk=4).submit(None, "a", [1, 2], 20).step(2)
    d.submit(None, "b", [3] * 12, 2).step()
    seen = []
    for _ in range(4):
        d.step()
        seen.append(d.tids[0])
    assert seen == ["T-DECODE", "T-EXTEND", "T-DECODE", "T-EXTEND"]


def test_what_a_chunk_leaves_over_goes_to_the_next_request(drive: Any) -> None:
    d = drive(chunk=4).submit(None, "a", [1, 2], 2).submit(None, "b", [3, 4, 5], 2).step()
    assert [e[3]["t"] for e in d.engine.events if e[0] == "T-EXTEND"] == [2, 2]
    assert d.engine.scheduler.chunked_req.rid == "b"


def test_equal_prompts_in_one_batch_share_pages(drive: Any) -> None:
    """T-INSERT: duplicate pages are freed, and the row points to the tree's pages."""
    d = drive(page_size=2)
    d.submit(None, "a", [1, 2, 3, 4, 5], 4).submit(None, "b", [1, 2, 3, 4, 5], 4).step()
    assert d.last("T-INSERT") == {
        "q": 4,
        "dup": 4,
        "swa_dup": 0,
        "locked": 0,
        "swa_locked": 0,
        "swa_u": 0,
    }
    table = d.engine.kv.req_to_token_pool.req_to_token["full"]
    assert table[0, :4].tolist() == table[1, :4].tolist()
    assert table[0, 4] != table[1, 4]
    assert d.broken() == set()


def test_a_finished_plain_request_leaves_its_tokens_in_the_tree(drive: Any) -> None:
    d = drive().submit(None, "a", [1, 2, 3], 4).drain()
    assert d.last("T-PLAIN-FINISH")["q"] == 6
    assert d.figures() == (94, 6, 0, 0, 0)
    tokens = [1, 2, 3, *d.answer("a")["tokens"]]
    d.submit(None, "b", tokens, 1).step()
    assert d.last("T-MATCH")["m"] == 6


def test_the_tree_is_evicted_before_anyone_suffers(drive: Any) -> None:
    d = drive(total_tokens=8).submit(None, "a", [1, 2, 3, 4], 1).step()
    d.submit(None, "b", [5, 6, 7, 8, 9], 3).step()
    assert d.tids == ["T-PLAIN-SUBMIT", "T-MATCH", "T-EVICT", "T-EXTEND", "T-INSERT"]
    assert d.last("T-EVICT") == {"n": 1, "swa_n": 0}
    d.drain()
    assert d.broken() == set()


def test_idle_slots_go_before_a_running_request_does(drive: Any) -> None:
    """T-DISCARD, least recently used first."""
    d = drive(total_tokens=12).open("s", "t")
    d.submit("s", "r1", [1, 2], 2).drain().submit("t", "r2", [3, 4], 2).drain()
    d.submit("s", "r3", [5], 8)
    d.drain()
    assert ("T-DISCARD", "t", None, {"u": 2, "swa_u": 0}) in d.events
    assert d.answer("r3")["reason"] == "length"
    assert "T-RETRACT" not in [event[0] for event in d.events]


def test_the_last_one_in_is_retracted(drive: Any) -> None:
    d = drive(total_tokens=12).open("s").submit(None, "a", [1, 2, 3], 8)
    d.submit("s", "b", [4, 5, 6], 8).drain()
    retracted = [e[2] for e in d.events if e[0] in ("T-RETRACT", "T-PLAIN-RETRACT")]
    assert retracted
    assert set(retracted) == {"b"}
    assert d.answer("a")["reason"] == d.answer("b")["reason"] == "length"
    assert d.broken() == set()


def test_a_parked_request_is_retracted_before_a_running_one(drive: Any) -> None:
    """Else ``a`` and ``b`` retract each other forever, each parked while the other runs."""
    d = drive(page_size=8, total_tokens=24, chunk=8, draft=4, overlap=True, reserve=0)
    d.submit(None, "first", [1], 0).submit(None, "a", [*range(10, 18)], 1).step()
    d.submit(None, "b", [*range(20, 28)], 1).drain()
    assert d.answer("a")["reason"] == d.answer("b")["reason"] == "length"
    assert "T-PLAIN-RETRACT" in [event[0] for event in d.events]
    assert d.broken() == set()


def test_a_lone_request_that_outgrows_the_pool_is_told(drive: Any) -> None:
    """T-OOM, and T-PLAIN-ABORT for a request without a session."""
    d = drive(total_tokens=6).open("s").submit("s", "a", [1, 2, 3], 20).drain()
    assert [e[0] for e in d.events][-1] == "T-OOM"
    assert d.answer("a")["reason"] == "abort"
    assert "out of memory" in d.answer("a")["message"]
    d.submit(None, "b", [1, 2, 3], 20).drain()
    assert [e[0] for e in d.events][-1] == "T-PLAIN-ABORT"
    assert d.broken() == set()


def test_a_waiting_request_is_not_stalled_by_idle_slots(drive: Any) -> None:
    """INV-PROGRESS: memory and rows held only by idle slots are taken for the request."""
    d = drive(total_tokens=8, rows=1).open("s", "t").submit("s", "r1", [1, 2, 3, 4], 2).drain()
    d.submit("t", "r2", [5, 6, 7, 8], 3).drain()
    assert d.answer("r2")["reason"] == "length"
    assert ("T-DISCARD", "s", None, {"u": 4, "swa_u": 0}) in d.events


def test_what_can_never_fit_the_window_pool_is_told(drive: Any) -> None:
    d = drive(window=2, swa_tokens=4).open("s").submit("s", "r", [1] * 9, 2).drain()
    assert d.answer("r")["reason"] == "abort"
    assert [e[0] for e in d.events][-1] == "T-OOM"
    d = drive(window=2, swa_tokens=6, chunk=2).open("s").submit("s", "r", [1] * 9, 2).drain()
    assert d.answer("r")["reason"] == "length"


def test_admission_sets_memory_aside(drive: Any) -> None:
    """``reserve``: room for a share of the tokens still to be generated by running requests."""
    admitted = []
    for reserve in (0, 50, 100):
        d = drive(total_tokens=30, reserve=reserve)
        d.submit(None, "a", [1, 2], 20).step().submit(None, "b", [3, 4], 20).step()
        admitted.append(d.engine.scheduler.reqs["b"].phase == "running")
    assert admitted == [True, True, False]
    d.drain()
    assert d.answer("b")["reason"] == "length"


def test_stop_tokens_and_lengths(drive: Any) -> None:
    d = drive().submit(None, "a", [1, 2], 6).drain()
    tokens = d.answer("a")["tokens"]
    d.submit(None, "b", [1, 2], 6, stop=(tokens[2],)).drain()
    assert d.answer("b")["tokens"] == tokens[:3]
    assert (d.answer("a")["reason"], d.answer("b")["reason"]) == ("length", "stop")
    d = drive(draft=4).submit(None, "b", [1, 2], 6, stop=(tokens[2],)).drain()
    assert d.answer("b")["tokens"] == tokens[:3]


def test_a_round_commits_what_was_asked_for(drive: Any) -> None:
    """A request for accepted tokens is capped, and applies to the next round only."""
    d = drive(draft=3).submit(None, "a", [1, 2], 40).step()
    committed = []
    for asked in (1, 4, 9):
        d.do("accept", rid="a", tokens=asked).step()
        committed.append(d.last("T-DECODE")["k"])
    assert committed == [1, 4, 4]
    assert d.engine.scheduler.rounds.asked == {} and d.broken() == set()


def test_draft_slack_is_kept_between_rounds(drive: Any) -> None:
    """T-DECODE: A is at least C + 1 + draft x topk, but never past the context."""
    d = drive(draft=3, topk=2, context_len=30).submit(None, "a", [1, 2], 28).step(2)
    req = d.engine.scheduler.reqs["a"]
    while not d.engine.ended:
        event = d.last("T-DECODE")
        assert 1 <= event["k"] <= 4
        assert req.kv_allocated_len >= min(30, req.kv_committed_len)
        d.step()
    assert any(e[3]["d"] == 0 for e in d.events if e[0] == "T-DECODE")
    assert d.engine.ended[0]["A"] <= 30
    assert d.broken() == set()


def test_restored_turns_reuse_whole_pages_where_hardware_needs_it(drive: Any) -> None:
    """The ``aligned_reuse`` profile (#32163)."""
    for aligned, matched in ((False, 6), (True, 4)):
        d = drive(page_size=4, aligned_reuse=aligned).open("s").submit("s", "a", [1] * 5, 2)
        d.drain().submit("s", "b", [2], 2).step()
        assert d.last("T-RESTORE")["C"] == matched
        assert d.broken() == set()
