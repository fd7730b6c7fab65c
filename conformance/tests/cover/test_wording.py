"""Every clause that can break has a sentence, and no sentence is left over."""

from __future__ import annotations

import pytest

from slotproof.lockstep.observation import Violation
from slotproof.reports.wording import CLAUSES, GUARDS, clause_words, guard_words
from slotproof.search import baseline
from slotproof_model.spec.transitions import TRANSITIONS


def test_every_clause_has_a_sentence() -> None:
    """Each conjunct of each invariant, each observed clause, and no other."""
    assert set(CLAUSES) == baseline.clauses()


def test_every_conjunct_of_every_guard_has_a_sentence() -> None:
    asked = {
        (name, transition.id)
        for transition in TRANSITIONS.values()
        for name in transition.full_guard
    }
    assert all(guard_words(id_, name) for name, id_ in asked)
    names = {name for name, _ in asked} | {f"{name} {id_}" for name, id_ in asked}
    assert set(GUARDS) <= names, "no such conjunct"


@pytest.mark.parametrize("text", [*CLAUSES.values(), *GUARDS.values()])
def test_a_sentence_is_short_and_plain(text: str) -> None:
    """Short, without a formula, a variable name, or a final full stop."""
    assert len(text) < 110 and not text.endswith(".")
    assert not set(text) & set("=<>≤≠¬∧∨⌊⌈_") and ".C" not in text


def test_what_a_guard_needs_is_said_where_it_does_not_hold() -> None:
    violation = Violation("INV-STEP", "guard", "x", transition="T-SUBMIT", guard="idle")
    said = "The engine took a transition that the spec forbids here: T-SUBMIT requires that no turn"
    assert clause_words(violation).startswith(said)
    assert clause_words(Violation("INV-NONE", "such", "x")) == "INV-NONE.such"
