"""Every oracle catches a bug missed by all others together."""

from __future__ import annotations

import pytest

from slotproof.lockstep.oracles import ORACLES
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from tests.alone import ALONE, OnlyBug

pytestmark = pytest.mark.quality


def finders(bug: OnlyBug, names: set[str]) -> set[str]:
    """Return the oracles that find the bug. A crash counts as the empty name."""
    chosen = {name: judge for name, judge in ORACLES.items() if name in names}
    plan = Plan({bug.config: CONFIGS[bug.config]}, examples=20, shrink=0, oracles=chosen)
    trace = campaign.run(bug.engine(), "x", plan).trace
    return {violation.oracle for violation in trace.violations} if trace else set()


@pytest.mark.parametrize("oracle", ORACLES)
def test_only_this_oracle_sees_the_bug(oracle: str) -> None:
    assert finders(ALONE[oracle], {*ORACLES} - {oracle}) == set(), "a crash has no oracle"
    assert finders(ALONE[oracle], {oracle}) == {oracle}
