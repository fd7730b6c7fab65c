"""The same commands on two builds: what each did, and from where on they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from slotproof.engines.base import Engine, built
from slotproof.lockstep import referee
from slotproof.lockstep.figures import in_a_line
from slotproof.lockstep.observation import Violation
from slotproof.reports.equation import sum_of
from slotproof.reports.sequence import answer
from slotproof.reports.trace import Trace
from slotproof.traces.frames import ACTORS
from slotproof.traces.record import Row, rows_of

_NUMBERING = {"row"}
"""Fields that builds are free to choose: which row, which page."""


@dataclass
class Side:
    """What one build did with the commands."""

    name: str
    rows: list[Row]
    broken: dict[int, list[Violation]] = field(default_factory=dict)
    """By command, from 0: what it violated there, each clause where it broke first."""


@dataclass(frozen=True)
class Difference:
    """One command and what differs after it: by aspect, both sides' words (``""``: not there)."""

    index: int
    aspects: dict[str, tuple[str, str]]


def recorded(trace: Trace) -> Side:
    """What the trace itself says was seen."""
    last = len(trace.rows) - 1
    broken = {last: trace.violations} if trace.violations else {}
    return Side(trace.identity.title, trace.rows, broken)


def play(engine: Engine, trace: Trace, profile: str | None = None) -> Side:
    """Carry out the trace's commands, past violations, as long as the engine lives."""
    setup = replace(trace.setup, profile=profile)
    log = referee.play(engine, setup, trace.commands, passes=lambda _: True).log
    broken = {
        index: [*entry.passed, *entry.violations]
        for index, entry in enumerate(log)
        if entry.passed or entry.violations
    }
    return Side(built(engine).title, rows_of(log), broken)


def differences(a: Side, b: Side) -> list[Difference]:
    """Every command after which they differ; numbers of rows and pages are no difference."""
    result = []
    for index, (mine, theirs) in enumerate(zip_longest(a.rows, b.rows)):
        if mine is None or theirs is None:
            reached = "carried out", "not reached"
            aspects = {"command": reached if theirs is None else reached[::-1]}
        else:
            here, there = dict(_aspects(mine, theirs)), dict(_aspects(theirs, mine))
            names = dict.fromkeys([*here, *there])
            pairs = {name: (here.get(name, ""), there.get(name, "")) for name in names}
            aspects = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        broken = [side.broken.get(index, []) for side in (a, b)]
        if len({frozenset(each.clause for each in side) for side in broken}) > 1:
            ours, others = ("\n".join(map(str, side)) for side in broken)
            aspects["violated"] = ours, others
        if aspects:
            result.append(Difference(index, aspects))
    return result


def _aspects(row: Row, other: Row) -> Iterator[tuple[str, str]]:
    """What a command led to, by name, as far as both sides show it."""
    if row.transitions and other.transitions:
        yield "transitions", " ".join(row.transitions)
    told = [answer(each) for frame in row.frames for each in frame.told]
    if row.frames and other.frames:
        yield "clients hear", "; ".join(f"{each.label} {each.note}".strip() for each in told)
    for name, figures in row.pools.items():
        share = row.frames[-1].shares.get(name) if row.frames else None
        if share and other.frames:
            yield f"{name}, by ownership", str(sum_of(figures | share))
        if "held" in figures and "held" in other.pools.get(name, {}):
            yield f"{name}, its own check", str(sum_of(figures))
    for kind, noun in ACTORS.items():
        for key, view in getattr(row, kind).items():
            yield f"{noun}{key}", _fields(view, getattr(other, kind).get(key))


def _fields(view: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    """The fields that both sides show; all, where only one has such an actor."""
    shown = {key: value for key, value in view.items() if other is None or key in other}
    return in_a_line({key: value for key, value in shown.items() if key not in _NUMBERING})
