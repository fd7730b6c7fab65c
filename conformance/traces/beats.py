"""A beat of a story: a command that waits in the inbox, or one iteration of the scheduler.

What it shows: the equation of every pool, sessions, slots and requests, and what of them changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.traces.frames import Frame
from slotproof.conformance.traces.lanes import Arrow
from slotproof.conformance.traces.picture import LOST, SHARED, Picture

TERMS = ("available", "evictable", "protected", "held", "uncached")
"""The equation's five; their sum is the pool's total."""


@dataclass(frozen=True)
class Sum:
    """The equation of a pool with its numbers. Tokens."""

    terms: dict[str, int]
    total: int
    before: dict[str, int] = field(default_factory=dict)
    """The terms one beat before, where there was one."""

    @property
    def deltas(self) -> dict[str, int]:
        """By how much the terms that changed did."""
        return {
            name: value - self.before[name]
            for name, value in self.terms.items()
            if name in self.before and value != self.before[name]
        }

    @property
    def sum(self) -> int:
        return sum(self.terms.values())

    @property
    def adds_up(self) -> bool:
        return self.sum == self.total and min(self.terms.values()) >= 0


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


@dataclass(frozen=True)
class Field:
    name: str
    value: str
    changed: bool
    before: str = ""


@dataclass(frozen=True)
class Actor:
    """A session, a slot or a request."""

    kind: str
    name: str
    fields: list[Field]
    fate: str
    """``new``, ``gone``, ``changed`` or ``same``."""

    @property
    def title(self) -> str:
        """``slot of s1``; a request is its name."""
        return {"sessions": "session ", "slots": "slot of ", "requests": ""}[self.kind] + self.name


@dataclass
class Beat:
    """A command that waits, or an iteration; :func:`beat_of` makes it, a story adds the rest."""

    index: int
    """From 0."""
    number: int
    """Of the command, from 1."""
    says: str
    """The command in words; of a further iteration, which."""
    command: str
    """Its name."""
    ran: bool
    """An iteration ran and showed what follows."""
    arrows: list[Arrow] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    actors: list[Actor] = field(default_factory=list)
    pictures: dict[str, Picture | None] = field(default_factory=dict)
    check: dict[str, Any] = field(default_factory=dict)
    differs: list[dict[str, Any]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    died: bool = False
    """The engine crashed, hung or sent garbage: there is nothing to show."""

    part: int = 0
    """Of several iterations of one command, which; 0 where there is one."""
    repeats: bool = False
    """Like the one before it: the same happened, and nothing changed."""
    like_it: int = 0
    """How many that follow repeat this one."""

    @property
    def label(self) -> str:
        return f"{self.number}.{self.part}" if self.part else str(self.number)

    def hidden(self, pool: Pool) -> bool:
        """Pages of the pool are lost or shared, and its sum is right."""
        picture = self.pictures.get(pool.name)
        bad = picture is not None and any(each.kind in (LOST, SHARED) for each in picture.wrong)
        return self.ran and bad and pool.owned is not None and pool.owned.adds_up

    @property
    def wrongly(self) -> bool:
        """The engine's own check says ok where memory is lost or shared, or the reverse."""
        known = [pool.owned for pool in self.pools if pool.owned is not None]
        right = all(each.adds_up for each in known) and not any(map(self.hidden, self.pools))
        verdict = self.check.get("verdict")
        return bool(known) and verdict in ("ok", "leak") and right != (verdict == "ok")

    @property
    def changed(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.fate != "same"]


def beat_of(
    index: int, number: int, says: str, name: str, now: Frame, then: Frame, ran: bool
) -> Beat:
    """The beat that shows a frame, after the one before it."""
    return Beat(
        index,
        number,
        says,
        name,
        ran,
        pools=[_pool(name, now, then) for name in now.pools],
        actors=list(_actors(now, then)),
        check=dict(now.check) if ran else {},
        differs=list(now.differs) if ran else [],
    )


def _pool(name: str, now: Frame, then: Frame) -> Pool:
    owned, reported = _sums(name, now)
    past = _sums(name, then) if name in then.pools else (None, None)
    return Pool(name, _marked(owned, past[0]), _marked(reported, past[1]))


def _sums(name: str, frame: Frame) -> tuple[Sum | None, Sum | None]:
    figures, share = frame.pools[name], frame.shares.get(name)
    own = None if share is None else _sum(figures | share)
    return own, _sum(figures) if "held" in figures else None


def _sum(figures: Mapping[str, Any]) -> Sum:
    terms = {name: figures[name] for name in TERMS}
    if any(type(value) is not int for value in (*terms.values(), figures["total"])):
        raise TypeError("a figure of a pool is no number")
    return Sum(terms, figures["total"])


def _marked(now: Sum | None, then: Sum | None) -> Sum | None:
    return now if now is None or then is None else Sum(now.terms, now.total, then.terms)


_KINDS = ("sessions", "slots", "requests")


def _actors(now: Frame, then: Frame) -> Iterator[Actor]:
    for kind in _KINDS:
        here, there = getattr(now, kind), getattr(then, kind)
        for name in sorted(here.keys() | there.keys()):
            mine, past = here.get(name), there.get(name)
            shown = mine if mine is not None else past
            fields = [
                Field(
                    key,
                    _value(value),
                    past is not None and past.get(key) != value,
                    "" if past is None else _value(past.get(key)),
                )
                for key, value in shown.items()
            ]
            missing = past.keys() - shown.keys() if past is not None and mine is not None else ()
            fields += [Field(key, "–", True, _value(past[key])) for key in sorted(missing)]
            if past is None:
                fate = "new"
            elif mine is None:
                fate = "gone"
            else:
                fate = "changed" if mine != past else "same"
            yield Actor(kind, name, fields, fate)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None or value == "" else str(value)
