"""The equation of a KV pool in numbers, from page ownership and from the engine's own check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.lockstep.observation import TERMS
from slotproof.traces.frames import Frame


@dataclass(frozen=True)
class Sum:
    """The equation's five terms and the total to which they should add up, in tokens."""

    terms: dict[str, int]
    total: int
    before: dict[str, int] = field(default_factory=dict)
    """Terms after the previous iteration. Empty if no previous terms are known."""

    def __str__(self) -> str:
        return f"{' + '.join(map(str, self.terms.values()))} {self.result}"

    @property
    def result(self) -> str:
        """Right side of the equation: the sum, and the pool's total if the total differs."""
        if self.adds_up:
            return f"= {self.sum}"
        if self.sum == self.total:
            return f"= {self.sum}, a term < 0"
        return f"= {self.sum} ≠ {self.total}"

    @property
    def deltas(self) -> dict[str, int]:
        """Change of each term since the previous iteration. Terms without a change are left out."""
        by = {name: self.terms[name] - was for name, was in self.before.items()}
        return {name: more for name, more in by.items() if more}

    @property
    def sum(self) -> int:
        return sum(self.terms.values())

    @property
    def adds_up(self) -> bool:
        return self.sum == self.total and min(self.terms.values()) >= 0


def sum_of(figures: Mapping[str, Any]) -> Sum | None:
    """Return the equation of a pool, or None if no check ran: two terms come only from a check.

    >>> print(sum_of(dict(available=60, evictable=0, protected=1, held=2, uncached=0, total=64)))
    60 + 0 + 1 + 2 + 0 = 63 ≠ 64
    """
    if "held" not in figures:
        return None
    terms = {name: figures[name] for name in TERMS}
    if any(type(value) is not int for value in (*terms.values(), figures["total"])):
        raise TypeError("a count of a pool is not a number")
    return Sum(terms, figures["total"])


@dataclass(frozen=True)
class Pool:
    """Both equations of a KV pool: by page ownership, and by the engine's own check."""

    name: str
    owned: Sum | None
    """Equation by page ownership. None if the trace does not have the owners of pages."""
    reported: Sum | None
    """Equation by the engine's own check. None if the check left out the pool or did not run."""

    lent_is_held: bool = False
    """True if the profile lets the engine's own check count KV on loan as held."""

    def odd(self, term: str) -> bool:
        """Return True if check and ownership differ in the term against the profile's rule."""
        own, said = self.owned, self.reported
        if own is None or said is None or own.terms[term] == said.terms[term]:
            return False
        both = [sum(side.terms[name] for name in ("held", "uncached")) for side in (own, said)]
        return not (self.lent_is_held and term in ("held", "uncached") and both[0] == both[1])

    @property
    def sums(self) -> list[Sum]:
        """Known equations of the pool."""
        return [side for side in (self.owned, self.reported) if side is not None]

    @property
    def agree(self) -> bool:
        own, said = self.owned, self.reported
        return own is None or said is None or own.terms == said.terms

    @property
    def lines(self) -> list[str]:
        """Equations as text, the check's first. If both equations differ, each names its source."""
        own, said = str(self.owned or ""), str(self.reported or "")
        if own and said and own != said:
            return [f"{said} (the engine's check)", f"{own} (by ownership)"]
        return [said] if said else [f"{own} (by ownership)"] if own else []


def pool_of(name: str, now: Frame, then: Frame, lent_is_held: bool) -> Pool:
    """Return the equations of a pool after an iteration, with the previous iteration's terms."""
    past = _sums(name, then) if name in then.pools else (None, None)
    owned, reported = (
        replace(new, before=old.terms) if new and old else new
        for new, old in zip(_sums(name, now), past, strict=True)
    )
    return Pool(name, owned, reported, lent_is_held)


def _sums(name: str, frame: Frame) -> tuple[Sum | None, Sum | None]:
    figures, share = frame.pools[name], frame.shares.get(name)
    return None if share is None else sum_of(figures | share), sum_of(figures)
