"""A session ends before its turn does. The client is still owed the same answer."""

from __future__ import annotations

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.client import Client
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof_model.spec.profiles import PROFILES
from tests.turns import STEP, turn


def test_a_turn_that_was_too_long_when_it_was_read_may_end_after_its_session() -> None:
    """INV-ANSWER.unasked: 6 tokens of history, 38 new and 5 of the answer exceed 48. Other requests
    go first. The doomed turn waits, and its session is reaped meanwhile."""
    opens: list[Command] = [{"do": "open", "session": sid} for sid in ("s1", "s2", "s3")]
    first = [turn("r1", 1, 2, None), turn("r2", 1, 0, "s1"), turn("r3", 6, 0, "s2")]
    commands = [*opens, *first, turn("r4", 1, 0, "s3"), STEP, turn("r5", 38, 5, "s2"), STEP]
    commands += [{"do": "tick", "seconds": 300}, STEP]
    referee = play(InProcessEngine(), Setup(CONFIGS["p4-vllm"]), commands)
    assert "T-REAP" in {event[0] for event in referee.log[-2].events}
    assert not [violation for entry in referee.log for violation in entry.violations]
    late = referee.client.requests["r5"]
    assert (late.reason, late.left, late.most) == ("abort", True, 49)


def test_a_turn_of_a_session_that_was_opened_anew_has_no_history() -> None:
    """INV-CONTENT.tokens: closed, opened, asked and closed again before anything is answered."""
    opens: Command = {"do": "open", "session": "s1"}
    close: Command = {"do": "close", "session": "s1"}
    commands = [opens, turn("r1", 1, 0, "s1"), STEP, close, opens, turn("r2", 1, 2, "s1"), close]
    referee = play(InProcessEngine(), Setup(CONFIGS["p4-vllm"]), [*commands, STEP])
    assert len(referee.client.requests["r2"].prompt) == 1
    for command in ({"do": "abort_all"}, STEP):
        assert not referee.do(command)
    assert referee.client.requests["r2"].reason == "abort"


def test_an_aborted_turn_keeps_its_prompt_when_its_session_is_opened_anew() -> None:
    """INV-CONTENT.tokens on vLLM 0.33.0, where an abort ends the session. The aborted turn also
    followed an open in the iteration that read it, but not the later one."""
    client = Client(choices=PROFILES["vllm"].choices, aborts_close=True)
    opens: Command = {"do": "open", "session": "s1"}

    def reads(*commands: Command) -> None:
        for command in commands:
            client.sends(command)
        client.reads(len(commands))

    reads(opens, turn("r1", 1, 1, "s1"), turn("r2", 1, 2, "s1"))
    client.hears({"type": "opened", "session": "s1"})
    client.hears({"type": "finish", "rid": "r1", "reason": "length", "tokens": [7]})
    client.settle({}, runs=True)
    assert client.requests["r2"].prompt == [1, 1]
    reads({"do": "abort_all"}, opens, turn("r3", 1, 0, "s1"))
    client.hears({"type": "closed", "session": "s1"})
    client.hears({"type": "opened", "session": "s1"})
    client.hears({"type": "finish", "rid": "r2", "reason": "abort", "tokens": [180]})
    client.settle({}, runs=True)
    assert client.requests["r2"].prompt == [1, 1]
    assert client.requests["r3"].prompt == [1]
