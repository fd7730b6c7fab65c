"""The search for violations: examples drawn by Hypothesis, run as far as time allows.

The seed, the batch and the configuration determine the examples. The engine's behaviour has no
influence on the examples (:mod:`slotproof.search.rules`). So a batch cut short can resume: examples
that were run before are drawn again, but not run again. Only this module starts Hypothesis.
"""

from __future__ import annotations

import gc
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
from slotproof.support import bounds, interrupts

_SEEDS = 1009
"""Number of batches in a campaign that get consecutive seeds."""
_NEW = 20_000
"""Number of new objects that trigger a collection. Objects that are freed again do not count."""


@dataclass
class Searched:
    """Result of a batch."""

    examples: int = 0
    """Number of examples run to their end, or to their first violation."""
    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)
    """Findings not explained by earlier findings, as seen before shrinking."""
    accepted: set[str] = field(default_factory=set)
    """Identities of accepted findings seen in the batch."""
    shown: Counter[str] = field(default_factory=Counter)
    """Number of examples that ended in a finding, by identity. Accepted findings count, too."""
    rest: ExampleBatch | None = None
    """Unfinished rest of a batch that was cut short, or None."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Search:
    """A task: run the examples of a batch, as far as time allows.

    A violation ends its example. Exception: if only reporting clauses fail and the finding is not
    new, the example continues and ignores these clauses.
    """

    plan: Plan
    batch: ExampleBatch
    blank: Trace
    """Trace without commands, with the engine and the configuration."""
    known: tuple[Mark, ...] = ()
    accepted: AcceptedFindings = field(default_factory=AcceptedFindings)
    first: bool = False
    """True if the first finding ends the task."""

    @property
    def key(self) -> str:
        """Name unique among the tasks of a search."""
        batch = self.batch
        return f"{batch.name} {batch.index}: {batch.done} of {batch.examples}"

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Searched:
        return _Examples(self, engine, tell, stop).search()


class _Examples:
    """Host of a Hypothesis state machine: judges examples and records unexplained violations."""

    def __init__(self, task: Search, engine: Engine, tell: Tell, stop: Stop) -> None:
        self.task, self.engine, self.tell, self.stop = task, engine, tell, stop
        self.batch, self.before = task.batch, task.batch.before
        self.result = Searched()
        self.setup = replace(task.blank.setup, oracles=task.plan.oracles)
        self._referee: Referee | None = None
        self._dry = 0
        """Number of examples that are still to be drawn again without being run again."""

    def search(self) -> Searched:
        """Run the batch from its current place. Raises every error of an engine or an oracle."""
        begun = time.monotonic()
        finished = self._finished()
        self.result.rest = None if finished else replace(self.batch, before=self.ran, until=0.0)
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _finished(self) -> bool:
        try:
            with interrupts.held(), _own_choices(), rare_collections():
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
                database=None,  # the same seed gives the same trace, whatever an earlier run found
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
        """Return a referee for the next example, or None if it was run before."""
        if not self._dry and self.result.examples and time.monotonic() > self.batch.until:
            raise OutOfTime  # The batch's time is over. Every batch runs at least one example.
        self.go_on()
        if self._dry:
            return None
        self.before = self.ran
        self._referee = self.setup.referee(self.engine, self.result.coverage, self.passes)
        return self._referee

    def go_on(self) -> None:
        """Raise if the time is over, or on an interrupt. Violations seen before still count."""
        interrupts.check()
        if self.stop():
            raise OutOfTime

    def end(self) -> None:
        """Count an example as run, or as drawn again."""
        if self._dry:
            self._dry -= 1
            return
        chunk, done = self.batch.place
        self.batch = replace(self.batch, done=self.batch.done + 1, place=(chunk, done + 1))
        self.result.examples += 1
        self.tell(1)

    @property
    def ran(self) -> tuple[Command, ...]:
        """Commands of the last example. Before the first example, the batch's stored commands."""
        log = self._referee.log if self._referee is not None else None
        return self.before if log is None else tuple(entry.command for entry in log)

    def passes(self, entry: Iteration) -> bool:
        """Return True if only reporting clauses are violated, and the finding is not new."""
        if self._referee is None or not all(violation.reporting for violation in entry.violations):
            return False
        return self.recognised(self.trace(self._referee), mark(entry, lead(entry.violations)))

    def recognised(self, trace: Trace, identity: Mark) -> bool:
        """Return True if a finding is accepted, seen before, or explained by an earlier finding."""
        if self.task.accepted.recognises(symptoms(trace, identity)):
            self.result.accepted.add(identity.id)
            return True
        seen = any(finding.id == identity.id for finding in self.result.findings)
        return seen or explained(identity, self.task.known)

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Record an example's violation. Return True if the violation is new and ends the task."""
        identity, trace = mark(referee.log[-1], lead(violations)), self.trace(referee)
        self.result.shown[identity.id] += 1
        if self.recognised(trace, identity):
            return False
        finding = Finding(identity, trace, self.batch.first + self.batch.done + 1, self.before)
        self.result.findings.append(finding)
        self.tell(finding)
        return self.task.first

    def trace(self, referee: Referee) -> Trace:
        """Return the example's trace up to its last violation."""
        first, ignored = lead(referee.log[-1].violations), tuple(sorted(referee.ignored))
        return self.task.blank.played(referee.log, first, ignored=ignored)


def _seed(seed: int, index: int, chunk: int) -> int:
    """Return a distinct seed for each batch, and for each run of Hypothesis within a batch.

    >>> _seed(0, 3, 0), _seed(1, 0, 0)
    (3, 1009)
    >>> _seed(0, 1009, 0) == _seed(1, 0, 0)
    False
    """
    lap, index = divmod(index, _SEEDS)
    return seed * _SEEDS + index + (lap << 64) + (chunk << 96)


@contextmanager
def _own_choices() -> Iterator[None]:
    """Stop Hypothesis from drawing constants that occur in the source of local modules.

    With such constants, the same seed would give different examples after any change of a source
    file, and in a process of ``--jobs``. Hypothesis also writes such constants to a folder
    ``.hypothesis`` in the working directory. This function replaces private names of Hypothesis,
    and does nothing if Hypothesis no longer has the names.
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


@contextmanager
def rare_collections() -> Iterator[None]:
    """Exclude the existing objects from garbage collection, and collect new objects less often.

    Reference counting frees nearly all objects of an example. By default, Python searches all of
    torch and Hypothesis for cycles after every 700 new objects. These searches take an eighth of a
    campaign's time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
