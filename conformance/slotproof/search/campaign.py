"""A campaign: search all configurations and shrink the findings, as far as the plan allows.

Each round searches one batch of examples per configuration, then shrinks the violations that no
earlier finding explains. Batches of one round do not use each other's findings, so ``--jobs``
changes only the running time. With a time limit, each round reserves time for shrinking, because a
finding is only as useful as its trace. A later round resumes batches that were cut short. If the
plan limits the number of findings, batches run one by one until the first finding.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from slotproof.engines.base import Capabilities, Engine, EngineFailed, EngineUnusable, Subject
from slotproof.lockstep.coverage import Coverage, total
from slotproof.protocol.build import Build
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search.examples import Search
from slotproof.search.findings import Finding, Mark
from slotproof.search.plan import FLOOR, Clock, ExampleBatch, Plan, Schedule
from slotproof.search.shrinking import Shrink
from slotproof.search.symptoms import AcceptedFindings
from slotproof.search.workers import Here, Workers
from slotproof.support import interrupts

Progress = Callable[[str, int, int], None]
"""Progress callback: name of the activity, number of examples or replays done, total number."""

SEARCHING = 0.7
"""Share of the remaining time that a round spends searching. The rest is reserved for shrinking."""
LATE = 120.0
"""Minimum number of seconds for shrinking at the end of a campaign whose plan sets ``floor``."""
REPLAYS, PER_EXAMPLE = 2000, 4
"""Limit on replays for shrinking all findings: the larger of ``REPLAYS`` and ``PER_EXAMPLE`` times
the number of planned examples. Four replays run about as many commands as one example."""


@dataclass(frozen=True)
class Point:
    """Progress of a campaign after a round."""

    seconds: float
    examples: int
    coverage: int
    """Number of transitions and guard outcomes seen."""
    findings: int
    new: bool
    """True if the round reached a new transition or guard outcome."""


@dataclass
class Outcome:
    """Result of a campaign."""

    engine: str
    """Title of the build."""
    profile: str
    build: Build | None = None
    covered: defaultdict[str, Coverage] = field(default_factory=lambda: defaultdict(Coverage))
    """Coverage by configuration."""
    configs: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Configurations refused by the engine, with reasons."""
    run: Counter[str] = field(default_factory=Counter)
    """Number of examples run to their end, by configuration."""
    planned: dict[str, int] = field(default_factory=dict)
    """Number of planned examples by configuration. Empty if the plan has only a time limit."""
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    """Findings that the search did not recognise as accepted, the plainest first."""
    accepted: set[str] = field(default_factory=set)
    """Identities of the accepted findings that occurred in the search."""
    first: tuple[int, int, float] | None = None
    """Commands, examples and seconds spent up to the end of the round with the first violation."""
    replays: int = 0
    """Number of replays used for shrinking."""
    shown: Counter[str] = field(default_factory=Counter)
    """Number of examples that ended in a finding, by identity. Accepted findings count, too."""
    points: list[Point] = field(default_factory=list)
    """Progress after each round."""
    spent: Counter[str] = field(default_factory=Counter)
    """Milliseconds of search, by configuration."""
    interrupted: bool = False
    out_of_time: bool = False
    """True if the time ended before the planned examples were run."""
    unusable: str = ""
    """Reason why the engine could not continue after a finding, or empty."""

    @property
    def examples(self) -> int:
        """Number of examples run in all configurations."""
        return self.run.total()

    @property
    def coverage(self) -> Coverage:
        """Joint coverage of all configurations."""
        return total(self.covered.values())

    @property
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.findings[0].trace if self.findings else None


@dataclass
class Collected:
    """Findings of a campaign by identity, and the identities that may explain later violations."""

    accepted: frozenset[str] = frozenset()
    """Identities of accepted findings. The campaign does not report these findings."""
    found: dict[str, Finding] = field(default_factory=dict)
    pending: dict[str, Finding] = field(default_factory=dict)
    """Findings of the current round, not yet shrunk."""
    known: list[Mark] = field(default_factory=list)
    """Identities of the findings added so far, including accepted findings."""
    met: set[str] = field(default_factory=set)
    """Identities of the accepted findings among the findings added so far."""

    def saw(self, finding: Finding) -> bool:
        """Store a finding before it is shrunk. Return True if its identity is new."""
        if new := finding.id not in self.found and finding.id not in self.pending:
            self.pending[finding.id] = finding
        return new

    def shorter(self, small: Finding) -> None:
        """Replace a pending finding by its shrunk form, before the round ends."""
        self.pending = {k: v for k, v in self.pending.items() if _example(v) != _example(small)}
        if small.id not in self.found and small.id not in self.accepted:
            self.pending[small.id] = small

    def add(self, small: Finding) -> None:
        """Add a finding. Of two with one identity, a minimal trace wins, then the shorter trace."""
        self.known.append(small.mark)
        if small.id in self.accepted:
            self.met.add(small.id)
            return
        old = self.found.setdefault(small.id, small)
        shorter = min(old, small, key=lambda one: (not one.trace.minimal, len(one.trace.rows)))
        self.found[small.id] = shorter

    def reopen(self, ids: Iterable[str]) -> set[str]:
        """Move findings with these identities back to ``pending``. Return the moved identities."""
        again = set(ids) & self.found.keys()
        self.pending |= {name: self.found.pop(name) for name in again}
        return again

    def settle(self, findings: Iterable[Finding]) -> None:
        """End a round or the search: add these findings, and drop the pending findings."""
        for finding in findings:
            self.add(finding)
        self.pending.clear()

    def all(self) -> list[Finding]:
        """Return all findings so far, the plainest first."""
        every = {**self.pending, **self.found}.values()
        return sorted(every, key=lambda finding: finding.plainness)


def _example(finding: Finding) -> tuple[str, int, str]:
    """Return a finding's configuration, example number and clause."""
    return finding.trace.config_name, finding.first, finding.mark.clause


def groups(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Return one group of findings per clause. Findings with few transitions come first."""
    order = sorted(
        findings,
        key=lambda finding: (
            finding.mark.clause,
            len(set(finding.mark.transitions)),
            len(finding.trace.rows),
            finding.first,
            finding.trace.config_name,
        ),
    )
    return [tuple(group) for _, group in groupby(order, key=lambda finding: finding.mark.clause)]


def run(
    engine: Engine,
    spec: str,
    plan: Plan,
    progress: Progress = lambda *_: None,
    keep: Callable[[list[Finding]], None] = lambda _: None,
    workers: Workers | None = None,
    accepted: AcceptedFindings | None = None,
) -> Outcome:
    """Run the plan. Ctrl-C or the time limit ends the search and returns the result so far.

    ``keep`` gets all findings, the plainest first, after each new and each shrunk finding. If
    ``keep`` stores the findings, no finding is lost. ``workers`` run the tasks. By default, the
    tasks run on ``engine`` in this process. The search ignores ``accepted`` findings.

    >>> from slotproof.engines.reference import InProcessEngine
    >>> from slotproof.protocol.config import CONFIGS
    >>> name, plan = "22213-double-count", Plan({"p1": CONFIGS["p1"]}, examples=60)
    >>> trace = run(InProcessEngine(name), f"reference:{name}", plan).trace
    >>> trace.violations[0].clause, len(trace.commands)
    ('INV-SUM-FULL.reported', 5)
    """
    subject = Subject.of(engine, spec)
    return Campaign(subject, plan, workers or Here(engine), progress, keep, accepted).run()


class Campaign:
    """A campaign whose workers hold the engine. ``clock``: clock of a resumed campaign."""

    def __init__(
        self,
        subject: Subject,
        plan: Plan,
        workers: Workers,
        progress: Progress = lambda *_: None,
        keep: Callable[[list[Finding]], None] = lambda _: None,
        accepted: AcceptedFindings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.plan, self.workers, self.accepted = plan, workers, accepted or AcceptedFindings()
        self.few = plan.distinct is not None
        self.keep, self.progress = keep, progress
        profile = plan.profile or subject.capabilities.profile
        self.outcome = Outcome(subject.build.title, profile, subject.build)
        self.blanks = {
            name: Trace(
                subject.engine,
                subject.spec,
                profile,
                config,
                plan.seed,
                config_name=name,
                chosen_profile=plan.profile,
                ignored=plan.ignored,
                patches=subject.capabilities.patches,
                build=subject.build,
            )
            for name, config in possible(subject.capabilities, plan, self.outcome).items()
        }
        self.clock = clock or Clock(plan.seconds)
        self.schedule = Schedule(plan, list(self.blanks))
        self.outcome.planned = self.schedule.planned
        self.until = math.inf
        """Time at which searching ends in this round."""
        self.findings = Collected(self.accepted.ids)
        self.waiting: list[Finding] = []
        """Findings to shrink once every configuration has run its ``FLOOR`` examples."""

    def stop(self) -> bool:
        """Return True on Ctrl-C or when out of time. Results from a journal have no time limit."""
        late = self.clock.over() and not self.workers.memory
        return interrupts.arrived() or self.workers.over or late

    def leave_off(self) -> bool:
        """Return True on Ctrl-C, or if no time is left for searching."""
        return interrupts.arrived() or time.monotonic() > self.until

    def run(self) -> Outcome:
        outcome = self.outcome
        with interrupts.noted(), interrupts.held():
            try:
                self.rounds()
            except KeyboardInterrupt:
                outcome.interrupted = True
            except (EngineFailed, EngineUnusable) as problem:
                if not self.findings.all():
                    raise
                outcome.unusable = str(problem)  # The findings so far are still reported.
            outcome.interrupted |= interrupts.arrived()
        outcome.out_of_time |= self.out_of_time()
        self.findings.settle(self.findings.pending.values())
        outcome.accepted |= self.findings.met
        outcome.findings = self.findings.all()
        outcome.seconds = self.clock.taken()
        return outcome

    def out_of_time(self) -> bool:
        """Return True if the time ended before the planned examples were run."""
        return self.plan.examples is not None and self.clock.over() and not self.schedule.done

    def rounds(self) -> None:
        """Run rounds, or single batches up to the first finding if the plan limits findings."""
        while not (self.schedule.done or self.stop()):
            self.until = self.clock.end if self.few or self.below() else self.clock.share(SEARCHING)
            batches = self.schedule.deal(self.until, self.workers.jobs)
            for group in [[batch] for batch in batches] if self.few else [batches]:
                rests = self.round(group)
                if self.few and (self.findings.found or interrupts.arrived()):
                    self.others(rests[0])
                    return
                for rest in filter(None, rests):
                    self.schedule.cut(rest)
        long = [finding for finding in self.findings.found.values() if not finding.trace.minimal]
        if self.waiting or (long and (self.plan.floor or not self.stop())):
            self.outcome.out_of_time = self.out_of_time()
            if self.plan.floor:
                self.clock.end = time.monotonic() + max(LATE, self.plan.seconds or math.inf)
            self.shrink([*self.waiting, *long])

    def below(self) -> bool:
        """Return True if the plan has a floor that some configuration has not reached."""
        return self.plan.floor and any(self.outcome.run[name] < FLOOR for name in self.blanks)

    def others(self, rest: ExampleBatch | None) -> None:
        """Search the rest of the first finding's batch, up to ``plan.distinct`` findings in all."""
        for _ in range(1, self.plan.distinct or 1):
            if rest is None or self.stop():
                return
            self.until = self.clock.share(SEARCHING)
            (rest,) = self.round([replace(rest, until=math.inf)])

    def round(self, batches: list[ExampleBatch]) -> list[ExampleBatch | None]:
        """Search the batches as far as time allows, and shrink the findings. Return the unfinished
        rest of each batch, or None for a finished batch."""
        outcome = self.outcome
        outcome.configs += [batch.name for batch in batches if batch.name not in outcome.configs]
        known = tuple(self.findings.known)
        batches = [replace(batch, first=outcome.run[batch.name] - batch.done) for batch in batches]
        more = known, self.accepted, self.few
        tasks = [Search(self.plan, batch, self.blanks[batch.name], *more) for batch in batches]
        count, total = outcome.examples, sum(self.schedule.planned.values())

        def event(number: int, what: Finding | int) -> None:
            nonlocal count
            if isinstance(what, Finding):
                self.saw(what)
            else:
                count += what
                self.progress(batches[number].name, count, total or count)

        results = self.workers.map(tasks, event, self.leave_off)
        findings: list[Finding] = []
        before = outcome.coverage.size
        for batch, result in zip(batches, results, strict=True):
            outcome.run[batch.name] += result.examples
            outcome.covered[batch.name].add(result.coverage)
            outcome.spent[batch.name] += round(1000 * result.seconds)
            outcome.accepted |= result.accepted
            outcome.shown += result.shown
            findings += result.findings
        for finding in findings:
            self.saw(finding)
        if findings and outcome.first is None:
            outcome.first = outcome.coverage.commands, outcome.examples, self.clock.taken()
        self.waiting += findings
        if self.waiting and not self.below():
            self.shrink(self.waiting)
        seconds, size = self.clock.taken(), outcome.coverage.size
        count = len(self.findings.found)
        outcome.points.append(Point(seconds, outcome.examples, size, count, size > before))
        return [result.rest for result in results]

    def saw(self, finding: Finding) -> None:
        """Store a finding at once, so that it is never lost."""
        if self.findings.saw(finding):
            self.keep(self.findings.all())

    def shrink(self, findings: list[Finding]) -> None:
        """Shrink findings, including those that an earlier round shrank only in part."""
        findings, self.waiting = [*findings], []
        again = self.findings.reopen(finding.id for finding in findings)
        known = tuple(identity for identity in self.findings.known if identity.id not in again)
        share = self.share(len(findings))
        plan = replace(self.plan, shrink=share)
        tasks = [Shrink(plan, group, known) for group in groups(findings)]
        replays, most = 0, share * len(findings)

        def shorter(number: int, what: Finding | int) -> None:
            """Store a shrunk finding before the round ends."""
            nonlocal replays
            del number
            if isinstance(what, Finding):
                self.findings.shorter(what)
                self.keep(self.findings.all())
            else:
                replays += what
                self.progress("shrinking", replays, max(most, replays))

        results = self.workers.map(tasks, shorter, self.stop)
        self.outcome.replays += sum(result.replays for result in results)
        smaller = chain.from_iterable(result.smaller for result in results)
        self.findings.settle(filter(None, smaller))
        self.keep(self.findings.all())

    def share(self, count: int) -> int:
        """Return the limit of replays for each of ``count`` findings. Until the last batch is
        searched, half of the remaining replays are reserved for later rounds."""
        if self.few or self.plan.examples is None:
            return self.plan.shrink
        most = max(REPLAYS, PER_EXAMPLE * self.plan.examples) - self.outcome.replays
        return max(0, min(self.plan.shrink, most // count // (1 if self.schedule.done else 2)))


def possible(offered: Capabilities, plan: Plan, outcome: Outcome) -> dict[str, EngineConfig]:
    """Return the configurations that the engine accepts. Store refusals in ``outcome``.

    Raises :class:`EngineUnusable` if the engine refuses all configurations.
    """
    refused = {name: offered.refuses(config) for name, config in plan.configs.items()}
    possible = {name: config for name, config in plan.configs.items() if refused[name] is None}
    reasons = {name: why for name, why in refused.items() if why is not None}
    if not possible:
        words = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise EngineUnusable(f"{outcome.engine} can run none of the configurations ({words})")
    outcome.skipped |= reasons
    return possible
