"""What every form of a trace tells: derived once, shown as text, Markdown, Mermaid or HTML.

A *beat* is a command that waits in the inbox, or one iteration of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command, describe
from slotproof.conformance.traces.frames import Frame
from slotproof.conformance.traces.lanes import Arrow, arrows
from slotproof.conformance.traces.picture import LOST, SHARED, Picture, pictures
from slotproof.conformance.traces.trace import Row, Trace
from slotproof.model.profiles import PROFILES
from slotproof.model.transitions import TRANSITIONS

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
    """A command that waits, or an iteration."""

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


class Story:
    """A trace, beat by beat. Raises ``KeyError``, ``TypeError`` or ``ValueError`` where a
    figure is missing or no number."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.detailed = any(row.frames for row in trace.rows)
        """Whether the trace has iterations, or only what was after each command."""
        self.beats = list(self._beats())
        self._draw()
        profile = PROFILES.get(trace.profile)
        if profile is not None and profile.choices["loan"] != "uncached":
            for beat in self.beats:
                beat.pools = [replace(pool, lent_is_held=True) for pool in beat.pools]
        if trace.violations:
            last = self.beats[-1]
            last.violations = trace.violations
            last.died = any(each.invariant == "INV-ALIVE" for each in trace.violations)
            last.ran = last.ran and not last.died
        self._fold()

    @property
    def first(self) -> Violation | None:
        return self.trace.violations[0] if self.trace.violations else None

    @cached_property
    def last_events(self) -> list[dict[str, Any]]:
        """The transitions of the last iteration; of an older trace, of the last command."""
        last = self.trace.rows[-1]
        return last.frames[-1].events if last.frames else _unframed(last)

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

    def _beats(self) -> Iterator[Beat]:
        self._shown: list[Frame] = []
        previous = Frame()
        index = 0
        for number, row in enumerate(self.trace.rows, 1):
            frames = row.frames or self._guess(row, previous)
            says, name = in_words(row.command), row.command["do"]
            last_row = number == len(self.trace.rows)
            if not frames:
                yield _beat(index, number, says, name, previous, previous, ran=False)
                self._shown.append(previous)
                index += 1
            for part, frame in enumerate(frames, 1):
                text = says
                if len(frames) > 1:
                    text = f"scheduler iteration {part} of {len(frames)}"
                beat = _beat(index, number, text, name, frame, previous, ran=True)
                bad = self.wrong if last_row and part == len(frames) else {}
                beat.part = part if len(frames) > 1 else 0
                beat.arrows = list(arrows(frame, bad))
                yield beat
                self._shown.append(frame)
                previous = frame
                index += 1

    def _guess(self, row: Row, previous: Frame) -> list[Frame]:
        """A trace without iterations has the figures after a command, and names of transitions."""
        same = (previous.pools, previous.sessions, previous.slots, previous.requests)
        if self.detailed or (
            (row.pools, row.sessions, row.slots, row.requests) == same and not row.transitions
        ):
            return []
        return [Frame(_unframed(row), [], row.pools, {}, row.sessions, row.slots, row.requests)]

    def _fold(self) -> None:
        """A stall is many iterations of the same: tables show it once."""
        first = self.beats[0] if self.beats else None
        for before, beat in pairwise(self.beats):
            beat.repeats = (
                before.part > 0
                and beat.number == before.number
                and beat.arrows == before.arrows
                and not beat.changed
                and not beat.violations
                and beat.differs == before.differs
                and beat.check == before.check
                and not any(each.deltas for pool in beat.pools for each in pool.sums)
                and not any(each.moved for each in beat.pictures.values() if each is not None)
            )
            if beat.repeats and first is not None:
                first.like_it += 1
            else:
                first = beat

    def _draw(self) -> None:
        self.undrawn: dict[str, str] = {}
        """By pool, why its pages are not drawn."""
        names = sorted({name for frame in self._shown for name in frame.pools})
        for name in names:
            drawn, why = pictures(self._shown, name, self.trace.config.page_size)
            if why:
                self.undrawn[name] = why
            for beat, picture in zip(self.beats, drawn, strict=True):
                beat.pictures[name] = picture


def _unframed(row: Row) -> list[dict[str, Any]]:
    """Transitions of which a trace without iterations has the names alone."""
    return [{"transition": name, "params": {}} for name in row.transitions]


def _writes(violation: Violation, there: list[str]) -> bool:
    """Whether what a difference names, and it alone of a figure's movers, writes the field."""
    who, field_name, *_ = (*violation.detail.split(" ", 2), "", "")
    moves = {
        name
        for name in there
        if name in TRANSITIONS and {who, field_name} & TRANSITIONS[name].full_effect.keys()
    }
    if "." in who:  # full.available is 61, the spec says 62
        return moves == {violation.transition}
    return violation.transition in moves


def in_words(command: Command) -> str:
    """The command for someone who knows engines and not this suite.

    >>> in_words({"do": "step", "n": 2})
    '2 scheduler iterations'
    """
    if command["do"] == "step":
        n = command["n"]
        return "one scheduler iteration" if n == 1 else f"{n} scheduler iterations"
    if command["do"] == "tick":
        return f"{command['seconds']} seconds pass"
    if command["do"] == "submit":
        count, stop = len(command["tokens"]), command["stop"]
        where = f"to {command['session']}" if command["session"] else "without a session"
        tokens = "1 new token" if count == 1 else f"{count} new tokens"
        text = f"submit {command['rid']} {where}: {tokens}, max_new {command['max_new']}"
        return f"{text}, stop at {stop}" if stop else text
    return describe(command)


def _beat(
    index: int, number: int, says: str, name: str, now: Frame, then: Frame, ran: bool
) -> Beat:
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
