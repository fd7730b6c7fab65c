"""Knowledge of a client: histories grow only by the answers of finished turns."""

from __future__ import annotations

from typing import Any

import pytest

from slotproof.lockstep.client import Client
from slotproof.protocol.snapshot import SessionView


@pytest.fixture
def client() -> Client:
    made = Client()
    made.hears({"type": "opened", "session": "s1"})
    return made


def sends(client: Client, rid: str, tokens: list[int], session: str | None = "s1") -> None:
    fields = {"session": session, "rid": rid, "tokens": tokens, "max_new": 4, "stop": []}
    client.sends({"do": "submit", **fields})


def finish(client: Client, rid: str, reason: str = "length", tokens: Any = (7,)) -> None:
    client.hears({"type": "finish", "rid": rid, "reason": reason, "tokens": list(tokens)})


def test_a_finished_turn_becomes_history(client: Client) -> None:
    """INV-HISTORY: prompt and output."""
    sends(client, "r1", [1, 2])
    assert client.prompt_of("r1") == [1, 2]
    finish(client, "r1", tokens=[7, 8])
    assert client.history == {"s1": [1, 2, 7, 8]}
    sends(client, "r2", [3])
    assert client.prompt_of("r2") == [1, 2, 7, 8, 3]
    sent = client.requests["r1"]
    assert (sent.answers, sent.reason, sent.prompt, sent.output) == (1, "length", [1, 2], [7, 8])


def test_an_aborted_turn_leaves_no_history(client: Client) -> None:
    """INV-HISTORY: as after the last finished turn."""
    sends(client, "r1", [1, 2])
    finish(client, "r1", reason="abort")
    assert client.history == {"s1": []}
    assert client.requests["r1"].answers == 1


def test_a_plain_request_has_no_history(client: Client) -> None:
    sends(client, "p", [1, 2], session=None)
    assert client.prompt_of("p") == [1, 2]
    finish(client, "p")
    assert client.history == {"s1": []}


def test_a_closed_session_is_forgotten(client: Client) -> None:
    sends(client, "r1", [1])
    client.hears({"type": "closed", "session": "s1"})
    assert client.history == {} and client.prompt_of("r1") is None
    finish(client, "r1")
    assert client.history == {}, "a late answer opens nothing"


def test_a_session_that_is_reaped_beside_its_turn_may_keep_its_name() -> None:
    """SGLang 0.5.23: an oversized turn does not belong to the session, but delays its end."""
    client = Client(hears_closes=False)
    view: SessionView = {
        "open": True,
        "closing": False,
        "inflight": None,
        "history": 0,
        "hash": None,
    }

    def later(seconds: int) -> set[str]:
        """Return the answers allowed for an open of the session, ``seconds`` later."""
        client.sends({"do": "tick", "seconds": seconds})
        client.settle({}, runs=False)
        client.sends({"do": "open", "session": "s1"})
        client.reads(1)
        return client.sessions["s1"].asked.pop().answers

    client.sends({"do": "open", "session": "s1"})
    sends(client, "r1", [1])
    client.reads(2)
    client.hears({"type": "opened", "session": "s1"})
    client.settle({"s1": view}, runs=True)
    assert later(301) == {"opened", "refused"}
    finish(client, "r1", reason="abort")
    assert later(1) == {"opened", "refused"}, "a reaper comes by each second"
    assert later(1) == {"opened"}


def test_who_was_never_sent_is_not_known(client: Client) -> None:
    finish(client, "r9")
    assert client.requests == {} and client.prompt_of("r9") is None


def test_the_same_id_again_is_the_same_request(client: Client) -> None:
    """INV-ANSWER counts answers by id."""
    sends(client, "r1", [1])
    sends(client, "r1", [2])
    assert client.requests["r1"].tokens == [1]
    finish(client, "r1")
    finish(client, "r1")
    assert client.requests["r1"].answers == 2


def test_pause_counts_from_when_it_is_read(client: Client) -> None:
    """INV-PROGRESS: steps and time are not read from the inbox."""
    for do in ("pause", "flush", "continue"):
        client.sends({"do": do})
    client.sends({"do": "step", "n": 1})
    client.sends({"do": "tick", "seconds": 1})
    assert len(client.unread) == 3 and not client.paused
    client.reads(2)
    assert client.paused and [command["do"] for command in client.unread] == ["continue"]
    client.reads(1)
    assert not client.paused and client.unread == []


ABORTED = ["open", "submit", "abort"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([*ABORTED], ["opened", "closed"]),
        ([*ABORTED, "close"], ["opened", "closed", "refused"]),
        ([*ABORTED, "close", "open"], ["opened", "closed", "refused", "opened"]),
        ([*ABORTED, "open", "submit", "abort"], ["opened", "closed", "opened", "closed"]),
        ([*ABORTED, "submit", "abort"], ["opened", "closed"]),
        ([*ABORTED, "open", "close"], ["opened", "closed", "opened", "closed"]),
        ([*ABORTED, "open", "close"], ["opened", "refused", "closed"]),
        (["open", "submit", "close", "abort"], ["opened", "closed"]),
        ([*ABORTED], ["opened"]),  # the turn was refused, so nothing ended
        ([*ABORTED, "close", "open"], ["opened", "closed", "opened"]),
        ([*ABORTED, "submit", "close", "open"], ["opened", "refused", "closed"]),  # the open is
    ],
)
def test_an_abort_that_ends_its_session_is_answered_in_its_place(
    asked: list[str], told: list[str]
) -> None:
    """INV-SESSION: one iteration reads all commands, and answers them in this order."""
    client = Client(aborts_close=True)
    rids = iter(["r1", "r2"])
    for do in asked:
        if do == "submit":
            rid = next(rids)
            sends(client, rid, [1])
        else:
            client.sends(
                {"do": "abort", "rid": rid} if do == "abort" else {"do": do, "session": "s1"}
            )
    client.reads(len(asked))
    for kind in told:
        client.hears({"type": kind, "session": "s1"})  # type: ignore[typeddict-item]  # by name
    assert client.unexpected == []
    assert {command.do for command in client.sessions["s1"].asked} <= {"abort"}, "one that may come"
