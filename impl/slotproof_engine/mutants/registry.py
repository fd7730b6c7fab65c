"""Mutants: engines with a single error, named after the source of the bug."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotproof_engine.assembly.parts import Parts


@dataclass(frozen=True)
class Mutant:
    """A known bug. ``apply`` replaces a correct component with a faulty component."""

    name: str
    pr: str
    """Source of the bug: repository and pull request or issue."""
    sentence: str
    breaks: tuple[str, ...]
    """Clauses of the spec that the bug violates. A correct finding names at least one clause."""
    apply: Callable[[Parts], Parts]
    needs: Mapping[str, int | str | bool] = field(default_factory=dict)
    """Configuration needed to expose the bug. Numbers are lower bounds."""


def swap(**components: object) -> Callable[[Parts], Parts]:
    """Return an ``apply`` function that replaces whole components.

    >>> from slotproof_engine.mutants.slots import DoubleCount
    >>> swap(cache=DoubleCount)(Parts()).cache.__name__
    'DoubleCount'
    """

    def apply(parts: Parts) -> Parts:
        return dataclasses.replace(parts, **components)  # type: ignore[arg-type]  # by field name

    return apply


def joined(mutants: Sequence[Mutant]) -> Mutant:
    """Return a mutant with all the bugs. A component that two mutants change inherits from both
    changed classes. If both override a method, the first mutant's version is called first."""
    if len(mutants) == 1:
        return mutants[0]

    def apply(parts: Parts) -> Parts:
        every = [mutant.apply(parts) for mutant in mutants]
        return dataclasses.replace(
            parts,
            **{
                field.name: _together(
                    getattr(parts, field.name), [getattr(changed, field.name) for changed in every]
                )
                for field in dataclasses.fields(parts)
            },
        )

    return Mutant(
        "+".join(mutant.name for mutant in mutants),
        "; ".join(mutant.pr for mutant in mutants),
        "; ".join(mutant.sentence for mutant in mutants),
        tuple(dict.fromkeys(clause for mutant in mutants for clause in mutant.breaks)),
        apply,
        {name: value for mutant in mutants for name, value in mutant.needs.items()},
    )


def _together(plain: Any, wanted: list[Any]) -> Any:
    """Return a class with all changes to the plain class. Allocators are combined pool by pool."""
    if isinstance(plain, Mapping):
        return {pool: _together(plain[pool], [part[pool] for part in wanted]) for pool in plain}
    bases = tuple(dict.fromkeys(part for part in wanted if part is not plain))
    if len(bases) < 2:
        return bases[0] if bases else plain
    return type("And".join(base.__name__ for base in bases), bases, {})
