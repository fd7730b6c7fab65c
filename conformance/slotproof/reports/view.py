"""A trace step by step, as every form of it shows it: derived once, for text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, pairwise
from typing import Any

from slotproof.lockstep.observation import Violation, causes_first
from slotproof.protocol.commands import describe
from slotproof.reports.equation import Pool, pool_of
from slotproof.reports.page_map import LOST, SHARED, PageMap, page_maps
from slotproof.reports.sequence import Arrow, arrows
from slotproof.traces.frames import ACTORS, Frame
from slotproof.traces.record import Record
from slotproof_model.evaluation.layout import LAYOUT, POOLS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

FIGURES = LAYOUT[POOLS]
"""Variables of no actor: of the pools, and the rows."""


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


class View:
    """A trace, step by step. Raises ``KeyError``, ``TypeError`` or ``ValueError`` where a
    figure is missing or no number."""

    def __init__(self, trace: Record) -> None:
        self.trace = trace
        self.before = trace.recorded.before if trace.recorded is not None else 0
        """Commands that are not in it, before these."""
        self.total = self.before + len(trace.rows)
        self.steps = list(self._steps())
        self.undrawn: dict[str, str] = {}
        """By pool, why its pages are not drawn."""
        frames = [step.frame for step in self.steps]
        for name in sorted({name for frame in frames for name in frame.pools}):
            drawn, why = page_maps(frames, name, trace.config.page_size)
            if why:
                self.undrawn[name] = why
            for step, page_map in zip(self.steps, drawn, strict=True):
                step.maps[name] = page_map
        if trace.violations:
            last = self.steps[-1]
            last.violations = causes_first(trace.violations)
            last.died = any(each.invariant == "INV-ALIVE" for each in trace.violations)
            last.ran = last.ran and not last.died
        self._fold()

    @property
    def first(self) -> Violation | None:
        return self.trace.violations[0] if self.trace.violations else None

    @cached_property
    def last_events(self) -> list[dict[str, Any]]:
        """The transitions of the last iteration."""
        frames = self.trace.rows[-1].frames
        return frames[-1].events if frames else []

    @cached_property
    def sent_to(self) -> dict[str, str]:
        """By request, the session that the client sent it to."""
        sent = (row.command for row in self.trace.rows if row.command["do"] == "submit")
        return {each["rid"]: each["session"] for each in sent if each["session"]}

    @cached_property
    def wrong(self) -> dict[str, list[str]]:
        """Transitions that a violated clause names, and what it says of them.

        A field that differs names the last step of its actor, a figure of a pool the last that
        moved it: marked only if it writes the field, and nothing else moved the figure.
        """
        there = [each["transition"] for each in self.last_events]
        reasons: dict[str, list[str]] = {}
        for each in self.trace.violations:
            if each.transition and (each.conjunct != "state" or _writes(each, there)):
                reasons.setdefault(each.transition, []).append(f"{each.clause}: {each.detail}")
        return reasons

    def _steps(self) -> Iterator[Step]:
        profile = PROFILES.get(self.trace.profile)
        held = profile is not None and profile.choices["loan"] != "uncached"
        # Before all: nothing, or where a log has more before it, the first figures.
        frames = (frame for row in self.trace.rows for frame in row.frames if self.before)
        previous = next((frame for frame in frames if frame.pools), Frame())
        index = count()
        for number, row in enumerate(self.trace.rows, self.before + 1):
            says, several = describe(row.command), len(row.frames) > 1
            if not row.frames:
                yield Step(next(index), number, 0, says, False, previous, previous, held)
            for part, frame in enumerate(row.frames, 1):
                text = f"scheduler iteration {part} of {len(row.frames)}" if several else says
                last = number == self.total and part == len(row.frames)
                step = Step(next(index), number, part * several, text, True, frame, previous, held)
                step.arrows = list(arrows(frame, self.wrong if last else {}))
                yield step
                previous = frame

    def _fold(self) -> None:
        """A stall is many iterations of the same: tables show it once."""
        first = self.steps[0] if self.steps else None
        for before, step in pairwise(self.steps):
            step.repeats = step.like(before)
            if step.repeats and first is not None:
                first.like_it += 1
            else:
                first = step


def _writes(violation: Violation, there: list[str]) -> bool:
    """Whether what a difference names, and it alone of a figure's movers, writes the field."""
    moves = {
        name
        for name in there
        if name in TRANSITIONS and violation.variable in TRANSITIONS[name].full_effect
    }
    if violation.variable in FIGURES:
        return moves == {violation.transition}
    return violation.transition in moves


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
