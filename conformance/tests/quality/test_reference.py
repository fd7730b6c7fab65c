"""The reference engine conforms: nothing is found, and everything is reached."""

from __future__ import annotations

import pytest

from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search import campaign, report
from slotproof.conformance.search.plan import Plan
from slotproof.conformance.statuses import CONFORMS

pytestmark = pytest.mark.quality


def test_the_reference_engine_conforms_and_everything_is_reached() -> None:
    """All configurations: no violation; all transitions, guard outcomes and clauses seen."""
    plan = Plan(CONFIGS, examples=560, seed=20260101)
    engine = InProcessEngine()
    outcome = campaign.run(engine, "reference", plan)
    summary = report.summary(outcome, plan, engine.capabilities)
    assert summary["violated"] == []
    assert summary["status"] == CONFORMS
    assert summary["transitions"]["never"] == []
    assert summary["transitions"]["impossible"] == {}
    assert summary["guards"]["one_way"] == []
    assert summary["invariants"]["not_checked"] == []


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_false_alarm(name: str, seed: int) -> None:
    """Other seeds, each configuration by itself."""
    plan = Plan({name: CONFIGS[name]}, examples=15, seed=seed)
    assert campaign.run(InProcessEngine(), "reference", plan).trace is None
