"""Issue 12, done when 3: fifty interrupts of runs on a correct engine, and nothing is said of it.

``SLOTPROOF_INTERRUPTS=500 pytest -m quality conformance/tests/quality/test_interrupts.py``
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from slotproof.conformance.tests.interrupting import RUNS, interrupt

TIMES = int(os.environ.get("SLOTPROOF_INTERRUPTS", "50"))
LONGEST = 8.0
"""Seconds of a run that an interrupt may come in: starting, searching, all the configurations."""


@pytest.mark.quality
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("name", RUNS)
def test_no_interrupt_invents_a_counterexample(name: str, tmp_path: Path) -> None:
    """Status 3, no finding, no trace, no process left: at any moment between begin and verdict."""
    moments = random.Random(name)
    for number in range(TIMES):
        left = interrupt(RUNS[name], moments.uniform(0, LONGEST), tmp_path / str(number))
        assert left.clean, (number, left)
