"""Mutants: engines with a single known bug. The documentation's bug museum describes the bugs."""

from __future__ import annotations

from slotproof_engine.mutants import (
    answers,
    checks,
    choices,
    content,
    memory,
    prefixes,
    results,
    sessions,
    slots,
)
from slotproof_engine.mutants.registry import Mutant, joined

__all__ = ["MUTANTS", "Mutant", "mutant_named"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for kind in (slots, sessions, memory, content, prefixes, choices, checks, answers, results)
    for mutant in kind.MUTANTS
}


def mutant_named(name: str) -> Mutant:
    """Return the mutant, or for ``A+B`` a mutant with both bugs. ``ValueError`` lists all names.

    >>> mutant_named("22213-double-count+leak-full").breaks
    ('INV-ONCE', 'INV-SUM-FULL', 'INV-CHECKER', 'INV-OWNER')
    """
    names = name.split("+")
    for part in names:
        if part not in MUTANTS:
            raise ValueError(f"unknown mutant {part!r}; there are: {', '.join(sorted(MUTANTS))}")
    return joined([MUTANTS[part] for part in names])
