"""Every legal command of a client is answered, exactly once."""

from __future__ import annotations

from typing import Any

import pytest


def texts(d: Any) -> list[tuple[str, str]]:
    return [(m["type"], m["message"]) for m in d.engine.messages]


def test_open_and_close_twice(drive: Any) -> None:
    d = drive().open("s", "s").step()
    assert texts(d) == [("opened", ""), ("refused", "the session is open already")]
    d.do("close", session="s").do("close", session="s").do("close", session="x").step()
    assert texts(d) == [
        ("closed", ""),
        ("refused", "no such session is open"),
        ("refused", "no such session is open"),
    ]
    d.open("s").step()
    assert texts(d) == [("opened", "")] and d.engine.controller.sessions["s"].open


def test_close_while_closing(drive: Any) -> None:
    d = drive().open("s").submit("s", "r", [1], 9).do("close", session="s").step()
    d.do("close", session="s").submit("s", "r2", [1], 1).step()
    assert texts(d)[0] == ("refused", "the session is closing already")
    assert d.answer("r2")["message"] == "session 's' is closing"
    assert d.tids[:2] == ["T-REJECT", "T-PLAIN-ABORT"]


@pytest.mark.parametrize(
    ("sid", "tokens", "max_new", "message"),
    [
        ("x", [1], 1, "session 'x' is not open"),
        ("s", [], 1, "the prompt is empty"),
        (None, [], 1, "the prompt is empty"),
        (None, [1] * 99, 2, "prompt and max_new exceed the context of 100 tokens"),
    ],
)
def test_requests_that_never_come_to_be(
    drive: Any, sid: str | None, tokens: list[int], max_new: int, message: str
) -> None:
    d = drive().open("s").step().submit(sid, "r", tokens, max_new).step()
    assert d.tids == []
    assert d.answer("r") == {
        "type": "finish",
        "rid": "r",
        "reason": "abort",
        "tokens": [],
        "message": message,
    }


def test_a_prompt_larger_than_the_pool(drive: Any) -> None:
    d = drive(total_tokens=10).submit(None, "r", [1] * 11, 2).step()
    assert d.answer("r")["message"] == "the prompt is larger than the pool of 10 tokens"


def test_a_second_turn_in_flight_is_a_stub(drive: Any) -> None:
    """T-REJECT (#22790): the turn in flight, slot and history are not touched."""
    d = drive().open("s").submit("s", "r1", [1, 2], 4).step().submit("s", "r2", [3], 4).step()
    assert d.engine.events[:2] == [
        ("T-REJECT", "s", "r2", {"prompt": 1}),
        ("T-PLAIN-ABORT", None, "r2", {"u": 0, "swa_u": 0}),
    ]
    assert d.answer("r2")["reason"] == "abort"
    assert d.engine.controller.sessions["s"].inflight.rid == "r1"
    d.drain()
    assert d.answer("r1")["reason"] == "length"


def test_nothing_to_generate(drive: Any) -> None:
    d = drive().open("s").submit("s", "r", [1, 2], 0).step()
    assert d.tids == ["T-OPEN", "T-SUBMIT", "T-MATCH", "T-EXTEND", "T-SAVE"]
    assert d.answer("r")["tokens"] == []
    assert d.engine.controller.sessions["s"].history == [1, 2]


def test_abort_of_unknown_and_answered_requests(drive: Any) -> None:
    d = drive().do("abort", rid="x").submit(None, "r", [1], 1).step().do("abort", rid="r").step()
    assert d.engine.messages == []
    assert d.answer("r")["reason"] == "length"


def test_a_request_id_in_flight(drive: Any) -> None:
    d = drive().submit(None, "r", [1], 5).submit(None, "r", [2], 5).step()
    assert texts(d) == [("finish", "a request with this ID is already in flight")]


def test_abort_all(drive: Any) -> None:
    d = drive(max_running=2, chunk=4).open("s").submit("s", "a", [1, 2], 9).step()
    d.submit(None, "b", [3, 4, 5, 6, 7], 9).submit(None, "c", [8], 9).step(2)
    d.do("abort_all").step()
    assert d.tids == ["T-ABORT", "T-PLAIN-ABORT", "T-PLAIN-ABORT"]
    assert d.engine.scheduler.reqs == {}
    assert d.broken() == set()


def test_pause_reads_the_inbox_and_runs_nothing(drive: Any) -> None:
    d = drive().submit(None, "a", [1, 2], 9).step().do("pause").step()
    d.open("s").submit("s", "b", [3], 3).step()
    assert d.tids == ["T-OPEN", "T-SUBMIT"]
    assert [c["do"] for c in d.engine.consumed] == ["open", "submit"]
    assert d.broken() == set()
    d.do("continue").step()
    assert "T-EXTEND" in d.tids


def test_evict_and_flush(drive: Any) -> None:
    d = drive().submit(None, "a", [1, 2, 3, 4], 1).step().do("evict", tokens=3).step()
    assert d.last("T-EVICT") == {"n": 3, "swa_n": 0}
    d.do("evict", tokens=0).do("evict", tokens=-1).step()
    assert d.tids == []
    d.do("flush").do("flush").step()
    assert d.tids == ["T-EVICT"]
    assert d.figures() == (100, 0, 0, 0, 0)


def test_retract_with_nobody_running(drive: Any) -> None:
    assert drive().do("retract").step().tids == []


def test_retract_of_a_request_just_prefilled(drive: Any) -> None:
    """Net-zero: retracted and admitted again within an iteration."""
    d = drive().submit(None, "a", [1, 2], 5).step().do("retract").step()
    assert d.tids == ["T-PLAIN-RETRACT", "T-MATCH", "T-EXTEND", "T-INSERT"]
    assert d.broken() == set()


def test_idle_sessions_time_out(drive: Any) -> None:
    """T-REAP: a turn in flight is activity, and so is a new turn."""
    d = drive(timeout=60).open("s", "t").submit("t", "r", [1, 2], 3).step()
    d.tick(59)
    assert d.tids == []
    d.tick(1)
    assert d.engine.events == [("T-REAP", "s", None, {"u": 0, "swa_u": 0})]
    assert texts(d) == [("closed", "the session timed out")]
    d.drain().tick(59)
    assert d.tids == []
    d.tick(1)
    assert d.engine.events == [("T-REAP", "t", None, {"u": 2, "swa_u": 0})]
    assert d.figures() == (98, 2, 0, 0, 0)


@pytest.mark.parametrize(
    "command",
    [
        {},
        {"do": "dance"},
        {"do": "open"},
        {"do": "submit", "session": "s", "rid": "r"},
        {"do": "evict", "tokens": "3"},
    ],
)
def test_what_is_no_command_is_refused_at_the_door(drive: Any, command: dict[str, Any]) -> None:
    d = drive()
    with pytest.raises(ValueError, match=":"):
        d.engine.do(command)
    assert d.engine.inbox == []
