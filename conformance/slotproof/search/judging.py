"""What an example shows: a finding that is new, or one that is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from slotproof.engines.base import Engine
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, Referee
from slotproof.protocol.commands import Command
from slotproof.reports.trace import Trace
from slotproof.search.findings import Finding, Mark, explained, lead, mark
from slotproof.search.plan import Plan
from slotproof.search.symptoms import AcceptedFindings, symptoms
from slotproof.traces.record import rows_of

Tell = Callable[[Finding | int], None]
"""Told of each finding as soon as there is one, and of each example."""


@dataclass
class Notes:
    """The part of a task's result that every search has."""

    examples: int = 0
    """Examples that were run to their end, or to their first violation."""
    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)
    """Findings that nothing known explains, as they were seen."""
    accepted: set[str] = field(default_factory=set)
    """Findings of a baseline that were seen, as they were seen."""


class Judging:
    """Judges the examples of a task, one after the other, and notes what nothing known explains."""

    def __init__(
        self,
        engine: Engine,
        plan: Plan,
        blank: Trace,
        known: tuple[Mark, ...],
        accepted: AcceptedFindings,
        notes: Notes,
        tell: Tell,
    ) -> None:
        self.engine, self.blank, self.notes, self.tell = engine, blank, notes, tell
        self.known, self.accepted = known, accepted
        self.setup = replace(blank.setup, oracles=plan.oracles)
        self._referee: Referee | None = None
        self.before: tuple[Command, ...] = ()
        """Commands of the example before this one."""

    def begin(self, coverage: Coverage) -> Referee:
        """A judge for the next example."""
        self.before = self.ran
        self._referee = self.setup.referee(self.engine, coverage, self.passes)
        return self._referee

    @property
    def ran(self) -> tuple[Command, ...]:
        """Commands of the last example, or of the one before where none was begun yet."""
        log = self._referee.log if self._referee is not None else None
        return self.before if log is None else tuple(each.command for each in log)

    def passes(self, entry: Iteration) -> bool:
        """Nothing but the reporting is wrong, and it is known."""
        if not all(each.reporting for each in entry.violations):
            return False
        assert self._referee is not None
        return self.recognised(self.trace(self._referee), mark(entry, lead(entry.violations)))

    def recognised(self, trace: Trace, found: Mark) -> bool:
        """Whether it is accepted, known, or was seen in this task."""
        if self.accepted.recognises(symptoms(trace, found)):
            self.notes.accepted.add(found.id)
            return True
        seen = any(each.id == found.id for each in self.notes.findings)
        return seen or explained(found, self.known)

    def saw(self, referee: Referee, violations: list[Violation], number: int) -> bool:
        """Note what the example of that number ended with; whether that was new."""
        found = mark(referee.log[-1], lead(violations))
        trace = self.trace(referee)
        if self.recognised(trace, found):
            return False
        finding = Finding(found, trace, number, self.before)
        self.notes.findings.append(finding)
        self.tell(finding)
        return True

    def trace(self, referee: Referee) -> Trace:
        """The example up to the violation that it ends with, or goes on after."""
        violations = referee.log[-1].violations
        first = lead(violations)
        return replace(
            self.blank,
            rows=rows_of(referee.log),
            violations=[first, *(each for each in violations if each is not first)],
            set_aside=tuple(sorted(referee.set_aside)),
        )
