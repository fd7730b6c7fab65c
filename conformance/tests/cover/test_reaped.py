"""T-REAP of a session whose turn is detached: what its client is owed stays what it was."""

from __future__ import annotations

from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.lockstep.referee import Setup, play
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import CONFIGS

STEP: Command = {"do": "step", "n": 1}


def turn(rid: str, tokens: int, max_new: int) -> Command:
    prompt = list(range(1, tokens + 1))
    return {
        "do": "submit",
        "session": "s1",
        "rid": rid,
        "tokens": prompt,
        "max_new": max_new,
        "stop": [],
    }


def test_a_turn_that_was_too_long_when_it_was_read_may_end_after_its_session() -> None:
    """INV-ANSWER.unasked: 6 tokens of history, 38 new ones and 5 of the answer, of 48. Another
    prompt goes first, in chunks, so that the doomed turn waits, and the session is reaped."""
    other: Command = {**turn("r0", 30, 1), "session": None}  # type: ignore[typeddict-item]
    commands: list[Command] = [{"do": "open", "session": "s1"}, turn("r1", 6, 0), STEP, other, STEP]
    commands += [turn("r2", 38, 5), STEP, {"do": "tick", "seconds": 300}, *[STEP] * 4]
    referee = play(InProcessEngine(), Setup(CONFIGS["p4-vllm"]), commands)
    assert "T-REAP" in {event[0] for entry in referee.log for event in entry.events}
    assert not [each for entry in referee.log for each in entry.violations]
    assert referee.client.requests["r2"].reason == "abort"
    assert referee.client.requests["r2"].left
