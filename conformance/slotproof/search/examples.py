"""The search for violations: examples drawn by Hypothesis, run as far as time allows.

What is drawn depends on the seed, the batch and the configuration, and on nothing an engine does
(:mod:`slotproof.search.rules`). So a batch that was cut short goes on later where it
was: what has been run before is drawn again, and not run. Nothing but this module knows that it
is Hypothesis that draws.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import hypothesis
from hypothesis.internal.conjecture import providers
from hypothesis.stateful import run_state_machine_as_test

from slotproof.engines.base import Engine
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, OutOfTime, Referee
from slotproof.protocol.commands import Command
from slotproof.reports.trace import Trace
from slotproof.search.findings import Finding, Mark, explained, lead, mark
from slotproof.search.plan import ExampleBatch, Plan, Stop, Tell
from slotproof.search.rules import machine_for
from slotproof.search.sending import Leave
from slotproof.search.symptoms import AcceptedFindings, symptoms
from slotproof.support import bounds, garbage, interrupts
from slotproof.traces.record import rows_of

_SEEDS = 1009
"""Turns of a campaign whose seeds are consecutive."""


@dataclass
class Searched:
    """The result of a batch."""

    examples: int = 0
    """Examples that were run to their end, or to their first violation."""
    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)
    """Findings that nothing known explains, as they were seen."""
    accepted: set[str] = field(default_factory=set)
    """Findings of a baseline that were seen, as they were seen."""
    shown: Counter[str] = field(default_factory=Counter)
    """By identity, known or not, how many examples ended with it."""
    rest: ExampleBatch | None = None
    """What is left of it, where it was cut short."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Search:
    """A task: run the examples of a batch, as far as there is time.

    A violation ends its example. Where nothing but the reporting is wrong, and that is
    known, the example goes on, with those clauses ignored.
    """

    plan: Plan
    batch: ExampleBatch
    blank: Trace
    """A trace without rows: of which engine and configuration."""
    known: tuple[Mark, ...] = ()
    accepted: AcceptedFindings = field(default_factory=AcceptedFindings)
    first: bool = False
    """Whether the first finding ends it."""

    @property
    def key(self) -> str:
        """A name that no other task of the same search has."""
        batch = self.batch
        return f"{batch.name} {batch.index}: {batch.done} of {batch.examples}"

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Searched:
        return _Examples(self, engine, tell, stop).search()


class _Examples:
    """The host of a machine: judges its examples, and notes what nothing known explains."""

    def __init__(self, task: Search, engine: Engine, tell: Tell, stop: Stop) -> None:
        self.task, self.engine, self.tell, self.stop = task, engine, tell, stop
        self.batch, self.before = task.batch, task.batch.before
        self.result = Searched()
        self.setup = replace(task.blank.setup, oracles=task.plan.oracles)
        self._referee: Referee | None = None
        self._dry = 0
        """Examples still to be drawn that were run before."""

    def search(self) -> Searched:
        """Go on from where the batch is. Raises whatever an engine or an oracle raises."""
        begun = time.monotonic()
        finished = self._finished()
        self.result.rest = None if finished else replace(self.batch, before=self.ran, until=0.0)
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _finished(self) -> bool:
        try:
            with interrupts.held(), _own_choices(), garbage.seldom():
                self._draw()
        except Leave as leaving:
            error = leaving.because
            if error is None or isinstance(error, OutOfTime) or interrupts.arrived():
                return False
            raise error from None
        return not interrupts.arrived()

    def _draw(self) -> None:
        plan, batch, blank = self.task.plan, self.batch, self.task.blank
        while (chunk := self.batch.place[0]) * bounds.EXAMPLES_AT_ONCE < batch.examples:
            self._dry = self.batch.place[1]
            left = batch.examples - chunk * bounds.EXAMPLES_AT_ONCE
            machine = machine_for(self, self.engine.capabilities.commands, blank.config)
            settings = hypothesis.settings(
                max_examples=min(left, bounds.EXAMPLES_AT_ONCE),
                stateful_step_count=plan.steps,
                database=None,  # the same seed gives the same trace, whatever was found before
                deadline=None,
                report_multiple_bugs=False,
                print_blob=False,
                verbosity=hypothesis.Verbosity.quiet,
                suppress_health_check=list(hypothesis.HealthCheck),
                phases=[hypothesis.Phase.generate],
            )
            seeded = hypothesis.seed(_seed(plan.seed, batch.index, chunk))(machine)
            run_state_machine_as_test(seeded, settings=settings)
            self.batch = replace(self.batch, place=(chunk + 1, 0))

    def begin(self) -> Referee | None:
        """A judge for the next example, if it was not run before and there is time for it."""
        if not self._dry and self.result.examples and time.monotonic() > self.batch.until:
            raise OutOfTime  # of its share; one example it has in any case
        self.go_on()
        if self._dry:
            return None
        self.before = self.ran
        self._referee = self.setup.referee(self.engine, self.result.coverage, self.passes)
        return self._referee

    def go_on(self) -> None:
        """An example ends where the time does; what it showed before that counts."""
        interrupts.check()
        if self.stop():
            raise OutOfTime

    def end(self) -> None:
        """One more was run, or drawn."""
        if self._dry:
            self._dry -= 1
            return
        chunk, done = self.batch.place
        self.batch = replace(self.batch, done=self.batch.done + 1, place=(chunk, done + 1))
        self.result.examples += 1
        self.tell(1)

    @property
    def ran(self) -> tuple[Command, ...]:
        """Commands of the last example, or of the one before where none was begun yet."""
        log = self._referee.log if self._referee is not None else None
        return self.before if log is None else tuple(each.command for each in log)

    def passes(self, entry: Iteration) -> bool:
        """Return whether nothing but the reporting is wrong, and it is known."""
        if self._referee is None or not all(each.reporting for each in entry.violations):
            return False
        return self.recognised(self.trace(self._referee), mark(entry, lead(entry.violations)))

    def recognised(self, trace: Trace, found: Mark) -> bool:
        """Return whether it is accepted, known, or was seen in this task."""
        if self.task.accepted.recognises(symptoms(trace, found)):
            self.result.accepted.add(found.id)
            return True
        seen = any(each.id == found.id for each in self.result.findings)
        return seen or explained(found, self.task.known)

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Note what the example ended with; return whether it is new, and that is enough."""
        found, trace = mark(referee.log[-1], lead(violations)), self.trace(referee)
        self.result.shown[found.id] += 1
        if self.recognised(trace, found):
            return False
        number = self.batch.first + self.batch.done + 1
        finding = Finding(found, trace, number, self.before)
        self.result.findings.append(finding)
        self.tell(finding)
        return self.task.first

    def trace(self, referee: Referee) -> Trace:
        """Return the example up to the violation that it ends with, or goes on after."""
        violations = referee.log[-1].violations
        first = lead(violations)
        return replace(
            self.task.blank,
            rows=rows_of(referee.log),
            violations=[first, *(each for each in violations if each is not first)],
            ignored=tuple(sorted(referee.ignored)),
        )


def _seed(seed: int, index: int, chunk: int) -> int:
    """A seed of its own for each batch, and for each run of Hypothesis within one.

    >>> _seed(0, 3, 0), _seed(1, 0, 0)
    (3, 1009)
    >>> _seed(0, 1009, 0) == _seed(1, 0, 0)
    False
    """
    lap, index = divmod(index, _SEEDS)
    return seed * _SEEDS + index + (lap << 64) + (chunk << 96)


@contextmanager
def _own_choices() -> Iterator[None]:
    """Draw nothing from the source of the modules that happen to be imported.

    Hypothesis takes constants for its examples from there, so that the same seed would give
    other examples after any change of a source, and in a process of ``--jobs``; and keeps what
    it has read in a folder ``.hypothesis``, wherever the user is. Needs names of Hypothesis that
    are not public; where they are gone, nothing is changed.
    """
    before = getattr(providers, "_get_local_constants", None)
    cache = getattr(providers, "CONSTANTS_CACHE", None)
    constants = getattr(providers, "Constants", None)
    if before is None or cache is None or constants is None:
        yield
        return
    none = constants()
    cache.cache.clear()
    providers._get_local_constants = lambda: none  # noqa: SLF001  # see above
    try:
        yield
    finally:
        providers._get_local_constants = before  # noqa: SLF001  # see above
        cache.cache.clear()
