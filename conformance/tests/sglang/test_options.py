"""Options of a server on a real build: the search reaches every option, and finds faults in it.

Faults are put into the build itself (`broken_options.py`). In every run the release's bugs are
patched, and the clauses of bugs without a patch are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import OPTIONS
from slotproof.protocol.named import chosen
from slotproof.search import campaign
from slotproof.search.campaign import Outcome
from slotproof.search.plan import Plan
from tests.turns import STEP, turn

pytestmark = pytest.mark.sglang

DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"
BROKEN = Path(__file__).with_name("broken_options.py")
NEW = "0.5.23"
WAITS = ("INV-PROGRESS.stalled", "INV-PROGRESS.starved", "INV-ANSWER.aborts")
"""Clauses of the release's bugs without a patch."""
AT_WORK = {
    "p1-priority": 30,
    "p4-queue": 15,
    "p1-timeouts": 20,
    "p4-pause": 20,
    "p4-mixed": 10,
    "p1-match": 15,
    "p4-logprobs": 10,
    "p1-stream": 10,
    "p4-own-timeouts": 10,
    "p1-branching": 20,
}
"""Number of examples that suffice to reach the option."""


def searched(build: Engine, config: str, examples: int) -> Outcome:
    plan = Plan(chosen([config]), examples=examples, shrink=0, distinct=1, ignored=WAITS)
    return campaign.run(build, "sglang", plan)


@pytest.mark.parametrize("release", ["0.5.10.post1", "0.5.18", NEW])
def test_a_build_offers_what_it_has(release: str, start: Callable[..., Engine]) -> None:
    assert set(OPTIONS) <= start(f"sglang=={release}").capabilities.config.keys()


@pytest.mark.parametrize(("config", "examples"), AT_WORK.items())
def test_an_option_is_at_work_and_nothing_is_found(
    config: str, examples: int, start: Callable[..., Engine]
) -> None:
    outcome = searched(start(f"sglang=={NEW}", ("all",)), config, examples)
    assert [finding.mark.clause for finding in outcome.findings] == []
    for option in chosen([config])[config].options:
        assert outcome.coverage.reached["options"][option], option


@pytest.mark.parametrize(
    ("fault", "config", "examples", "clauses"),
    [
        ("preempted", "p1-priority", 60, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("turned-away", "p4-queue", 60, {"INV-STEP.state"}),
        ("waits-too-long", "p1-timeouts", 60, {"INV-STEP.state"}),
        ("runs-too-long", "p1-timeouts", 60, {"INV-OWNER.lost", "INV-STEP.guard"}),
        ("pauses", "p4-pause", 60, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("mixes", "p4-mixed", 60, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("sorts", "p1-match", 60, {"INV-LOCK.count", "INV-STEP.state"}),
        ("computes-logprobs", "p4-logprobs", 30, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("streams", "p1-stream", 30, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("skips", "p1-stream", 30, {"INV-ANSWER.length", "INV-CONTENT.tokens"}),
        ("outlives", "p4-own-timeouts", 30, {"INV-OWNER.lost", "INV-STEP.state"}),
        ("forgets-its-time", "p4-own-timeouts", 30, {"INV-SESSION.closed"}),
        ("replaces", "p1-branching", 60, {"INV-LOCK.count", "INV-STEP.state"}),
        ("shares", "p1-branching", 60, {"INV-HISTORY.prompt"}),
    ],
)
def test_a_fault_there_is_found(
    fault: str, config: str, examples: int, clauses: set[str], python_of: Callable[[str], Path]
) -> None:
    program = f"cmd:env PYTHONPATH={DRIVER} {python_of(NEW)} {BROKEN} {fault} --patch=all"
    with closing(EngineSpec(program, step_timeout=60, start_timeout=300).open()) as build:
        outcome = searched(build, config, examples)
    assert outcome.trace is not None
    assert clauses & {violation.clause for violation in outcome.trace.violations}


ENDED: dict[str, list[Command]] = {
    "p1-timeouts": [
        turn("r1", 2, 12, None),
        STEP,
        turn("r2", 2, 2, "s1"),
        STEP,
        {"do": "tick", "seconds": 31},
        {"do": "step", "n": 2},
    ],
    "p4-queue": [
        *(turn(rid, 2, 4, None) for rid in ("r1", "r2")),
        turn("r3", 2, 4, "s1"),
        {"do": "step", "n": 2},
    ],
}
"""A turn of s1 waits for too long, or meets a full queue."""


@pytest.mark.parametrize(
    ("release", "patches", "bug"),
    [("0.5.18", (), True), ("0.5.18", ("all",), False), (NEW, (), False)],
)
@pytest.mark.parametrize("config", ENDED)
def test_a_session_whose_turn_the_engine_ended_is_free(
    config: str, release: str, patches: tuple[str, ...], bug: bool, start: Callable[..., Engine]
) -> None:
    """INV-INFLIGHT.iff: unpatched, 0.5.18 leaves the turn in flight and refuses every later one."""
    opened: Command = {"do": "open", "session": "s1"}
    setup = Setup(chosen([config])[config])
    log = play(start(f"sglang=={release}", patches), setup, [opened, *ENDED[config]]).log
    assert ("INV-INFLIGHT.iff" in {violation.clause for violation in log[-1].violations}) is bug
