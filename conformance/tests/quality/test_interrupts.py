"""Interrupts of runs on a correct engine at any moment never give a verdict. Two for each run.

``make test-all`` draws 15. ``SLOTPROOF_INTERRUPTS=500 make test-all PARTS=interrupts`` draws more.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.interrupting import RUNS, interrupt

TIMES = int(os.environ.get("SLOTPROOF_INTERRUPTS", "2"))
LONGEST = 8.0
"""Longest time before an interrupt, in seconds: starting, searching, all the configurations."""
SHORTEST = 1.0
"""Shortest duration of a run, in seconds. A run that ends earlier has failed."""


@pytest.mark.quality
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", RUNS)
def test_no_interrupt_invents_a_counterexample(name: str, tmp_path: Path) -> None:
    """Status 3, no finding, no trace, no process left: at any moment between begin and verdict."""
    moments, longest, number = random.Random(name), LONGEST, 0
    while number < TIMES:
        after = moments.uniform(0, longest)
        left = interrupt(RUNS[name], after, tmp_path / str(number))
        if left.late:  # The run ended before the interrupt.
            assert after > SHORTEST, left
            longest = after
            continue
        assert left.clean, (number, left)
        number += 1
