"""A campaign: search every configuration in turn, shrink what is found, go on as far as is wanted.

In rounds, over all configurations: search every batch with what is known so far, then shrink what
nothing known explains. Within a round no batch knows of another, so that it does not matter how
many run at once: ``--jobs`` changes the time and nothing else. Where the time is limited, each
round keeps a part of it for shrinking: a finding is worth what its trace is. What a round had no
time for goes on after that. A campaign that wants only a few findings runs one batch after the
other, and ends with the one that showed the first.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from slotproof.engines.base import (
    Capabilities,
    Engine,
    EngineFailed,
    EngineUnusable,
    built,
    versioned,
)
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
"""(configuration, examples done, examples in all)."""

SEARCHING = 0.7
"""Once something is found: of the time that is left, so much may go into looking for more; the
rest is for shrinking that."""
LATE = 120.0
"""Seconds that shrinking has at least where the examples of all configurations came first."""
REPLAYS, PER_EXAMPLE = 2000, 4
"""Replays that shrinking all findings may take: so many, or so many for each planned example. Four
have about as many commands as an example."""


@dataclass(frozen=True)
class Subject:
    """The build that a campaign searches."""

    engine: str
    """The name and the version that the engine gives."""
    spec: str
    """The ``--engine`` argument, without what is not a part of traces."""
    build: Build
    capabilities: Capabilities

    @classmethod
    def of(cls, engine: Engine, spec: str) -> Subject:
        return cls(versioned(engine), spec, built(engine), engine.capabilities)


@dataclass(frozen=True)
class Point:
    """Where a campaign is after a round."""

    seconds: float
    examples: int
    coverage: int
    """Transitions, and outcomes of guards, that were seen."""
    findings: int
    new: bool
    """Whether the round saw some of them for the first time."""


@dataclass
class Outcome:
    """The result of a campaign."""

    engine: str
    """The title of the build."""
    profile: str
    build: Build | None = None
    covered: defaultdict[str, Coverage] = field(default_factory=lambda: defaultdict(Coverage))
    """By configuration."""
    configs: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Configurations that the engine can't take, and why."""
    run: Counter[str] = field(default_factory=Counter)
    """Examples of each configuration: those that were run to an end, not those that were begun."""
    planned: dict[str, int] = field(default_factory=dict)
    """Of each configuration; empty where the time is the plan."""
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    """Those that are not recognised as accepted; the plainest first."""
    accepted: set[str] = field(default_factory=set)
    """Findings of a baseline that were seen again, as they were seen."""
    first: tuple[int, int, float] | None = None
    """Commands, examples and seconds up to the first violation, or to the end of its round."""
    replays: int = 0
    """Replays that shrinking took."""
    shown: Counter[str] = field(default_factory=Counter)
    """By identity, known or not, how many examples ended with it."""
    points: list[Point] = field(default_factory=list)
    """After each round."""
    spent: Counter[str] = field(default_factory=Counter)
    """Milliseconds of searching each configuration."""
    interrupted: bool = False
    out_of_time: bool = False
    """The time was over before the examples were run that are planned."""
    unusable: str = ""
    """Why the engine could not go on, once there was something found."""

    @property
    def examples(self) -> int:
        """Those that were run, in all configurations."""
        return self.run.total()

    @property
    def coverage(self) -> Coverage:
        """What was seen in all configurations together."""
        return total(self.covered.values())

    @property
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.findings[0].trace if self.findings else None


@dataclass
class Collected:
    """What was found, by identity, and by what it is recognised."""

    accepted: frozenset[str] = frozenset()
    """Identities that are no findings of it."""
    found: dict[str, Finding] = field(default_factory=dict)
    pending: dict[str, Finding] = field(default_factory=dict)
    """Seen, and not among the findings before the round is over."""
    known: list[Mark] = field(default_factory=list)
    """Of each finding, every way in which it was seen when it was shrunk."""
    met: set[str] = field(default_factory=set)
    """Accepted ones that something was shrunk to."""

    def saw(self, finding: Finding) -> bool:
        """Keep what is new as it is: whatever happens now, it is not lost. Whether it is new."""
        new = finding.id not in self.found and finding.id not in self.pending
        if new:
            self.pending[finding.id] = finding
        return new

    def shorter(self, small: Finding) -> None:
        """Keep what was shrunk in the place of what it was, before the rest of the round is."""
        self.pending = {
            name: each for name, each in self.pending.items() if _example(each) != _example(small)
        }
        if small.id not in self.found and small.id not in self.accepted:
            self.pending[small.id] = small

    def shrunk(self, found: Sequence[Finding], smaller: Iterable[Finding]) -> None:
        """The end of a round: what was seen in it, and what that was shrunk to."""
        for small in smaller:
            self.add(small)
        if found:
            self.pending.clear()

    def add(self, small: Finding) -> None:
        """A finding, or another way to see one."""
        self.known.append(small.mark)
        if small.id in self.accepted:
            self.met.add(small.id)
            return
        old = self.found.setdefault(small.id, small)
        shorter = min(old, small, key=lambda each: (not each.trace.minimal, len(each.trace.rows)))
        self.found[small.id] = shorter

    def reopen(self, ids: Iterable[str]) -> set[str]:
        """Return those of the identities that are findings, and take them as only seen again."""
        again = set(ids) & self.found.keys()
        self.pending |= {name: self.found.pop(name) for name in again}
        return again

    def settle(self) -> None:
        """The end: what is left as it was seen is a finding, too."""
        for finding in self.pending.values():
            self.add(finding)
        self.pending.clear()

    def all(self) -> list[Finding]:
        """All there are so far; the plainest first."""
        every = {**self.pending, **self.found}.values()
        return sorted(every, key=lambda each: each.plainness)


def _example(finding: Finding) -> tuple[str, int, str]:
    """Where it was seen, and as what."""
    return finding.trace.config_name, finding.first, finding.mark.clause


def groups(found: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """What is shrunk one after the other: clause by clause, those with few transitions first."""
    order = sorted(
        found,
        key=lambda each: (
            each.mark.clause,
            len(set(each.mark.transitions)),
            len(each.trace.rows),
            each.first,
            each.trace.config_name,
        ),
    )
    return [tuple(group) for _, group in groupby(order, key=lambda each: each.mark.clause)]


def run(
    engine: Engine,
    spec: str,
    plan: Plan,
    progress: Progress = lambda *_: None,
    keep: Callable[[list[Finding]], None] = lambda _: None,
    workers: Workers | None = None,
    accepted: AcceptedFindings | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Run the plan. Ctrl-C, or the end of the time, returns what there is so far.

    ``keep`` is given all findings, the plainest first, as soon as one is seen, and again each
    time one got shorter: a caller that writes them down loses nothing. ``workers`` run the tasks;
    without any, the engine does. Examples that show what is ``accepted`` are passed over.

    >>> from slotproof.engines.reference import InProcessEngine
    >>> from slotproof.protocol.config import CONFIGS
    >>> name, plan = "22213-double-count", Plan({"p1": CONFIGS["p1"]}, examples=60)
    >>> trace = run(InProcessEngine(name), f"reference:{name}", plan).trace
    >>> trace.violations[0].clause, len(trace.commands)
    ('INV-SUM-FULL.reported', 5)
    """
    known = accepted or AcceptedFindings()
    subject = Subject.of(engine, spec)
    return search(subject, plan, workers or Here(engine), progress, keep, known, clock)


def search(
    subject: Subject,
    plan: Plan,
    workers: Workers,
    progress: Progress = lambda *_: None,
    keep: Callable[[list[Finding]], None] = lambda _: None,
    accepted: AcceptedFindings | None = None,
    clock: Clock | None = None,
) -> Outcome:
    """Run the plan with workers that have the engine. ``clock``: that of a campaign which goes
    on."""
    known, now = accepted or AcceptedFindings(), clock or Clock(plan.seconds)
    return _Campaign(subject, plan, workers, known, keep, progress, now).run()


class _Campaign:
    def __init__(
        self,
        subject: Subject,
        plan: Plan,
        workers: Workers,
        accepted: AcceptedFindings,
        keep: Callable[[list[Finding]], None],
        progress: Progress,
        clock: Clock,
    ) -> None:
        self.plan, self.workers, self.accepted = plan, workers, accepted
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
        self.clock = clock
        self.schedule = Schedule(plan, list(self.blanks))
        self.outcome.planned = self.schedule.planned
        self.until = math.inf
        """When this round has to leave off searching."""
        self.findings = Collected(accepted.ids)
        self.waiting: list[Finding] = []
        """To be shrunk when every configuration had its examples."""

    def stop(self) -> bool:
        """Ctrl-C, or no time left. What was done before takes none."""
        late = self.clock.over() and not self.workers.memory
        return interrupts.arrived() or self.workers.over or late

    def leave_off(self) -> bool:
        """Ctrl-C, or no time left for searching."""
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
                outcome.unusable = str(problem)  # and what was found before it stays
            outcome.interrupted |= interrupts.arrived()
        outcome.out_of_time |= self.out_of_time()
        self.findings.settle()
        outcome.accepted |= self.findings.met
        outcome.findings = self.findings.all()
        outcome.seconds = self.clock.taken()
        return outcome

    def out_of_time(self) -> bool:
        """Whether the time was over before the examples were run that are planned."""
        planned = self.plan.examples is not None
        return planned and self.clock.over() and not self.schedule.done

    def rounds(self) -> None:
        """Round by round; or batch by batch, up to the first finding."""
        while not (self.schedule.done or self.stop()):
            whole = self.few or self.below()
            self.until = self.clock.end if whole else self.clock.share(SEARCHING)
            batches = self.schedule.deal(self.until, self.workers.jobs)
            for group in [[batch] for batch in batches] if self.few else [batches]:
                rests = self.round(group)
                if self.few and (self.findings.found or interrupts.arrived()):
                    self.others(rests[0])
                    return
                for rest in filter(None, rests):
                    self.schedule.cut(rest)
        long = [each for each in self.findings.found.values() if not each.trace.minimal]
        if self.waiting or (long and (self.plan.floor or not self.stop())):
            self.outcome.out_of_time = self.out_of_time()
            if self.plan.floor:
                self.clock.end = time.monotonic() + max(LATE, self.plan.seconds or math.inf)
            self.shrink([*self.waiting, *long])

    def below(self) -> bool:
        """Whether a configuration lacks examples without which there is no verdict."""
        return self.plan.floor and any(self.outcome.run[name] < FLOOR for name in self.blanks)

    def others(self, rest: ExampleBatch | None) -> None:
        """Look for others in what is left of the batch that showed the first, up to so many."""
        for _ in range(1, self.plan.distinct or 1):
            if rest is None or self.stop():
                return
            self.until = self.clock.share(SEARCHING)
            (rest,) = self.round([replace(rest, until=math.inf)])

    def round(self, batches: list[ExampleBatch]) -> list[ExampleBatch | None]:
        """Search what is due, as far as the time for it goes, and shrink what was found; what is
        left of each batch."""
        outcome = self.outcome
        outcome.configs += [each.name for each in batches if each.name not in outcome.configs]
        known = tuple(self.findings.known)
        batches = [replace(each, first=outcome.run[each.name] - each.done) for each in batches]
        tasks = [
            Search(self.plan, batch, self.blanks[batch.name], known, self.accepted, self.few)
            for batch in batches
        ]
        count, total = outcome.examples, sum(self.schedule.planned.values())

        def event(number: int, what: Finding | int) -> None:
            nonlocal count
            if isinstance(what, Finding):
                self.saw(what)
            else:
                count += what
                self.progress(batches[number].name, count, total or count)

        results = self.workers.map(tasks, event, self.leave_off)
        found: list[Finding] = []
        before = outcome.coverage.size
        for batch, result in zip(batches, results, strict=True):
            outcome.run[batch.name] += result.examples
            outcome.covered[batch.name].add(result.coverage)
            outcome.spent[batch.name] += round(1000 * result.seconds)
            outcome.accepted |= result.accepted
            outcome.shown += result.shown
            found += result.findings
        for finding in found:
            self.saw(finding)
        if found and outcome.first is None:
            outcome.first = outcome.coverage.commands, outcome.examples, self.clock.taken()
        self.waiting += found
        if not self.below():
            self.shrink(self.waiting)
        outcome.points.append(self.point(outcome.coverage.size > before))
        return [result.rest for result in results]

    def point(self, new: bool) -> Point:
        outcome, known = self.outcome, self.findings.found
        seconds = self.clock.taken()
        return Point(seconds, outcome.examples, outcome.coverage.size, len(known), new)

    def saw(self, finding: Finding) -> None:
        """Whatever happens now, it is not lost."""
        if self.findings.saw(finding):
            self.keep(self.findings.all())

    def shrink(self, found: list[Finding]) -> None:
        """Make findings of what was seen."""
        found, self.waiting = [*found], []
        again = self.findings.reopen(each.id for each in found)
        known = tuple(each for each in self.findings.known if each.id not in again)
        share = self.share(len(found))
        plan = replace(self.plan, shrink=share)
        tasks = [Shrink(plan, group, known) for group in groups(found)]
        replays, most = 0, share * len(found)

        def shorter(number: int, what: Finding | int) -> None:
            """What was shrunk is kept before the rest of the round is."""
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
        self.findings.shrunk(found, filter(None, smaller))
        if found:
            self.keep(self.findings.all())

    def share(self, count: int) -> int:
        """Return the replays for each of so many findings; half of what is left for the rounds
        to come."""
        if self.few or self.plan.examples is None or not count:
            return self.plan.shrink
        most = max(REPLAYS, PER_EXAMPLE * self.plan.examples) - self.outcome.replays
        return max(0, min(self.plan.shrink, most // count // (1 if self.schedule.done else 2)))


def possible(offered: Capabilities, plan: Plan, outcome: Outcome) -> dict[str, EngineConfig]:
    """Return the configurations that the engine can take; the others are noted with the reason.

    Raises :class:`EngineUnusable` if there is none.
    """
    refused = {name: offered.refuses(each) for name, each in plan.configs.items()}
    possible = {name: each for name, each in plan.configs.items() if refused[name] is None}
    reasons = {name: why for name, why in refused.items() if why is not None}
    if not possible:
        words = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise EngineUnusable(f"{outcome.engine} can run none of the configurations ({words})")
    outcome.skipped |= reasons
    return possible
