"""What a mutant is: an engine in which one thing is wrong, named by where it was wrong once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotproof_engine.assembly.parts import Parts


@dataclass(frozen=True)
class Mutant:
    """A known bug. ``apply`` puts the faulty component in the place of the right one."""

    name: str
    pr: str
    """Where it was found: repository and pull request or issue."""
    sentence: str
    breaks: tuple[str, ...]
    """Clauses of the spec; a finding is right if it names one of them."""
    apply: Callable[[Parts], Parts]
    needs: Mapping[str, int | str | bool] = field(default_factory=dict)
    """Configuration without which it can't be seen (any value as large or larger, for numbers)."""


def swap(**components: object) -> Callable[[Parts], Parts]:
    """An ``apply`` that replaces whole components.

    >>> from slotproof_engine.mutants.slots import DoubleCount
    >>> swap(cache=DoubleCount)(Parts()).cache.__name__
    'DoubleCount'
    """

    def apply(parts: Parts) -> Parts:
        return dataclasses.replace(parts, **components)  # type: ignore[arg-type]  # by field name

    return apply


def joined(mutants: Sequence[Mutant]) -> Mutant:
    """One engine with all of the bugs. Where two change the same component, the class has
    both for bases; of a method that both change, the first one's comes first."""
    if len(mutants) == 1:
        return mutants[0]

    def apply(parts: Parts) -> Parts:
        every = [mutant.apply(parts) for mutant in mutants]
        return dataclasses.replace(
            parts,
            **{
                field.name: _together(
                    getattr(parts, field.name), [getattr(each, field.name) for each in every]
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
    """One component: what differs from the plain one, as one class; allocators pool by pool."""
    if isinstance(plain, Mapping):
        return {pool: _together(plain[pool], [each[pool] for each in wanted]) for pool in plain}
    bases = tuple(dict.fromkeys(each for each in wanted if each is not plain))
    if len(bases) < 2:
        return bases[0] if bases else plain
    return type("And".join(base.__name__ for base in bases), bases, {})
