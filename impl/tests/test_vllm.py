"""Choices of vLLM: publishing on loan, dropping an answer's last token, queueing turns."""

from __future__ import annotations

from typing import Any

import pytest

LENDS = {"page_size": 4, "loan_publishes": True}


def turn1(d: Any) -> Any:
    """Run a turn that leaves Q = 4 and C = A = 7 in the slot, with pages of 4."""
    return d.open("s").submit("s", "r1", [5, 6, 7, 8], 4).drain()


def submits(d: Any) -> list[str]:
    """Return the turns in order of their start."""
    return [event[2] for event in d.events if event[0] == "T-SUBMIT"]


def told(d: Any) -> list[str]:
    """Return the messages to clients, in order: types for sessions, IDs for requests."""
    return [message.get("rid", message["type"]) for message in d.messages]


# A turn on loan publishes ----------------------------------------------------


def test_a_turn_on_loan_publishes_and_its_slot_goes_along(drive: Any) -> None:
    """T-INSERT, INV-LOAN.prefix."""
    d = turn1(drive(**LENDS)).submit("s", "r2", list(range(20, 29)), 3).step()
    assert d.tids == ["T-SUBMIT", "T-RESTORE", "T-EXTEND", "T-INSERT"]
    insert = d.last("T-INSERT")
    assert (insert["q"], insert["dup"], insert["locked"]) == (16, 0, 12)
    slot, req = d.engine.cache.slots["s"], d.engine.scheduler.reqs["r2"]
    assert slot.is_active and slot.last_node is req.last_node
    assert (slot.cache_protected_len, slot.kv_committed_len, slot.kv_allocated_len) == (16, 17, 17)
    assert d.broken() == set() and d.figures()[2] == 16
    prompt = [*d.engine.controller.sessions["s"].history, *range(20, 29)]
    d.submit(None, "p", prompt, 1).step()
    assert d.last("T-MATCH")["m"] == 16, "whoever begins with the same tokens finds them"
    assert d.drain().broken() == set()
    d.do("close", session="s").step()
    assert d.figures() == (100 - d.figures()[1], d.figures()[1], 0, 0, 0)


def test_what_the_tree_had_is_freed(drive: Any) -> None:
    """T-INSERT, `dup`: another request published the same pages before."""
    d = turn1(drive(**LENDS))
    prompt = [*d.engine.controller.sessions["s"].history, *range(20, 25)]
    d.submit(None, "p", prompt, 1).drain().submit("s", "r2", list(range(20, 25)), 3).step()
    assert d.last("T-INSERT")["dup"] == 8
    assert d.broken() == set() and d.drain().broken() == set()


@pytest.mark.parametrize("how", ["abort", "retract", "close"])
@pytest.mark.parametrize("retract", ["keep", "wipe"])
def test_what_was_published_on_loan_ends_well(drive: Any, how: str, retract: str) -> None:
    d = turn1(drive(**LENDS, retract=retract)).submit("s", "r2", list(range(20, 29)), 3).step()
    d.do(how, **{"abort": {"rid": "r2"}, "close": {"session": "s"}}.get(how, {})).step()
    assert d.broken() == set() and d.drain().broken() == set()


def test_otherwise_a_loan_publishes_nothing(drive: Any) -> None:
    d = turn1(drive(page_size=4)).submit("s", "r2", list(range(20, 29)), 3).step()
    assert "T-INSERT" not in d.tids


# Memory past the end of a round -------------------------------------------------


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_round_allocated_past_the_end_stays_with_the_slot(drive: Any, keeps: bool) -> None:
    """T-SAVE, T-RESTORE: C is cut, A is not, and the next turn needs no more."""
    d = drive(draft=4, keeps_slack=keeps).open("s").submit("s", "r1", [5, 6], 2).step()
    d.do("accept", rid="r1", tokens=5).step()
    slot = d.engine.cache.slots["s"]
    assert (slot.kv_committed_len, slot.kv_allocated_len) == (4, 7 if keeps else 4)
    available = d.figures()[0]
    d.submit("s", "r2", [8, 9], 1).step()
    assert available - d.figures()[0] == (0 if keeps else 2)
    assert d.drain().broken() == set()
    d.do("close", session="s").step()
    assert d.figures() == (98, 2, 0, 0, 0)


# The last token of an answer ---------------------------------------------------


@pytest.mark.parametrize("draft", [0, 4])
def test_the_history_leaves_out_the_last_token(drive: Any, draft: int) -> None:
    """INV-HISTORY: the client has the whole answer, and the next prompt begins before its end."""
    d = drive(drops_last=True, draft=draft).open("s").submit("s", "r1", [5, 6], 6).drain()
    answer, session = d.answer("r1")["tokens"], d.engine.controller.sessions["s"]
    assert len(answer) == 6 and session.history == [5, 6, *answer[:-1]]
    assert d.broken() == set()
    slot = d.engine.cache.slots["s"]
    assert slot.kv_committed_len == slot.kv_allocated_len == 7
    d.submit("s", "r2", [9], 2).step()
    assert d.engine.scheduler.reqs["r2"].origin_input_ids == [5, 6, *answer[:-1], 9]
    assert d.drain().broken() == set()


def test_the_stop_token_is_the_last_one(drive: Any) -> None:
    free = drive().open("s").submit("s", "r1", [5, 6], 6).drain().answer("r1")["tokens"]
    d = drive(drops_last=True).open("s").submit("s", "r1", [5, 6], 6, (free[2],)).drain()
    assert (d.answer("r1")["reason"], d.answer("r1")["tokens"]) == ("stop", free[:3])
    assert d.engine.controller.sessions["s"].history == [5, 6, *free[:2]]


def test_of_no_answer_nothing_is_left_out(drive: Any) -> None:
    d = drive(drops_last=True).open("s").submit("s", "r1", [5, 6], 0).drain()
    assert d.engine.controller.sessions["s"].history == [5, 6]


# Waiting turns ------------------------------------------------------------------


def queued(drive: Any, **config: Any) -> Any:
    """r1 is in flight, r2 and r3 wait."""
    d = drive(queues_turns=True, **config).open("s").submit("s", "r1", [5, 6], 2)
    return d.submit("s", "r2", [7], 2).submit("s", "r3", [], 1).step()


def test_turns_wait_for_each_other(drive: Any) -> None:
    """T-SUBMIT on the start of a turn: in order of arrival, after the previous turn."""
    d = queued(drive)
    assert submits(d) == ["r1"] and list(d.engine.scheduler.reqs) == ["r1"]
    d.drain()
    assert submits(d) == ["r1", "r2", "r3"] and told(d) == ["opened", "r1", "r2", "r3"]
    answers = [d.answer(rid)["tokens"] for rid in ("r1", "r2", "r3")]
    history = [5, 6, *answers[0], 7, *answers[1], *answers[2]]
    assert d.engine.controller.sessions["s"].history == history
    assert "T-REJECT" not in [event[0] for event in d.events] and d.broken() == set()


def test_a_close_waits_behind_them(drive: Any) -> None:
    """T-CLOSE-DEFER if only the turn in flight is left before the close."""
    d = queued(drive).do("close", session="s").do("close", session="s").submit("s", "r4", [1], 1)
    d.step()
    assert told(d)[1:] == ["refused", "r4", "r1"], "what comes after the close is refused"
    assert d.answer("r4")["reason"] == "abort" and not d.engine.controller.sessions["s"].closing
    d.drain()
    assert told(d)[3:] == ["r1", "r2", "r3", "closed"]
    ends = [event[0] for event in d.events if event[0] in ("T-CLOSE-DEFER", "T-REAP", "T-SUBMIT")]
    assert ends == ["T-SUBMIT", "T-SUBMIT", "T-SUBMIT", "T-CLOSE-DEFER", "T-REAP"]
    assert d.broken() == set() and d.engine.cache.slots == {}


def test_an_abort_lets_the_next_one_in(drive: Any) -> None:
    d = queued(drive).do("abort", rid="r1").step()
    assert told(d) == ["opened", "r1"] and submits(d) == ["r1", "r2"]
    d.drain()
    assert told(d) == ["opened", "r1", "r2", "r3"] and d.broken() == set()


def test_a_turn_that_waits_is_aborted_where_it_waits(drive: Any) -> None:
    """A waiting turn holds no memory: its abort has no event."""
    d = queued(drive).do("abort", rid="r2").step()
    assert told(d)[1] == "r2" and d.answer("r2")["tokens"] == []
    assert not [event for event in d.events if event[2] == "r2"]
    d.drain()
    assert submits(d) == ["r1", "r3"]


def test_all_of_them_are_aborted(drive: Any) -> None:
    d = queued(drive).do("abort_all").step()
    assert sorted(told(d)[1:]) == ["r1", "r2", "r3"] and d.broken() == set()
    assert submits(d) == ["r1"] and d.engine.scheduler.reqs == {}


def test_a_close_comes_where_nothing_waits_any_more(drive: Any) -> None:
    """r3 has neither history nor tokens once r1 and r2 are gone. The close is next."""
    d = queued(drive).do("close", session="s")
    d.do("abort", rid="r1").do("abort", rid="r2").step()
    assert told(d)[1:] == ["r1", "r2", "r3", "closed"]
    assert d.answer("r3")["message"] == "the prompt is empty"
    assert d.tids[-1] == "T-CLOSE" and d.broken() == set()


def test_a_turn_that_has_become_too_long_is_doomed_when_it_is_taken(drive: Any) -> None:
    """T-DOOM: how long its prompt is nobody knows before."""
    d = drive(queues_turns=True, context_len=10).open("s").submit("s", "r1", [5, 6], 4)
    d.submit("s", "r2", [1, 2], 3).submit("s", "r3", [1], 1).drain()
    assert d.answer("r2")["message"].startswith("prompt and max_new exceed the context")
    assert d.answer("r3")["reason"] == "length" and submits(d) == ["r1", "r2", "r3"]


def test_otherwise_a_turn_too_many_is_rejected(drive: Any) -> None:
    d = drive().open("s").submit("s", "r1", [5, 6], 2).submit("s", "r2", [7], 2).step()
    assert d.answer("r2")["reason"] == "abort"
