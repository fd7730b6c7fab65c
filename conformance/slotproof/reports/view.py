"""Facts that every form of a trace shows: derived once, for text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import count, pairwise
from typing import Any

from slotproof.lockstep.observation import Violation, causes_first
from slotproof.protocol.commands import describe
from slotproof.reports.page_map import page_maps
from slotproof.reports.sequence import arrows
from slotproof.reports.step import Step
from slotproof.traces.frames import Frame
from slotproof.traces.record import Record
from slotproof_model.evaluation.layout import LAYOUT, POOLS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

FIGURES = LAYOUT[POOLS]
"""Variables of no actor: of the pools, and the rows."""


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
