"""The reference engine conforms, and the search reaches everything."""

from __future__ import annotations

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign, report
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.statuses import CONFORMS

pytestmark = pytest.mark.quality


FLOORS: dict[str, dict[str, int]] = {
    "finishes": {"length": 7000, "stop": 700},
    "aborted": {"not read yet": 400, "waiting": 250, "parked": 60, "running": 60, "decoding": 350},
    "refused": {
        "turn in flight": 1000,
        "session closing": 400,
        "session not open": 1000,
        "longer than the context": 500,
        "larger than the pool": 27,
        "out of memory": 40,
        "open again": 500,
        "close of none": 800,
        "close again": 100,
    },
    "prompts": {
        "new": 1500,
        "repeated": 3000,
        "continued": 2000,
        "before a page": 250,
        "at a page": 1500,
        "after a page": 400,
        "within a page": 400,
    },
    "context": {"one less": 120, "exactly": 120, "one more": 120},
    "slots": {"hold all rows": 60},
}
"""Minimum counts in a default run: about half of the counts at the time of writing. A search that
loses cases fails."""
PAIRS = 150
"""Minimum number of distinct pairs of consecutive transitions in one session."""
WANTED = [
    "T-RESTORE T-REFUSE",
    "T-RETRACT T-ABORT-PARTIAL",
    "T-RETRACT T-DISCARD",
    "T-RETRACT T-RESTORE",
    "T-RETRACT-WIPE T-MATCH",
    "T-PARK T-ABORT",
    "T-PARK T-CLOSE-DEFER",
    "T-DECODE T-OOM",
    "T-MATCH T-OOM",
    "T-DOOM T-REAP",
    "T-CLOSE-DEFER T-RETRACT",
    "T-REJECT T-SAVE",
    "T-SAVE T-CLOSE",
    "T-DISCARD T-MATCH",
]
"""Pairs easily lost by a search: they are rare, or bugs were found there."""


def test_what_clients_meet_by_default() -> None:
    """The verdict counts the requests ended by a stop token, and the kinds of prompts."""
    engine = InProcessEngine()
    plan = Plan({}).of(engine.capabilities)
    assert plan.examples == EXAMPLES
    outcome = campaign.run(engine, "reference", plan)
    summary = report.summary(outcome, plan, engine.capabilities)
    assert summary["status"] == CONFORMS, summary["violated"]
    met = summary["clients"]
    few = {
        f"{what}: {which}": (met[what].get(which, 0), least)
        for what, floors in FLOORS.items()
        for which, least in floors.items()
        if met[what].get(which, 0) < least
    }
    assert few == {}
    finishes = met["finishes"]
    assert finishes["abort"] < 0.55 * sum(finishes.values()), "most requests are aborted"
    assert len(met["pairs"]) >= PAIRS
    assert [pair for pair in WANTED if pair not in met["pairs"]] == []


def test_the_reference_engine_conforms_and_everything_is_reached() -> None:
    """All configurations: no violation, and all transitions, guard outcomes and clauses reached.

    One guard holds in every state: the reference engine never publishes KV past an answer.
    """
    engine = InProcessEngine()
    plan = Plan({}, examples=560, seed=20260101).of(engine.capabilities)
    outcome = campaign.run(engine, "reference", plan)
    summary = report.summary(outcome, plan, engine.capabilities)
    assert summary["violated"] == []
    assert summary["status"] == CONFORMS
    assert summary["transitions"]["never"] == []
    assert summary["transitions"]["impossible"] == {}
    assert summary["guards"]["one_way"] == ["T-SAVE.published never failed"]
    hashed_blocks = ["INV-LOOKUP", "INV-REUSE", "INV-TABLES"]  # The reference has no hashed blocks.
    assert summary["invariants"]["not_checked"] == hashed_blocks


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_false_alarm(name: str, seed: int) -> None:
    """Other seeds, with one configuration at a time."""
    plan = Plan({name: CONFIGS[name]}, examples=15, seed=seed)
    assert campaign.run(InProcessEngine(), "reference", plan).trace is None
