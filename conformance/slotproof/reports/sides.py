"""A comparison of two builds that ran the same commands: their results and the differences."""

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
"""Fields whose numbers differ between builds without meaning."""


@dataclass
class Side:
    """Results of one build for all commands."""

    name: str
    rows: list[Row]
    broken: dict[int, list[Violation]] = field(default_factory=dict)
    """Violations by index of the command, from 0. Each clause appears only where it first broke."""


@dataclass(frozen=True)
class Difference:
    """A command with different results. ``aspects`` maps an aspect to both sides' texts."""

    index: int
    aspects: dict[str, tuple[str, str]]


def recorded(trace: Trace) -> Side:
    """Return the results recorded in the trace itself."""
    broken = {len(trace.rows) - 1: trace.violations} if trace.violations else {}
    return Side(trace.identity.title, trace.rows, broken)


def play(engine: Engine, trace: Trace, profile: str | None = None) -> Side:
    """Run the trace's commands on an engine. Continue after violations until the engine crashes."""
    setup = replace(trace.setup, profile=profile)
    log = referee.play(engine, setup, trace.commands, passes=lambda _: True).log
    broken = {
        index: [*entry.passed, *entry.violations]
        for index, entry in enumerate(log)
        if entry.passed or entry.violations
    }
    return Side(built(engine).title, rows_of(log), broken)


def differences(a: Side, b: Side) -> list[Difference]:
    """Return the commands with different results. Row numbers and page numbers are not compared."""
    result = []
    for index, (row, other) in enumerate(zip_longest(a.rows, b.rows)):
        if row is None or other is None:
            reached = "carried out", "not reached"
            aspects = {"command": reached if other is None else reached[::-1]}
        else:
            left, right = dict(_aspects(row, other)), dict(_aspects(other, row))
            names = dict.fromkeys([*left, *right])
            pairs = {name: (left.get(name, ""), right.get(name, "")) for name in names}
            aspects = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        broken = [side.broken.get(index, []) for side in (a, b)]
        if len({frozenset(violation.clause for violation in side) for side in broken}) > 1:
            ours, others = ("\n".join(map(str, side)) for side in broken)
            aspects["violated"] = ours, others
        if aspects:
            result.append(Difference(index, aspects))
    return result


def _aspects(row: Row, other: Row) -> Iterator[tuple[str, str]]:
    """Yield the results of a command by aspect. Aspects that the other side lacks are left out."""
    if row.transitions and other.transitions:
        yield "transitions", " ".join(row.transitions)
    told = [answer(message) for frame in row.frames for message in frame.told]
    if row.frames and other.frames:
        yield "clients get", "; ".join(f"{arrow.label} {arrow.note}".strip() for arrow in told)
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
    """Return the fields that both sides have, or all fields if only one side has the actor."""
    shown = {key: value for key, value in view.items() if other is None or key in other}
    return in_a_line({key: value for key, value in shown.items() if key not in _NUMBERING})
