"""The sentence of a violation has figures, names, and the iteration."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.figures import figures
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.config import CONFIGS
from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.evaluation.layout import LAYOUT
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, Sort, variables
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts
from tests.cover.telling import telling
from tests.turns import turn

SORTS = {var.name: var.of for var in state.SEEN}
_CLAUSES: dict[str, Expr] = {
    clause: expr
    for kind in (Kind.STATE, Kind.STEP)
    for clause, expr in conjuncts(Spec(), kind).items()
}
_GUARDS: dict[str, Expr] = {
    f"{id_}.{name}": expr
    for id_, transition in TRANSITIONS.items()
    for name, expr in transition.full_guard.items()
}
ON_ENGINES = {
    clause: expr
    for clause, expr in {**_CLAUSES, **_GUARDS}.items()
    if {name.rstrip("'") for name in variables(expr) if "param." not in name} <= {*LAYOUT}
}


def states(seed: int) -> Iterator[list[int]]:
    """Yield small states of all kinds, some of them almost empty."""
    rng = random.Random(seed)
    while True:
        drawn = rng.choice([(-2, -1, 0, 0, 1, 2, 3, 4, 7), (0, 1, 2, 3, 4), (0,) * 20 + (1,)])
        yield [
            int(rng.choice(drawn) > 0) if SORTS[name] is Sort.BOOL else rng.choice(drawn)
            for name in LAYOUT
        ]


@pytest.mark.parametrize("clause", ON_ENGINES)
def test_every_formula_that_fails_is_told_with_its_figures(clause: str) -> None:
    """State and step invariants and guards: the sentence has two figures, or a flag's value."""
    expr = ON_ENGINES[clause]
    names = [name.removeprefix("param.") for name in variables(expr) if "param." in name]
    holds = compiled(expr, 4, "v, p" if names else "v, w")
    rng, drawn, seen = random.Random(1), states(1), 0
    for _ in range(20_000):
        before, after = next(drawn), next(drawn)
        said = {name: rng.choice((-1, 0, 1, 5)) for name in names}
        if not holds(before, said if names else after):
            text = figures(expr, 4, before, after, said)
            assert re.search(r" (is|are) ", text), (clause, text)
            assert len(text) < 600, text
            seen += 1
            if seen == 5:
                return
    assert seen, "no state was drawn that breaks it"


def test_what_is_told_of_a_lost_row() -> None:
    """The sentence used to be “s1: slot none, turn none”."""
    opened, waits = {"do": "open", "session": "s1"}, {"do": "step", "n": 2}
    commands = [opened, turn("r1", 3, 3), waits, {"do": "abort", "rid": "r1"}, waits]
    violated = violations("22790b-first-turn-abort", commands)
    [rows] = [violation for violation in violated if violation.clause == "INV-ROWS.equation"]
    assert str(rows) == (
        "INV-ROWS.equation, iteration 1: "
        "rows.free + slot_rows + req_rows + frame.rows is 3, rows.total is 4"
    )
    assert rows.shown["iteration"] == 1


def test_the_iteration_is_told_where_there_is_more_than_one() -> None:
    commands = [{"do": "open", "session": "s1"}, turn("r1", 3, 4), {"do": "step", "n": 5}]
    violated = violations("27228c-batch-twice", commands)
    assert violated and {violation.iteration for violation in violated} == {2}
    assert all(", iteration 2: " in str(violation) for violation in violated)
    alone = violations("27228c-batch-twice", [*commands[:2], *[{"do": "step", "n": 1}] * 5])
    assert alone and {violation.iteration for violation in alone} == {None}
    assert all("iteration" not in str(violation) and telling(violation) for violation in alone)


@pytest.mark.parametrize(
    ("detail", "good"),
    [
        ("in the pools", False),
        ("slot none, turn none", False),
        ("memory does not add up", False),
        ("62 tokens are there", False),
        ("62 tokens are there, 64 should be", True),
        ("page 3 is locked", True),
        ("row 0 is lost", True),
        ("the swa pool", True),
        ("s1: slot none", True),
        ("slot.lent is 1", True),
    ],
)
def test_what_counts_as_telling(detail: str, good: bool) -> None:
    assert telling(Violation("INV-ROWS", "equation", detail)) is good


def violations(mutant: str, commands: list[dict[str, Any]]) -> list[Violation]:
    referee = play(InProcessEngine(mutant), Setup(CONFIGS["p1"]), commands)
    return referee.log[-1].violations
