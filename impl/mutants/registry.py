"""What a mutant is: an engine in which one thing is wrong, named by where it was wrong once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotproof.impl.parts import Parts


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
    """An ``apply`` that replaces whole components."""

    def apply(parts: Parts) -> Parts:
        return dataclasses.replace(parts, **components)  # type: ignore[arg-type]  # by field name

    return apply
