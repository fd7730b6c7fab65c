"""The life of a session slot, by the museum's numbers: turn 1 leaves Q = 4, C = A = 10."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def turn1(d: Any) -> Any:
    return d.open("s").submit("s", "r1", [5, 6, 7, 8], 7).step(7)


def slot(d: Any) -> tuple[int, int, int, int]:
    """C, A, Q, E of session s."""
    s = d.engine.cache.slots["s"]
    return (s.kv_committed_len, s.kv_allocated_len, s.cache_protected_len, s.swa_evicted_seqlen)


def test_a_finished_turn_leaves_a_slot(drive: Any) -> None:
    """T-SAVE: C = N + output - 1, for the last token has no KV yet."""
    d = turn1(drive())
    assert slot(d) == (10, 10, 4, 0)
    assert d.figures() == (90, 0, 4, 6, 0)
    assert len(d.engine.controller.sessions["s"].history) == 11


def test_a_lent_slot_is_counted_on_the_turn(drive: Any) -> None:
    """INV-ONCE (#22213): 87 + 4 + 9 = 100."""
    d = turn1(drive()).submit("s", "r2", [1, 2], 3).step()
    assert d.tids == ["T-SUBMIT", "T-RESTORE", "T-EXTEND"]
    assert d.figures() == (87, 0, 4, 0, 9)
    assert d.engine.cache.slots["s"].is_active
    assert slot(d) == (10, 10, 4, 0)  # stale while lent
    d.drain()
    assert slot(d) == (15, 15, 4, 0)
    assert d.broken() == set()


def test_a_refused_turn_leaves_the_slot_as_it_was(drive: Any) -> None:
    """T-REFUSE (#22753, #20476): restoring again changes nothing further."""
    d = turn1(drive(max_running=1)).submit(None, "busy", [9], 9).step()
    d.submit("s", "r2", [1, 2], 3).step(3)
    assert d.tids == ["T-RESTORE", "T-REFUSE", "T-DECODE"]
    assert slot(d) == (10, 10, 4, 0)
    assert not d.engine.cache.slots["s"].is_active
    req = d.engine.scheduler.reqs["r2"]
    told = Counter(e[0] for e in d.events if e[2] == "r2")
    assert told == {"T-SUBMIT": 1, "T-RESTORE": 3, "T-REFUSE": 3}
    assert (req.req_pool_idx, req.kv_allocated_len, req.last_node) == (-1, 0, None)
    assert d.broken() == set()
    d.drain()
    assert d.answer("r2")["reason"] == "length"


def test_a_refusal_without_slot_drops_the_lock(drive: Any) -> None:
    d = drive(max_running=1).submit(None, "p", [1, 2, 3], 1).step()
    d.submit(None, "busy", [9], 9).step().submit(None, "q", [1, 2, 3], 1).step()
    assert d.last("T-MATCH") == {"m": 2, "locked": 2, "swa_locked": 0}
    assert d.last("T-REFUSE") == {"u": 2, "swa_u": 0}
    assert d.engine.kv.tree.protected == 1  # the lock of "busy"


@pytest.mark.parametrize("page_size", [1, 4])
def test_free_tail_before_a_retracted_turn_comes_back(drive: Any, page_size: int) -> None:
    """T-RESTORE (#22862): draft slack past C is freed, in whole pages."""
    d = drive(draft=4, page_size=page_size).open("s").submit("s", "r1", [5], 90).step(2)
    [req] = d.engine.scheduler.running_reqs()
    while req.kv_allocated_len - req.kv_committed_len < 4:
        d.step()
    c, a = req.kv_committed_len, req.kv_allocated_len
    before = d.engine.kv.allocators["full"].available_size()
    d.do("pause").do("retract").step()
    assert slot(d)[:2] == (c, a)
    assert d.engine.kv.allocators["full"].available_size() == before
    d.do("continue").step()
    assert d.tids == ["T-RESTORE", "T-EXTEND"]
    assert slot(d)[:2] == (c, c)
    pages = -(-a // page_size) - -(-(c + 1) // page_size)
    assert d.engine.kv.allocators["full"].available_size() == before + pages * page_size
    assert d.broken() == set()


@pytest.mark.parametrize("config", [{}, {"page_size": 4}, {"window": 1, "swa_tokens": 100}])
def test_trim_at_the_finished_length(drive: Any, config: dict[str, Any]) -> None:
    """T-SAVE (#22897, #22900): C, A and the cursor end at N + F, outputs at F."""
    overshoots = 0
    for number in range(12):
        d = drive(draft=4, **config).open("s").submit("s", f"r{number}", [5, 6], 6).drain()
        [end] = d.engine.ended
        target, page = 2 + 6, d.config.page_size
        m = target if end["E"] <= target else target // page * page
        assert slot(d)[:2] == (min(end["C"], m), min(end["A"], m))
        assert slot(d)[3] == min(end["E"], m)
        assert len(d.answer(f"r{number}")["tokens"]) == end["finished"] == 6
        assert len(d.engine.controller.sessions["s"].history) == target
        assert d.broken() == set()
        overshoots += end["C"] > target
    assert overshoots


def test_a_lost_window_discards_the_slot(drive: Any) -> None:
    """T-DISCARD: after a cut at the cursor, the next token's window is gone."""
    for number in range(30):
        d = drive(draft=6, window=1, swa_tokens=100).open("s").submit("s", f"r{number}", [5], 3)
        d.drain()
        if d.engine.ended[0]["E"] > 4:  # the overshoot is larger than the window
            break
    assert slot(d)[3] == 4
    d.submit("s", "next", [1], 1).step()
    assert d.tids[:3] == ["T-SUBMIT", "T-DISCARD", "T-MATCH"]
    assert d.broken() == set()


def test_no_reusable_prefix_discards_the_slot(drive: Any) -> None:
    """T-DISCARD: without new tokens, the last token is recomputed, but the tree owns its page."""
    d = drive().open("s").submit("s", "r1", [5, 6], 3).step()
    d.do("pause").do("retract").do("abort", rid="r1").step()
    assert "T-DISCARD" in d.tids  # Q = 2 is more than the history, 0
    assert "T-ABORT-WAITING" in d.tids
    assert d.engine.cache.slots == {}


def test_a_turn_without_new_tokens_recomputes_the_last_one(drive: Any) -> None:
    d = turn1(drive()).submit("s", "r2", [], 2).step()
    assert d.last("T-RESTORE")["C"] == 10
    d.drain().submit("s", "r3", [], 0).step()
    assert d.last("T-EXTEND") == {"t": 13, "ahead": 0, "sampled": 0, "told": 0, "row": 0}
    assert slot(d)[0] == 13
    d.submit("s", "r4", [], 1).step()
    assert d.tids == ["T-SUBMIT", "T-RESTORE", "T-EXTEND", "T-SAVE"]
    assert d.broken() == set()


def test_abort_mid_flight_gives_everything_back(drive: Any) -> None:
    """T-ABORT (#22790): the slot disappears, the history stays."""
    d = turn1(drive()).submit("s", "r2", [1, 2], 3).step()
    history = list(d.engine.controller.sessions["s"].history)
    d.do("abort", rid="r2").step()
    assert d.events[-1] == ("T-ABORT", "s", "r2", {"u": 4, "swa_u": 0})
    assert d.figures() == (96, 4, 0, 0, 0)
    assert d.engine.cache.slots == {}
    session = d.engine.controller.sessions["s"]
    assert session.inflight is None
    assert session.history == history
    assert d.answer("r2")["reason"] == "abort"
    d.submit("s", "r3", [3], 2).step()
    assert d.last("T-MATCH")["m"] == 4
    assert d.broken() == set()


def test_abort_of_the_first_turn(drive: Any) -> None:
    d = drive().open("s").submit("s", "r1", [5, 6], 3).step().do("abort", rid="r1").step()
    assert d.tids == ["T-ABORT"]
    assert d.figures() == (98, 2, 0, 0, 0)
    assert d.broken() == set()


def test_abort_while_waiting_frees_nothing(drive: Any) -> None:
    d = turn1(drive()).submit("s", "r2", [1], 3).do("abort", rid="r2").step()
    assert d.tids == ["T-SUBMIT", "T-ABORT-WAITING"]
    assert slot(d) == (10, 10, 4, 0)


def test_abort_of_a_retracted_turn_cuts_the_slot_to_the_history(drive: Any) -> None:
    """T-ABORT-PARTIAL: INV-COVER allows no KV past the session's history."""
    d = turn1(drive(page_size=1)).submit("s", "r2", [1, 2], 9).step(3)
    d.do("retract").do("abort", rid="r2").step()
    assert d.tids == ["T-RETRACT", "T-ABORT-PARTIAL"]
    assert slot(d) == (11, 11, 4, 0)
    assert d.broken() == set()


def test_doomed_turn_leaves_the_slot_alone(drive: Any) -> None:
    """T-DOOM (#22273): the turn continues without the session, for one token, and is aborted."""
    d = turn1(drive()).submit("s", "r2", [1] * 90, 1).step()
    assert d.tids == ["T-SUBMIT", "T-DOOM", "T-MATCH", "T-EXTEND", "T-PLAIN-FINISH"]
    assert slot(d) == (10, 10, 4, 0)
    assert d.answer("r2")["reason"] == "abort"
    assert "context" in d.answer("r2")["message"]
    assert len(d.engine.controller.sessions["s"].history) == 11
    assert d.engine.controller.sessions["s"].inflight is None
    assert d.broken() == set()


def test_retract_wipe(drive: Any) -> None:
    d = turn1(drive(retract="wipe")).submit("s", "r2", [1, 2], 3).step()
    d.do("pause").do("retract").step()
    assert d.events[-1] == ("T-RETRACT-WIPE", "s", "r2", {"u": 4, "swa_u": 0})
    assert d.engine.cache.slots == {}
    assert d.figures() == (96, 4, 0, 0, 0)
    d.do("continue").drain()
    assert len(d.answer("r2")["tokens"]) == 3
    assert d.broken() == set()


def test_retract_of_a_first_turn_makes_the_slot(drive: Any) -> None:
    d = drive().open("s").submit("s", "r1", [5, 6], 6).step(2).do("pause").do("retract").step()
    assert d.tids == ["T-RETRACT"]
    assert slot(d) == (3, 3, 2, 0)
    assert d.engine.controller.sessions["s"].inflight is not None
    d.do("continue").step()
    assert d.tids == ["T-RESTORE", "T-EXTEND"]
    assert d.broken() == set()


def test_close_waits_for_the_turn(drive: Any) -> None:
    """T-CLOSE-DEFER, T-REAP (#21875)."""
    d = turn1(drive()).submit("s", "r2", [1, 2], 2).step().do("close", session="s").step()
    assert d.tids == ["T-CLOSE-DEFER", "T-DECODE", "T-SAVE", "T-REAP"]
    assert d.figures() == (96, 4, 0, 0, 0)
    assert not d.engine.controller.sessions["s"].open
    assert [m["type"] for m in d.engine.messages] == ["finish", "closed"]


@pytest.mark.parametrize(
    "config", [{"window": 3, "swa_tokens": 40}, {"page_size": 4, "window": 5, "swa_tokens": 40}]
)
def test_the_cursor_gives_back_what_no_window_reaches(drive: Any, config: dict[str, Any]) -> None:
    """T-SWA-ADVANCE: INV-WINDOW and INV-CURSOR, after every step."""
    d = drive(**config).open("s").submit("s", "r1", [5] * 6, 20)
    for _ in range(20):
        d.step()
        assert d.broken() == set()
    page, window = d.config.page_size, config["window"]
    assert slot(d)[3] == (25 - window) // page * page
    assert d.figures("swa")[3] == -(-25 // page) * page - slot(d)[3]
    d.submit("s", "r2", [1, 2], 2).step()
    assert "T-RESTORE" in d.tids
