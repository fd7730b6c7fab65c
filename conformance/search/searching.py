"""The two tasks of a campaign that goes on: search a part, shrink what was found there.

A task is data and runs wherever there is an engine (:mod:`slotproof.conformance.search.workers`).
What it gives depends on nothing but its data, not on which tasks run beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from slotproof.conformance.engines.base import Engine
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.referee import Iteration, Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.search.campaign import replay
from slotproof.conformance.search.examples import Examples
from slotproof.conformance.search.findings import Mark, lead, mark
from slotproof.conformance.search.minimise import minimise, signature
from slotproof.conformance.search.plan import Part
from slotproof.conformance.search.rounds import OutOfTime, Stop, Turn
from slotproof.conformance.traces.trace import Trace


@dataclass(frozen=True)
class Candidate:
    """A violation that nothing known explains, and the example that showed it."""

    part: Part
    trace: Trace
    mark: Mark
    example: int
    """Its number in the campaign."""


@dataclass
class Searched:
    """What came of a turn."""

    rest: Turn | None = None
    """What is left of it, where it was cut short."""
    examples: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    candidates: list[Candidate] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """Findings of the baseline that were seen."""


Tell = Callable[[Candidate | int], None]
"""Told of each candidate as soon as there is one, and of each example."""


@dataclass(frozen=True)
class Search:
    """Run the examples of a turn, whatever is found, as far as there is time.

    A violation ends its example. Where nothing but the reporting is wrong, and that is
    known, the example goes on, with those clauses set aside.
    """

    part: Part
    turn: Turn
    known: tuple[Mark, ...] = ()
    accepted: frozenset[str] = frozenset()

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Searched:
        return _Searching(self, engine, tell, stop).search()


class _Searching(Examples):
    def __init__(self, task: Search, engine: Engine, tell: Tell, stop: Stop) -> None:
        super().__init__(engine, task.part, task.turn, stop)
        self.task, self.tell = task, tell
        self.seen: set[str] = set()
        self.result = Searched(coverage=self.coverage)

    def search(self) -> Searched:
        finished = False
        with suppress(KeyboardInterrupt):
            finished = self.go()
        self.result.examples = self.run
        self.result.rest = None if finished else self.turn
        return self.result

    def counted(self) -> None:
        """The campaign adds them up."""
        self.tell(1)

    def passes(self, entry: Iteration) -> bool:
        """Nothing but the reporting is wrong, and it is known."""
        if not all(each.reporting for each in entry.violations):
            return False
        return self.recognised(mark(entry, lead(entry.violations)))

    def recognised(self, found: Mark) -> bool:
        if found.id in self.task.accepted:
            self.result.accepted.add(found.id)
            return True
        known = self.task.known
        return found.id in self.seen or any(
            each.id == found.id or each.explains(found) for each in known
        )

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Note what is new; the campaign goes on in any case."""
        first = lead(violations)
        found = mark(referee.log[-1], first)
        if not self.recognised(found):
            self.seen.add(found.id)
            violations = [first, *(each for each in violations if each is not first)]
            passed = tuple(sorted(referee.set_aside))
            trace = self.part.trace(referee.log, violations, set_aside=passed)
            candidate = Candidate(self.part, trace, found, self.turn.first + self.turn.done + 1)
            self.result.candidates.append(candidate)
            self.tell(candidate)
        return False


@dataclass(frozen=True)
class Shrink:
    """Shrink candidates of one clause, one after the other: what one explains is not shrunk.

    Of those that look the same only the first is: the others come again if they are
    something else.
    """

    candidates: tuple[Candidate, ...]
    known: tuple[Mark, ...]

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> list[Candidate | None]:
        """For each a shorter one, or none if it was left out; what there is no
        time for comes back as it is."""
        results: list[Candidate | None] = []
        known = list(self.known)
        tried: set[str] = set()
        for candidate in self.candidates:
            raw = candidate.mark
            if raw.id in tried or any(k.id == raw.id or k.explains(raw) for k in known):
                results.append(None)
                continue
            small = candidate
            with suppress(OutOfTime, KeyboardInterrupt):
                small = _Shrinking(candidate, known, engine, stop).go()
            tried.add(raw.id)
            known.append(small.mark)
            results.append(small)
            tell(small)
        return results


class _Shrinking:
    def __init__(self, of: Candidate, known: list[Mark], engine: Engine, stop: Stop) -> None:
        self.of, self.known, self.engine, self.stop = of, known, engine, stop
        self.wanted = of.trace.violations[0]
        self.culprit = of.mark.certain
        self.loose = False
        """Whether it may become one that is known."""
        self.set_aside = tuple(
            clause for clause in of.trace.set_aside if clause != self.wanted.clause
        )

    def go(self) -> Candidate:
        of = self.of
        commands, minimal = self.shorter(of.trace.commands)
        if not self.culprit and any(each.clause == of.mark.clause for each in self.known):
            # Perhaps it is a known one, and something beside it that is not needed?
            self.loose = True
            plain, plain_minimal = self.shorter(commands)
            log = self.again(plain, self.set_aside)
            first = self.found(log)
            if first is not None and self.explained(mark(log[-1], first)):
                commands, minimal = plain, plain_minimal
            else:
                self.loose = False
        return self.result(commands, minimal)

    def shorter(self, commands: list[Command]) -> tuple[list[Command], bool]:
        best, _, minimal = minimise(commands, [self.wanted], self.replay, self.of.part.plan.shrink)
        return best, minimal

    def result(self, commands: list[Command], minimal: bool) -> Candidate:
        """What is left, with as little set aside as it needs."""
        of, set_aside = self.of, self.set_aside
        log = self.again(commands, set_aside)
        plain = self.again(commands, of.part.plan.set_aside)
        if len(plain) == len(log) and self.found(plain) is not None:
            log, set_aside = plain, of.part.plan.set_aside
        first = self.found(log)
        if first is None:
            return of  # it does not happen every time
        rest = [each for each in log[-1].violations if each is not first]
        trace = of.part.trace(log, [first, *rest], minimal, set_aside)
        return replace(of, trace=trace, mark=mark(log[-1], first))

    def again(self, commands: list[Command], set_aside: tuple[str, ...]) -> list[Iteration]:
        plan, config = self.of.part.plan, self.of.part.config
        return replay(
            self.engine,
            config,
            plan.seed,
            commands,
            plan.profile,
            set_aside,
            plan.oracles,
            self.stop,
        ).log

    def replay(self, commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        """The violation that is wanted, if it still is this finding; and what else there is."""
        log = self.again(commands, self.set_aside)
        broken = log[-1].violations if log else []
        others = [each for each in broken if signature(each) != signature(self.wanted)]
        same = [self.wanted] if self.found(log) is not None else []
        return [entry.command for entry in log], [*same, *others]

    def found(self, log: list[Iteration]) -> Violation | None:
        """The violation at the end of the log that is this finding and none that is known."""
        if not log or not log[-1].violations:
            return None
        broken = log[-1].violations
        if self.wanted.reporting and not all(each.reporting for each in broken):
            return None
        of = self.of.mark
        for each in broken:
            now = mark(log[-1], each)
            if (
                (now.clause, now.what) == (of.clause, of.what)
                and (not self.culprit or now.transitions == of.transitions)
                and (self.loose or not self.explained(now))
            ):
                return each
        return None

    def explained(self, found: Mark) -> bool:
        return any(known.id == found.id or known.explains(found) for known in self.known)
