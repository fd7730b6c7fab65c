"""No oracle is idle: each catches a bug that all others together do not see."""

from __future__ import annotations

import pytest

from slotproof.lockstep.oracles import ORACLES
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from tests.alone import ALONE, OnlyBug

pytestmark = pytest.mark.quality


def finders(bug: OnlyBug, names: set[str]) -> set[str]:
    """Return those of these oracles that find something; the name of a crash is empty."""
    chosen = {name: judge for name, judge in ORACLES.items() if name in names}
    plan = Plan({bug.config: CONFIGS[bug.config]}, examples=20, shrink=0, oracles=chosen)
    trace = campaign.run(bug.engine(), "x", plan).trace
    return {each.oracle for each in trace.violations} if trace else set()


@pytest.mark.parametrize("oracle", ORACLES)
def test_only_this_oracle_sees_the_bug(oracle: str) -> None:
    assert finders(ALONE[oracle], {*ORACLES} - {oracle}) == set(), "a crash has no oracle"
    assert finders(ALONE[oracle], {oracle}) == {oracle}
