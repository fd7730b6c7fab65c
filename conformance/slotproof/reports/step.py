"""One step of a trace as it is shown: a command that waits in the inbox, or one iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from slotproof.lockstep.observation import Violation
from slotproof.reports.equation import Pool, pool_of
from slotproof.reports.page_map import LOST, SHARED, PageMap
from slotproof.reports.sequence import Arrow
from slotproof.traces.frames import ACTORS, Frame


@dataclass(frozen=True)
class Field:
    name: str
    value: str
    changed: bool
    before: str = ""


@dataclass(frozen=True)
class Actor:
    """A session, a slot or a request."""

    title: str
    fields: list[Field]
    fate: str
    """``new``, ``gone``, ``changed`` or ``same``."""


@dataclass
class Step:
    """What a frame shows, beside the one before it; the view adds the rest."""

    index: int
    """From 0."""
    number: int
    """Of the command, from 1."""
    part: int
    """Of several iterations of one command, which; 0 where there is one."""
    says: str
    """The command in words; of a further iteration, which."""
    ran: bool
    """An iteration ran and showed what follows."""
    frame: Frame
    then: Frame
    lent_is_held: bool
    """The engine's check counts KV on loan as held, which its profile allows."""

    arrows: list[Arrow] = field(default_factory=list)
    maps: dict[str, PageMap | None] = field(default_factory=dict)
    """By pool, whose each page is."""
    violations: list[Violation] = field(default_factory=list)
    died: bool = False
    """The engine crashed, hung or sent garbage: there is nothing to show."""
    repeats: bool = False
    """Like the one before it: the same happened, and nothing changed."""
    like_it: int = 0
    """How many that follow repeat this one."""

    def __post_init__(self) -> None:
        now, then = self.frame, self.then
        self.pools: list[Pool] = [pool_of(name, now, then, self.lent_is_held) for name in now.pools]
        self.actors = list(_actors(now, then))
        self.check: dict[str, Any] = dict(now.check) if self.ran else {}
        self.differs = now.differs if self.ran else []

    @property
    def label(self) -> str:
        return f"{self.number}.{self.part}" if self.part else str(self.number)

    @property
    def sums(self) -> list[str]:
        """The equations in lines, each with its pool where there are several."""
        several = len(self.pools) > 1
        lines = ((pool.name, line) for pool in self.pools for line in pool.lines)
        return [f"{name}: {line}" if several else line for name, line in lines]

    def hidden(self, pool: Pool) -> bool:
        """Pages of the pool are lost or shared, and its sum is right."""
        shown = self.maps.get(pool.name)
        bad = shown is not None and any(each.kind in (LOST, SHARED) for each in shown.wrong)
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

    def like(self, before: Step) -> bool:
        """Whether it is another iteration of the same command, and nothing changed in it."""
        return (
            before.part > 0
            and self.number == before.number
            and self.arrows == before.arrows
            and not self.changed
            and not self.violations
            and self.differs == before.differs
            and self.check == before.check
            and not any(each.deltas for pool in self.pools for each in pool.sums)
            and not any(each.moved for each in self.maps.values() if each is not None)
        )


def _actors(now: Frame, then: Frame) -> Iterator[Actor]:
    for kind, noun in ACTORS.items():
        here, there = getattr(now, kind), getattr(then, kind)
        for name in sorted(here.keys() | there.keys()):
            mine, past = here.get(name), there.get(name)
            if mine is None or past is None:
                fate = "gone" if mine is None else "new"
            else:
                fate = "same" if mine == past else "changed"
            yield Actor(noun + name, list(_fields(past if mine is None else mine, past)), fate)


def _fields(shown: dict[str, Any], past: dict[str, Any] | None) -> Iterator[Field]:
    was = shown if past is None else past
    for key in [*shown, *sorted(was.keys() - shown.keys())]:
        value, before = shown.get(key), was.get(key)
        changed = value != before or key not in shown
        yield Field(key, _value(value), changed, "" if past is None else _value(before))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None or value == "" else str(value)
