"""Mutants × oracles that find them, and the bug that each oracle catches alone."""

from __future__ import annotations

import pytest

from slotproof.lockstep.oracles import ORACLES
from slotproof.matrices.table import Cell
from slotproof.protocol.config import CONFIGS
from slotproof.search.plan import Plan
from tests import mutant_table
from tests.alone import ALONE, page
from tests.mutant_table import FINDERS, kill, table


def test_every_oracle_is_in_both_tables() -> None:
    """The engine's own check stands for the oracle that judges the check."""
    groups = [name for group in FINDERS.values() for name in group]
    assert set(groups) == set(ALONE) == set(ORACLES)
    assert (mutant_table.FOLDER / "oracles.md").read_text() == page(), "`make mutant-table`"


@pytest.mark.slow
def test_a_mutant_and_who_finds_it_alone() -> None:
    """A check that skips a pool gives the equation no evidence. A leak does."""
    plan = Plan({"p1-swa": CONFIGS["p1-swa"]}, examples=20)
    done = [kill(name, plan, 2) for name in ("21499-one-pool-check", "leak-full")]
    clauses = [{finding.clause for finding in mutant.found} for mutant in done]
    assert clauses == [{"INV-CHECKER.covers"}, {"INV-SUM-FULL.equation"}]
    assert done[0].alone == {}
    assert {"own check", "equation", "counts", "pages", "lockstep"} <= done[1].alone.keys()
    assert table(done, plan, 2).notes[:2] == [
        "2 of 2 mutants are killed with every seed.",
        "The equation alone misses 1: 21499-one-pool-check.",
    ]


def test_a_mutant_that_survives() -> None:
    plan = Plan({"p1": CONFIGS["p1"]}, examples=2, steps=3)
    killed = kill("22900-trim-forgets-cursor", plan, 1)
    assert table([killed], plan, 1).rows[0].cells[0] == Cell("survives", "bad")
