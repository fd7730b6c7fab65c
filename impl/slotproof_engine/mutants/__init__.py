"""Engines with one known bug each: see the bug museum in the documentation."""

from __future__ import annotations

from slotproof_engine.mutants import (
    answers,
    checks,
    choices,
    content,
    memory,
    prefixes,
    sessions,
    slots,
)
from slotproof_engine.mutants.registry import Mutant, joined

__all__ = ["MUTANTS", "Mutant", "mutant_named"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for kind in (slots, sessions, memory, content, prefixes, choices, checks, answers)
    for mutant in kind.MUTANTS
}


def mutant_named(name: str) -> Mutant:
    """The mutant; of ``A+B``, one with both bugs. ``ValueError`` with the names there are.

    >>> mutant_named("22213-double-count+leak-full").breaks
    ('INV-ONCE', 'INV-SUM-FULL', 'INV-CHECKER', 'INV-OWNER')
    """
    names = name.split("+")
    for each in names:
        if each not in MUTANTS:
            raise ValueError(f"unknown mutant {each!r}; there are: {', '.join(sorted(MUTANTS))}")
    return joined([MUTANTS[each] for each in names])
