"""A campaign that goes on after a finding, and collects distinct ones.

In rounds, over all configurations: search every part with what is known so far, then
shrink what nothing known explains. Within a round no part knows of another, so that it does not
matter how many run at once: ``--jobs`` changes the time and nothing else. Where the time
is limited, each round keeps a part of it for shrinking: a finding is worth what its trace is.
What a round had no time for goes on after that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import groupby

from slotproof.conformance import interrupts
from slotproof.conformance.engines.base import Engine, EngineUnusable
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.campaign import SEARCHING
from slotproof.conformance.search.findings import Mark
from slotproof.conformance.search.plan import (
    Outcome,
    Part,
    Plan,
    Progress,
    configurations,
    plainness,
)
from slotproof.conformance.search.rounds import Clock, Rounds
from slotproof.conformance.search.searching import Candidate, Search, Searched, Shrink
from slotproof.conformance.search.workers import Here, Processes
from slotproof.conformance.traces.trace import Trace


@dataclass
class Finding:
    """A distinct finding and its shortest trace."""

    mark: Mark
    trace: Trace
    first: int
    """The number of the first example that showed it; the same for any number of jobs."""

    @property
    def id(self) -> str:
        return self.mark.id


@dataclass
class Collected(Outcome):
    """What a campaign saw that went on to the end."""

    findings: list[Finding] = field(default_factory=list)
    """Those that are not accepted; the plainest first."""
    accepted: set[str] = field(default_factory=set)
    """Findings of the baseline that were seen again."""


class Keeper:
    """Told of every trace as soon as it is seen; this one keeps none."""

    def keep(self, mark: Mark, trace: Trace) -> None:
        """A new finding, or a shorter trace of one."""

    def forget(self, mark: Mark) -> None:
        """Shrunk, it turned out to be another one that is kept."""


def collect(
    engine: Engine,
    spec: str,
    plan: Plan,
    workers: Here | Processes | None = None,
    accepted: frozenset[str] = frozenset(),
    keeper: Keeper | None = None,
    progress: Progress = lambda *_: None,
) -> Collected:
    """Run the whole plan. Ctrl-C, or the end of the time, returns what there is so far.

    ``accepted`` are identities of findings that are known: they are neither shrunk nor
    kept. ``workers`` run the tasks; without any, the engine does.
    """
    run = _Collecting(engine, spec, plan, workers or Here(engine), accepted, keeper or Keeper())
    return run.go(progress)


@dataclass
class _Collecting:
    engine: Engine
    spec: str
    plan: Plan
    workers: Here | Processes
    accepted: frozenset[str]
    keeper: Keeper
    found: dict[str, Finding] = field(default_factory=dict)
    known: list[Mark] = field(default_factory=list)
    """Of each finding, every way in which it was seen when it was shrunk."""
    raw: dict[str, Candidate] = field(default_factory=dict)
    """Kept, but not shrunk so far."""

    def __post_init__(self) -> None:
        name = f"{self.engine.name} {self.engine.version}".strip()
        self.profile = self.plan.profile or self.engine.capabilities.profile
        self.outcome = Collected(name, self.profile)
        self.clock = Clock(self.plan.seconds)
        self.shrink_from = self.clock.end

    def stop(self) -> bool:
        """Ctrl-C, or no time left."""
        return interrupts.arrived() or self.clock.over()

    def searched(self) -> bool:
        """Whether this round has to leave off searching."""
        return interrupts.arrived() or time.monotonic() > self.shrink_from

    def go(self, progress: Progress) -> Collected:
        outcome, plan = self.outcome, self.plan
        possible = configurations(self.engine, plan, outcome)
        rounds = Rounds(plan, list(possible))
        outcome.configs, outcome.planned = list(possible), rounds.planned
        with interrupts.noted(), interrupts.held():
            try:
                while not (rounds.done or self.stop()):
                    self.shrink(self.round(rounds, possible, progress))
            except KeyboardInterrupt:
                pass
            except EngineUnusable as problem:
                if not (self.found or self.raw):
                    raise
                outcome.unusable = str(problem)  # and what was found before it stays
            outcome.interrupted = interrupts.arrived()
        outcome.out_of_time = plan.examples is not None and self.clock.over() and not rounds.done
        for candidate in self.raw.values():
            self.add(candidate)
        outcome.findings = sorted(self.found.values(), key=lambda each: plainness(each.trace))
        outcome.traces = [each.trace for each in outcome.findings]
        outcome.seconds = self.clock.taken()
        return outcome

    def round(
        self, rounds: Rounds, possible: dict[str, EngineConfig], progress: Progress
    ) -> list[Candidate]:
        """Search what is due, as far as the time for it goes."""
        outcome, plan = self.outcome, self.plan
        self.shrink_from = self.clock.share(SEARCHING)
        turns = rounds.deal(self.shrink_from, self.workers.jobs)
        tasks = [
            Search(
                Part(outcome.engine, self.spec, self.profile, plan, turn.name, possible[turn.name]),
                turn,
                tuple(self.known),
                self.accepted,
            )
            for turn in turns
        ]
        count, total = outcome.examples, sum(rounds.planned.values())

        def event(number: int, what: Candidate | int) -> None:
            nonlocal count
            if isinstance(what, int):
                count += what
                progress(turns[number].name, count, total or count)
            else:
                self.saw(what)

        results = self.workers.map(tasks, event, self.searched)
        for turn, result in zip(turns, results, strict=True):
            outcome.run[turn.name] += result.examples
            if result.rest is not None:
                rounds.cut(result.rest)
        return self.merge(results)

    def saw(self, candidate: Candidate) -> None:
        """Keep what is new as it is: whatever happens now, it is not lost."""
        key = candidate.mark.id
        if key not in self.found and key not in self.raw:
            self.raw[key] = candidate
            self.keeper.keep(candidate.mark, candidate.trace)

    def shorter(self, number: int, what: Candidate | int) -> None:
        """Keep what was shrunk, before the rest of the round is."""
        del number
        if isinstance(what, Candidate) and what.mark.id not in {*self.found, *self.accepted}:
            self.keeper.keep(what.mark, what.trace)

    def merge(self, results: list[Searched]) -> list[Candidate]:
        """What the parts of a round saw, together; candidates in the order of the parts."""
        for each in results:
            self.outcome.coverage.add(each.coverage)
            self.outcome.accepted |= each.accepted
        candidates = [candidate for each in results for candidate in each.candidates]
        for candidate in candidates:
            self.saw(candidate)
        return candidates

    def shrink(self, candidates: list[Candidate]) -> None:
        """Make findings of candidates: clause by clause, those with few transitions first."""
        order = sorted(
            candidates,
            key=lambda each: (
                each.mark.clause,
                len(set(each.mark.transitions)),
                len(each.trace.rows),
                each.example,
            ),
        )
        groups = [list(group) for _, group in groupby(order, key=lambda each: each.mark.clause)]
        tasks = [Shrink(tuple(group), tuple(self.known)) for group in groups]
        done = self.workers.map(tasks, self.shorter, self.stop)
        for group, results in zip(groups, done, strict=True):
            for candidate, small in zip(group, results, strict=True):
                if small is not None:
                    self.add(small)
                self.explained(candidate)
        for candidate in candidates:
            self.seen(candidate)
        self.raw.clear()

    def add(self, small: Candidate) -> None:
        """A finding, or another way to see one."""
        self.known.append(small.mark)
        if small.mark.id in self.accepted:
            self.outcome.accepted.add(small.mark.id)
            return
        old = self.found.get(small.mark.id)
        if old is None:
            self.found[small.mark.id] = Finding(small.mark, small.trace, small.example)
            self.keeper.keep(small.mark, small.trace)
            return
        old.first = min(old.first, small.example)
        if (not small.trace.minimal, len(small.trace.rows)) < (
            not old.trace.minimal,
            len(old.trace.rows),
        ):
            old.mark, old.trace = small.mark, small.trace
            self.keeper.keep(small.mark, small.trace)

    def seen(self, candidate: Candidate) -> None:
        """The example it came from may be the first that showed the finding."""
        raw = candidate.mark
        marks = [each for each in self.known if each.id == raw.id or each.explains(raw)]
        for finding in [self.found[each.id] for each in marks if each.id in self.found][:1]:
            finding.first = min(finding.first, candidate.example)

    def explained(self, candidate: Candidate) -> None:
        """What was kept of it goes, if the finding has another name now."""
        key = candidate.mark.id
        if self.raw.pop(key, None) is not None and key not in self.found:
            self.keeper.forget(candidate.mark)
