"""Engines with one known bug each: see the bug museum in the documentation."""

from __future__ import annotations

from slotproof.impl.mutants import checks, memory, sessions, slots
from slotproof.impl.mutants.registry import Mutant

__all__ = ["MUTANTS", "Mutant", "mutant_named"]

MUTANTS: dict[str, Mutant] = {
    mutant.name: mutant
    for mutant in (*slots.MUTANTS, *sessions.MUTANTS, *memory.MUTANTS, *checks.MUTANTS)
}


def mutant_named(name: str) -> Mutant:
    """The mutant; ``ValueError`` with the names there are."""
    if name not in MUTANTS:
        raise ValueError(f"unknown mutant {name!r}; there are: {', '.join(sorted(MUTANTS))}")
    return MUTANTS[name]
