"""Commands sent and cases met are counted. A run with too few cases proves nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.oracles import ORACLES
from slotproof.lockstep.reached import Reached
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.search import campaign, report
from slotproof.search.plan import Plan
from slotproof.support.statuses import CONFORMS, INCONCLUSIVE

OPEN: Command = {"do": "open", "session": "s"}
CLOSE: Command = {"do": "close", "session": "s"}
STEP: Command = {"do": "step", "n": 1}


def submit(rid: str, tokens: list[int], max_new: int = 1, session: str | None = "s") -> Command:
    sent = {"session": session, "rid": rid, "tokens": tokens, "max_new": max_new, "stop": []}
    return {"do": "submit", **sent}


def met(commands: list[Command], **config: Any) -> dict[str, Counter[str]]:
    """Return the counts for a list of commands."""
    setup = Setup(replace(EngineConfig(), **config))
    referee = setup.referee(InProcessEngine())
    reached = Reached(setup.config, referee.coverage)
    for command in commands:
        reached.sends(command, referee.client)
        assert referee.do(command) == []
        reached.saw(referee.log[-1], referee.client)
    return referee.coverage.reached


@pytest.mark.parametrize(
    ("commands", "cause"),
    [
        ([submit("r", [1]), STEP], "session not open"),
        ([OPEN, STEP, OPEN, STEP], "open again"),
        ([CLOSE, STEP], "close of none"),
        ([OPEN, submit("a", [1], 9), submit("b", [1]), STEP], "turn in flight"),
        ([OPEN, submit("a", [1], 9), CLOSE, STEP, submit("b", [1]), STEP], "session closing"),
        ([OPEN, submit("a", [1], 9), CLOSE, STEP, CLOSE, STEP], "close again"),
        ([OPEN, submit("a", [1], 48), STEP], "longer than the context"),
        ([OPEN, submit("a", [1] * 24), STEP], "larger than the pool"),
        ([OPEN, submit("a", [1] * 20, 9), STEP, STEP], "out of memory"),
    ],
)
def test_a_refusal_has_a_cause(commands: list[Command], cause: str) -> None:
    """Also for a late refusal: a prompt too long is aborted when its turn comes."""
    reached = met([*commands, STEP, STEP], total_tokens=20)
    assert reached["refused"] == {cause: 1}
    assert not reached["aborted"]


@pytest.mark.parametrize(
    ("commands", "phase"),
    [
        ([submit("r", [1], 9, None)], "not read yet"),
        ([submit("a", [1], 9, None), submit("r", [1], 9, None), STEP], "waiting"),
        ([submit("r", [1] * 9, 9, None), STEP], "parked"),
        ([submit("r", [1], 9, None), STEP, STEP], "decoding"),
    ],
)
def test_an_abort_meets_a_phase(commands: list[Command], phase: str) -> None:
    """The phase of the request when the engine reads the command."""
    abort: list[Command] = [{"do": "abort", "rid": "r"}, STEP]
    reached = met([*commands, *abort], max_running=1, chunk=4)
    assert reached["aborted"] == {phase: 1} and not reached["refused"]
    everybody = met([*commands, {"do": "abort_all"}, STEP], max_running=1, chunk=4)
    assert everybody["aborted"][phase] == 1 and not everybody["refused"]


def test_prompts_are_told_apart_by_how_they_branch() -> None:
    """Compared with prompts and answers of every session, including the session's own history."""
    first = met([submit("r1", [1, 2, 3, 4, 5], 1, None), STEP, STEP], page_size=4)
    assert first["prompts"] == {"new": 1}
    long = [submit("r1", [1, 2, 3, 4, 5, 6, 7, 8, 9], 1, None), STEP, STEP, OPEN, STEP]
    for tokens, how in (
        ([1, 2, 3, 4], "repeated"),
        ([1, 2, 3, 4, 6], "at a page"),
        ([1, 2, 3, 5], "before a page"),
        ([1, 2, 3, 4, 5, 7], "after a page"),
        ([1, 2, 4], "within a page"),
    ):
        reached = met([*long, submit("r2", tokens)], page_size=4)
        assert reached["prompts"] == Counter(["new", how])
    turn = [*long, submit("r2", [1, 2]), STEP, STEP]
    answer = play(InProcessEngine(), Setup(EngineConfig(page_size=4)), turn).client.history["s"]
    assert isinstance(answer, list)
    reached = met([*turn, submit("r3", [9]), submit("r4", [*answer, 7, 7], 1, None)], page_size=4)
    assert reached["prompts"]["repeated"] == 1 and reached["prompts"]["continued"] == 1


def test_what_is_at_the_limit_is_counted() -> None:
    """Requests close to the context length, on both sides, and idle slots that hold all rows."""
    sent = [submit(f"r{over}", [1] * 40, 8 + over, None) for over in (-2, -1, 0, 1, 2)]
    assert met(sent)["context"] == {"one less": 1, "exactly": 1, "one more": 1}
    turn = [OPEN, submit("r", [1]), STEP, STEP]
    assert met(turn, rows=2)["slots"] == {}
    assert met(turn, rows=1)["slots"] == {"hold all rows": 2}


def test_pairs_are_of_one_session() -> None:
    """Transitions of another session in between do not count."""
    other = {"do": "open", "session": "t"}
    pairs = met([OPEN, STEP, other, STEP, submit("r", [1]), STEP])["pairs"]
    assert pairs["T-OPEN T-SUBMIT"] == 1 and pairs["T-SUBMIT T-MATCH"] == 1
    assert "T-OPEN T-OPEN" not in pairs


class NeverStops(InProcessEngine):
    """An engine that ignores stop tokens."""

    def do(self, command: Command) -> list[Any]:
        return super().do({**command, "stop": []} if command["do"] == "submit" else command)


@pytest.mark.slow
def test_a_run_that_ended_nothing_by_a_stop_token_says_so() -> None:
    """Such a run is no evidence about stopped turns. (INV-ANSWER.past_stop is off.)"""
    others = {name: oracle for name, oracle in ORACLES.items() if name != "contract"}
    configs = {name: CONFIGS[name] for name in ("p1", "p1-tight")}
    plan = Plan(configs, examples=120, oracles=others)
    for engine, status, why in (
        (InProcessEngine(), CONFORMS, None),
        (NeverStops(), INCONCLUSIVE, "no request ended by a stop token"),
    ):
        outcome = campaign.run(engine, "reference", plan)
        summary = report.summary(outcome, plan, engine.capabilities)
        assert (summary["violated"], summary["unearned"]) == ([], why)
        assert summary["status"] == status and (why or "conforms") in report.verdict(summary)
