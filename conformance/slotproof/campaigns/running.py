"""Runs a campaign: round by round, until what was asked for is there, or the time is over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slotproof.campaigns import rounds
from slotproof.campaigns.journal import Journal
from slotproof.campaigns.lines import explored_line, finding_line
from slotproof.campaigns.state import CampaignState, Round
from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.search.findings import Finding
from slotproof.search.guided import Explored
from slotproof.search.schedule import Clock
from slotproof.search.symptoms import AcceptedFindings
from slotproof.search.workers import Workers
from slotproof.support import interrupts

PARTING = 0.1
"""Of the time, so much is left for shrinking what the last round finds..."""
PARTING_MOST = 600.0
"""...and not more than so many seconds."""


@dataclass
class Ended:
    """How a call of a campaign ended."""

    interrupted: bool = False
    out_of_time: bool = False
    """The time was over before the examples were run that were asked for."""
    unusable: str = ""
    """Why the engine could not go on."""


class Watcher(Protocol):
    """Who is told how a campaign goes on."""

    def moved(self, state: CampaignState, running: int) -> None:
        """Something was done, if only an example of a task: so many of them are run and not
        journalled."""

    def found(self, findings: list[Finding]) -> None:
        """There is a finding, or one got shorter: all of them."""

    def rounded(self, state: CampaignState) -> None:
        """A round is over."""


@dataclass
class Limits:
    """How far it goes: examples in all, seconds of this call."""

    examples: int | None = None
    seconds: float | None = None


def run(
    journal: Journal,
    workers: Workers,
    limits: Limits,
    watcher: Watcher,
    accepted: AcceptedFindings | None = None,
) -> Ended:
    """Go on with a campaign. Whatever ends it, all that is done is in the journal.

    Raises :class:`BadJournal` where that can't be written, and :class:`EngineUnusable` where an
    engine can't be used and nothing was found before.
    """
    return _Running(journal, workers, limits, watcher, accepted or AcceptedFindings()).run()


@dataclass
class _Running:
    journal: Journal
    workers: Workers
    limits: Limits
    watcher: Watcher
    accepted: AcceptedFindings

    def __post_init__(self) -> None:
        seconds = self.limits.seconds
        self.clock = self.search = Clock(seconds)
        if seconds is not None:
            self.search = Clock(seconds - min(PARTING * seconds, PARTING_MOST))
        self.ended = Ended()
        self.running = 0

    @property
    def state(self) -> CampaignState:
        return self.journal.state

    def stop(self) -> bool:
        """Ctrl-C, or no time left."""
        return interrupts.arrived() or self.clock.over()

    def leave_off(self) -> bool:
        """Ctrl-C, or no time left for searching."""
        return interrupts.arrived() or self.search.over()

    def add(self, kind: str, **fields: Any) -> None:
        self.journal.add({"kind": kind, **fields, "at": round(time.time(), 2)})

    def run(self) -> Ended:
        self.add("begun", workers=self.workers.jobs)
        with interrupts.noted(), interrupts.held():
            try:
                while self.due() and self.round():
                    pass
            except KeyboardInterrupt:
                self.ended.interrupted = True
            except (EngineFailed, EngineUnusable) as problem:
                if not self.state.findings.all():
                    raise
                self.ended.unusable = str(problem)  # and what was found before it stays
            self.ended.interrupted |= interrupts.arrived()
        wanted = self.limits.examples
        self.ended.out_of_time = wanted is not None and self.state.done < wanted
        return self.ended

    def due(self) -> bool:
        """Whether anything is left: of a round, or another one, which is dealt."""
        if self.state.round is not None:
            return True
        wanted, state = self.limits.examples, self.state
        left = None if wanted is None else wanted - state.done
        tasks = rounds.deal(state.head, state.rounds, left)
        if not tasks or self.leave_off():
            return False
        self.add("round", round=state.rounds, tasks=list(map(list, tasks)))
        return True

    def round(self) -> bool:
        """What is left of a round; whether another one may follow."""
        current = self.state.round
        assert current is not None
        self.explore(current)
        if not current.explored and self.state.round is current:
            if interrupts.arrived() or self.limits.examples is not None:
                return False  # the next call does the rest
            self.add("closed", round=current.number)
        if self.state.round is current:
            self.shrink(current)
        self.watcher.rounded(self.state)
        return self.state.round is not current and not interrupts.arrived()

    def explore(self, current: Round) -> None:
        """The tasks of the round that are not done."""
        due = dict([] if current.explored else rounds.explores(self.state, self.accepted))
        numbers = list(due)
        begun = time.monotonic()

        def event(_: int, what: Finding | int) -> None:
            if isinstance(what, Finding):
                self.seen("seen", what)
            else:
                self.running += what
                self.watcher.moved(self.state, self.running)

        def done(index: int, result: Explored) -> None:
            self.running = max(0, self.running - result.examples)
            if result.whole:
                self.explored(current, numbers[index], result, time.monotonic() - begun)
            else:
                for each in result.findings:
                    self.seen("seen", each)
            self.watcher.moved(self.state, self.running)

        self.workers.map([*due.values()], event, self.leave_off, done)
        self.running = 0

    def explored(self, current: Round, number: int, result: Explored, seconds: float) -> None:
        """Journal what came of a task."""
        name = current.tasks[number][0]
        line: dict[str, Any] = {"round": current.number, "task": number, "config": name}
        line |= explored_line(result, self.state.places[name].common)
        self.add("task", **line, seconds=round(seconds, 2))
        if result.findings:
            self.watcher.found(self.state.findings.all())

    def seen(self, kind: str, finding: Finding) -> None:
        """Journal a finding before what showed it is done; not one that is there already."""
        before = self.state.findings
        if kind == "seen" and finding.id in {*before.found, *before.pending}:
            return
        self.add(kind, finding=finding_line(finding, states=kind == "shorter"))
        self.watcher.found(self.state.findings.all())

    def shrink(self, current: Round) -> None:
        """What the round found."""
        due = dict(rounds.shrinks(self.state))
        numbers = list(due)
        begun = time.monotonic()

        def event(_: int, what: Finding | int) -> None:
            if isinstance(what, Finding):
                self.seen("shorter", what)

        def done(index: int, results: Sequence[Finding | None]) -> None:
            if self.stop():
                return  # it may have been cut short: the next call does it again
            lines = [each and finding_line(each, states=True) for each in results]
            self.add(
                "shrunk",
                round=current.number,
                group=numbers[index],
                results=lines,
                seconds=round(time.monotonic() - begun, 2),
            )

        self.workers.map([*due.values()], event, self.stop, done)
        self.watcher.found(self.state.findings.all())
