"""Server options: which engines are asked for them, what they excuse, and if they took effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.base import EngineUnusable
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.client import CLOSES
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, OPTIONS, SERVED, EngineConfig
from slotproof.protocol.named import chosen
from slotproof.search import campaign, report
from slotproof.search.campaign import Outcome
from slotproof.search.plan import Plan


class Ending(InProcessEngine):
    """An engine that offers all options, ignores them, and aborts r3 on an evict command."""

    def __init__(self, mutant: str | None = None) -> None:
        super().__init__(mutant)
        asked = {**self.capabilities.config, **{name: [] for name in OPTIONS}}
        self.capabilities = replace(self.capabilities, config=asked)

    def reset(self, config: EngineConfig, seed: int) -> None:
        super().reset(
            replace(config, **{name: getattr(EngineConfig(), name) for name in OPTIONS}), seed
        )

    def do(self, command: Command) -> list[Any]:
        ends = {"do": "abort", "rid": "r3"}
        return super().do(ends if command["do"] == "evict" else command)


def submit(rid: str) -> Command:
    return {"do": "submit", "session": None, "rid": rid, "tokens": [1], "max_new": 3, "stop": []}


class Other(Ending):
    """An engine that recomputes every token as its successor."""

    def recompute(self, tokens: list[int], count: int) -> list[int]:
        return [token + 1 for token in super().recompute(tokens, count)]


class Untold(Ending):
    """An engine that closes a session without a message, like SGLang."""

    def __init__(self, mutant: str | None = None) -> None:
        super().__init__(mutant)
        hidden = {**self.capabilities.not_observed, CLOSES: "it has no words for it"}
        self.capabilities = replace(self.capabilities, not_observed=hidden)

    def do(self, command: Command) -> list[Any]:
        told = super().do(command)
        for snapshot in told:
            snapshot["messages"] = [m for m in snapshot["messages"] if m["type"] != "closed"]
        return told


class Cutting(Ending):
    """An engine that drops the last token of every prompt."""

    def do(self, command: Command) -> list[Any]:
        if command["do"] == "submit":
            command = {**command, "tokens": command["tokens"][:-1]}
        return super().do(command)


STEP: Command = {"do": "step", "n": 1}
WAIT: Command = {"do": "tick", "seconds": 30}


@pytest.mark.parametrize(
    ("options", "others", "excused"),
    [
        ({}, 2, False),
        ({"queue": 2}, 2, True),
        ({"queue": 3}, 2, False),
        ({"waiting_timeout": 31, "running_timeout": 40}, 0, False),
        ({"waiting_timeout": 30}, 0, True),
        ({"running_timeout": 30, "waiting_timeout": 40}, 0, True),
        ({"branching": True}, 2, False),
    ],
)
def test_who_is_ended_unasked_had_to_be(
    options: dict[str, Any], others: int, excused: bool
) -> None:
    """INV-ANSWER.unasked: excused for one of three requests if two may wait, and after 30 s."""
    config = replace(EngineConfig(), **options)
    ending = [{"do": "evict", "tokens": 1}, STEP]
    asked = [*(submit(f"r{number + 1}") for number in range(others)), submit("r3")]
    commands = [*asked, *ending] if others else [*asked, STEP, WAIT, *ending]
    violations = play(Ending(), Setup(config), commands).log[-1].violations
    assert (
        "INV-ANSWER.unasked" in {violation.clause for violation in violations}
    ) is not excused, violations


def test_what_is_aborted_unasked_brings_no_answer() -> None:
    """INV-CONTENT.tokens: SGLang gives a refused request another prompt, and returns a token."""
    said = []
    for ending in ({"do": "evict", "tokens": 1}, {"do": "abort", "rid": "r3"}):
        asked = [submit("r3"), STEP, ending, STEP]
        violations = play(Other(), Setup(EngineConfig()), asked).log[-1].violations
        said.append([violation.clause for violation in violations])
    assert said == [["INV-ANSWER.unasked"], ["INV-CONTENT.tokens"]]


def test_what_ran_before_it_was_aborted_unasked_is_looked_at() -> None:
    """INV-CONTENT.tokens: a request that ran for two rounds was not refused."""
    asked = [submit("r3"), STEP, STEP, {"do": "evict", "tokens": 1}, STEP]
    violations = play(Other(), Setup(EngineConfig()), asked).log[-1].violations
    assert {violation.clause for violation in violations} == {
        "INV-ANSWER.unasked",
        "INV-CONTENT.tokens",
    }


def test_a_later_request_may_take_the_place_of_one() -> None:
    """INV-ANSWER.unasked: with branching, of requests without a session."""
    asked = [submit("r3"), STEP, submit("r4"), {"do": "evict", "tokens": 1}, STEP]
    for config, clauses in ((EngineConfig(), ["INV-ANSWER.unasked"]), (BRANCHING, [])):
        violations = play(Ending(), Setup(config), asked).log[-1].violations
        assert [violation.clause for violation in violations] == clauses


BRANCHING = EngineConfig(branching=True)
OWN = EngineConfig(timeout=30, own_timeouts=True)


@pytest.mark.parametrize(
    ("engine", "config", "session", "early"),
    [
        (Ending(), OWN, "s2", False),
        (Ending(), OWN, "s1", True),
        (Untold(), OWN, "s1", True),
        (Untold(), EngineConfig(timeout=30), "s1", False),
        (Untold("session-early-timeout"), EngineConfig(timeout=60), "s1", True),
        (Untold("session-early-timeout"), EngineConfig(timeout=0), "s1", False),
    ],
)
@pytest.mark.parametrize("between", [[], [{**submit("r1"), "session": "s1"}, {**STEP, "n": 5}]])
def test_a_session_is_closed_when_its_own_time_is_over(
    engine: Ending, config: EngineConfig, session: str, early: bool, between: list[Command]
) -> None:
    """INV-SESSION.closed: with or without a message. s1 has three times the timeout, s2 has one."""
    opened: Command = {"do": "open", "session": session}
    violations = play(engine, Setup(config), [opened, STEP, *between, WAIT]).log[-1].violations
    assert ("INV-SESSION.closed" in {violation.clause for violation in violations}) is early, (
        violations
    )


def test_who_is_asked_to_close_may() -> None:
    ends: Command = {"do": "close", "session": "s1"}
    opened: Command = {"do": "open", "session": "s1"}
    commands = [opened, STEP, ends, STEP, opened, ends, opened, STEP]
    log = play(Untold(), Setup(OWN), commands).log
    assert not any(iteration.violations for iteration in log)


def test_another_prompt_than_was_asked_is_seen() -> None:
    """INV-HISTORY.prompt: also for a request without a session, but not for a prompt too long."""
    for length, clauses in ((4, {"INV-HISTORY.prompt"}), (47, set[str]())):
        asked = {**submit("r1"), "tokens": [1] * length}
        violations = play(Cutting(), Setup(EngineConfig()), [asked, STEP]).log[-1].violations
        assert {violation.clause for violation in violations} & {"INV-HISTORY.prompt"} == clauses


def test_whoever_names_a_configuration_is_told_why_it_is_left_out() -> None:
    engine = InProcessEngine()
    assert engine.capabilities.refuses(SERVED["p4-queue"]) == "priority is not offered"
    named = Outcome("reference", "reference")
    campaign.possible(engine.capabilities, Plan(chosen(["p1", "p4-queue"])), named)
    assert named.skipped == {"p4-queue": "priority is not offered"}


def test_where_no_configuration_is_possible_all_reasons_are_told() -> None:
    with pytest.raises(EngineUnusable, match="p1-priority: priority is not offered; p4-queue: "):
        campaign.possible(InProcessEngine().capabilities, Plan(SERVED), Outcome("x", "reference"))


def test_who_asks_for_logprobs_may_match_less() -> None:
    """INV-MATCH.all: the engine computes the prompt again for logprobs."""
    commands = [{**submit("r1"), "tokens": [5, 6, 7, 8]}, STEP]
    commands += [{**submit("r2"), "tokens": [5, 6, 7, 9]}, STEP]
    for config, clauses in (
        (EngineConfig(), ["INV-MATCH.all"]),
        (EngineConfig(logprobs=True), []),
        (EngineConfig(no_tree=True), []),
    ):
        engine = Ending("prefix-last-token-twice")
        violations = play(engine, Setup(config), commands).log[-1].violations
        assert [violation.clause for violation in violations] == clauses


def test_one_that_has_them_takes_any_value() -> None:
    assert (
        campaign.possible(Ending().capabilities, Plan(SERVED), Outcome("x", "reference")) == SERVED
    )


def test_an_option_that_was_never_at_work_is_told() -> None:
    coverage = Coverage()
    coverage.reached["options"]["queue"] = 1
    said = [*report.idle(coverage, [CONFIGS["p1"], SERVED["p4-queue"]])]
    assert said == ["option priority of a configuration never took effect"]
    coverage.reached["options"]["priority"] = 1
    assert not [*report.idle(coverage, [SERVED["p4-queue"]])]
