"""A view of a trace, step by step. Text, Markdown and HTML are all rendered from the view."""

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
"""Variables that belong to no actor: counts of the pools and of the free rows."""


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
    """Change since the previous step: ``new``, ``gone``, ``changed`` or ``same``."""


@dataclass
class Step:
    """Report row: an iteration, or a command without iterations. ``View`` sets the last fields."""

    index: int
    """Index of the step in the trace, from 0."""
    number: int
    """Number of the command, from 1."""
    part: int
    """Number of the iteration within its command, from 1. 0 for a command's only iteration."""
    says: str
    """Command in words. For one of several iterations, ``scheduler iteration 2 of 3``."""
    ran: bool
    """True if an iteration ran. False if the command only waits for the next iteration."""
    frame: Frame
    then: Frame
    lent_is_held: bool
    """True if the profile lets the engine's own check count KV on loan as held."""

    arrows: list[Arrow] = field(default_factory=list)
    maps: dict[str, PageMap | None] = field(default_factory=dict)
    """Page owners of each pool, by pool name."""
    violations: list[Violation] = field(default_factory=list)
    died: bool = False
    """True if the engine crashed, hung or sent garbage. No state follows such a step."""
    repeats: bool = False
    """True if the step has the same events as the previous step, and changes nothing."""
    like_it: int = 0
    """Number of later steps that repeat this step."""

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
        """Equations of all pools, one per line. With several pools, each line names its pool."""
        several = len(self.pools) > 1
        lines = ((pool.name, line) for pool in self.pools for line in pool.lines)
        return [f"{name}: {line}" if several else line for name, line in lines]

    def hidden(self, pool: Pool) -> bool:
        """Return True if the pool's sum is right although some of its pages are lost or shared."""
        shown = self.maps.get(pool.name)
        bad = shown is not None and any(cell.kind in (LOST, SHARED) for cell in shown.wrong)
        return self.ran and bad and pool.owned is not None and pool.owned.adds_up

    @property
    def wrongly(self) -> bool:
        """True if the engine's check reports ok despite lost memory, or reports a false leak."""
        known = [pool.owned for pool in self.pools if pool.owned is not None]
        right = all(owned.adds_up for owned in known) and not any(map(self.hidden, self.pools))
        verdict = self.check.get("verdict")
        return bool(known) and verdict in ("ok", "leak") and right != (verdict == "ok")

    @property
    def changed(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.fate != "same"]

    def like(self, before: Step) -> bool:
        """Return True if the step repeats ``before``: same command, same events, no change."""
        return (
            before.part > 0
            and self.number == before.number
            and self.arrows == before.arrows
            and not self.changed
            and not self.violations
            and self.differs == before.differs
            and self.check == before.check
            and not any(equation.deltas for pool in self.pools for equation in pool.sums)
            and not any(page_map.moved for page_map in self.maps.values() if page_map is not None)
        )


class View:
    """A trace as a list of steps. Raises ``KeyError``, ``TypeError`` or ``ValueError`` if the trace
    lacks a count, or has a count that is not a number."""

    def __init__(self, trace: Record) -> None:
        self.trace = trace
        self.before = trace.recorded.before if trace.recorded is not None else 0
        """Number of commands in the log before the first row of the trace."""
        self.total = self.before + len(trace.rows)
        self.steps = list(self._steps())
        self.undrawn: dict[str, str] = {}
        """Reason why no pages are drawn, by pool name."""
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
            last.died = any(violation.invariant == "INV-ALIVE" for violation in trace.violations)
            last.ran = last.ran and not last.died
        self._fold()

    @property
    def first(self) -> Violation | None:
        return self.trace.violations[0] if self.trace.violations else None

    @cached_property
    def last_events(self) -> list[dict[str, Any]]:
        """Events of the last iteration."""
        frames = self.trace.rows[-1].frames
        return frames[-1].events if frames else []

    @cached_property
    def sent_to(self) -> dict[str, str]:
        """Session of each request ID, as named by the client's submit."""
        sent = (row.command for row in self.trace.rows if row.command["do"] == "submit")
        return {command["rid"]: command["session"] for command in sent if command["session"]}

    @cached_property
    def wrong(self) -> dict[str, list[str]]:
        """Messages of the violated clauses, by the transition that each clause names.

        A clause about a wrong variable names the actor's last transition, or the last transition
        that changed the pool's count. A transition that can't be the only cause is left out.
        """
        names = [event["transition"] for event in self.last_events]
        reasons: dict[str, list[str]] = {}
        for bad in self.trace.violations:
            if bad.transition and (bad.conjunct != "state" or _writes(bad, names)):
                reasons.setdefault(bad.transition, []).append(f"{bad.clause}: {bad.detail}")
        return reasons

    def _steps(self) -> Iterator[Step]:
        profile = PROFILES.get(self.trace.profile)
        held = profile is not None and profile.choices["loan"] != "uncached"
        # Before its first step an engine is empty. A log that begins later uses its first counts.
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
        """Mark the steps that repeat their predecessor, so that tables show a stall only once."""
        first = self.steps[0] if self.steps else None
        for before, step in pairwise(self.steps):
            step.repeats = step.like(before)
            if step.repeats and first is not None:
                first.like_it += 1
            else:
                first = step


def _writes(violation: Violation, names: list[str]) -> bool:
    """Return True if the violation's transition writes the variable, and alone if it is a count."""
    specs = [TRANSITIONS[name] for name in names if name in TRANSITIONS]
    moves = {spec.id for spec in specs if violation.variable in spec.full_effect}
    if violation.variable in FIGURES:
        return moves == {violation.transition}
    return violation.transition in moves


def _actors(now: Frame, then: Frame) -> Iterator[Actor]:
    for kind, noun in ACTORS.items():
        present, previous = getattr(now, kind), getattr(then, kind)
        for name in sorted(present.keys() | previous.keys()):
            shown, past = present.get(name), previous.get(name)
            if shown is None or past is None:
                fate = "gone" if shown is None else "new"
            else:
                fate = "same" if shown == past else "changed"
            yield Actor(noun + name, list(_fields(past if shown is None else shown, past)), fate)


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
