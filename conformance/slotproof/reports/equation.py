"""The equation of a pool with its numbers: by ownership, and by the engine's own check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.lockstep.observation import TERMS
from slotproof.traces.frames import Frame


@dataclass(frozen=True)
class Sum:
    """The five terms and what they should add up to. Tokens."""

    terms: dict[str, int]
    total: int
    before: dict[str, int] = field(default_factory=dict)
    """The terms one iteration before, where there was one."""

    def __str__(self) -> str:
        return f"{' + '.join(map(str, self.terms.values()))} {self.result}"

    @property
    def result(self) -> str:
        """What follows the terms: their sum, and the pool where it is another."""
        if self.adds_up:
            return f"= {self.sum}"
        if self.sum == self.total:
            return f"= {self.sum}, one < 0"
        return f"= {self.sum} ≠ {self.total}"

    @property
    def deltas(self) -> dict[str, int]:
        """By how much the terms that changed did."""
        by = {name: self.terms[name] - was for name, was in self.before.items()}
        return {name: more for name, more in by.items() if more}

    @property
    def sum(self) -> int:
        return sum(self.terms.values())

    @property
    def adds_up(self) -> bool:
        return self.sum == self.total and min(self.terms.values()) >= 0


def sum_of(figures: Mapping[str, Any]) -> Sum | None:
    """The sum of a pool's figures; ``None`` where no check ran and they are not all there.

    >>> print(sum_of(dict(available=60, evictable=0, protected=1, held=2, uncached=0, total=64)))
    60 + 0 + 1 + 2 + 0 = 63 ≠ 64
    """
    if "held" not in figures:
        return None
    terms = {name: figures[name] for name in TERMS}
    if any(type(value) is not int for value in (*terms.values(), figures["total"])):
        raise TypeError("a figure of a pool is no number")
    return Sum(terms, figures["total"])


@dataclass(frozen=True)
class Pool:
    """A pool's equation, as ownership gives it and as the engine's own check does."""

    name: str
    owned: Sum | None
    """``None``: the trace does not say."""
    reported: Sum | None
    """``None``: no check ran, or it did not cover the pool."""

    lent_is_held: bool = False
    """The engine's check counts KV on loan as held, which its profile allows."""

    def odd(self, term: str) -> bool:
        """The check has another figure than ownership, and its profile is no reason for it."""
        own, said = self.owned, self.reported
        if own is None or said is None or own.terms[term] == said.terms[term]:
            return False
        both = [sum(each.terms[name] for name in ("held", "uncached")) for each in (own, said)]
        return not (self.lent_is_held and term in ("held", "uncached") and both[0] == both[1])

    @property
    def sums(self) -> list[Sum]:
        """Those that are known."""
        return [each for each in (self.owned, self.reported) if each is not None]

    @property
    def agree(self) -> bool:
        own, said = self.owned, self.reported
        return own is None or said is None or own.terms == said.terms

    @property
    def lines(self) -> list[str]:
        """Its equations, the check's first; who says so, where they are two."""
        own, said = str(self.owned or ""), str(self.reported or "")
        if own and said and own != said:
            return [f"{said} (the engine's check)", f"{own} (by ownership)"]
        return [said] if said else [f"{own} (by ownership)"] if own else []


def pool_of(name: str, now: Frame, then: Frame, lent_is_held: bool) -> Pool:
    """The equations of a pool in a frame, each beside what it was in the one before."""
    past = _sums(name, then) if name in then.pools else (None, None)
    owned, reported = (
        replace(each, before=old.terms) if each and old else each
        for each, old in zip(_sums(name, now), past, strict=True)
    )
    return Pool(name, owned, reported, lent_is_held)


def _sums(name: str, frame: Frame) -> tuple[Sum | None, Sum | None]:
    figures, share = frame.pools[name], frame.shares.get(name)
    return None if share is None else sum_of(figures | share), sum_of(figures)
