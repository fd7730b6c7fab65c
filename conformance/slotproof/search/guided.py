"""Guided search: examples made of those that reached something new.

No Hypothesis: that takes more than half of the time of a campaign, and draws each example afresh.
The rules are the same (:mod:`slotproof.search.rules`). A task has a seed and what the
tasks before it kept; the same task gives the same result in any process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from slotproof.engines.base import Engine
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, OutOfTime, Referee
from slotproof.reports.trace import Trace
from slotproof.search.actions import Action, Drawing
from slotproof.search.features import Features, features
from slotproof.search.findings import Mark, lead, mark
from slotproof.search.judging import Judging, Notes, Tell
from slotproof.search.plan import Plan
from slotproof.search.rules import clients_for, rules_of
from slotproof.search.schedule import Stop
from slotproof.search.sending import Leave
from slotproof.search.symptoms import AcceptedFindings
from slotproof.support import garbage, interrupts

FRESH = 0.25
"""Of the examples, so many are drawn afresh where there is something to go on from."""

MOST = 32
"""Examples of a task."""


def share(lap: int, most: int = MOST) -> int:
    """Examples of a task in that round over all configurations: few at first, for many a bug shows
    in some configurations only.

    >>> [share(lap) for lap in range(7)]
    [1, 2, 4, 8, 16, 32, 32]
    """
    return min(1 << min(lap, most.bit_length()), most)


@dataclass(frozen=True)
class CorpusEntry:
    """An example of the corpus, which later examples are mutated from."""

    actions: tuple[Action, ...]
    features: Features
    """What it was the first to reach, as its task saw it."""

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return {
            "actions": [each.to_json() for each in self.actions],
            "features": sorted(self.features),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CorpusEntry:
        """From the journal.

        >>> entry = CorpusEntry((Action("one_step", {}),), frozenset(["finish stop"]))
        >>> CorpusEntry.from_json(entry.to_json()) == entry
        True
        """
        actions = tuple(Action.from_json(each) for each in data["actions"])
        return cls(actions, frozenset(data["features"]))


@dataclass
class Explored(Notes):
    """The result of a guided task."""

    corpus: list[CorpusEntry] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    """By feature, how many examples of this task reached it."""
    shown: Counter[str] = field(default_factory=Counter)
    """By identity, known or not, how many examples ended with it."""
    whole: bool = False
    """Whether all examples were run."""


@dataclass(frozen=True)
class Explore:
    """A task: run some examples of one configuration; data alone says which."""

    plan: Plan
    blank: Trace
    """A trace without rows: of which engine and configuration."""
    seed: int
    """Nothing else is random."""
    first: int
    """Examples that are planned before it."""
    examples: int
    corpus: tuple[CorpusEntry, ...] = ()
    """What it goes on from, as the rounds before left it."""
    seen: Features = frozenset()
    """Reached in this configuration before this round."""
    known: tuple[Mark, ...] = ()
    accepted: AcceptedFindings = field(default_factory=AcceptedFindings)

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Explored:
        """Run them, as far as there is time. Raises whatever an engine or an oracle raises."""
        return _Exploring(self, engine, tell, stop).run()


class _Exploring:
    """The host of its examples."""

    def __init__(self, task: Explore, engine: Engine, tell: Tell, stop: Stop) -> None:
        self.task, self.tell, self.stop = task, tell, stop
        self.config = task.blank.config
        self.clients = clients_for(engine.capabilities.commands, self.config)
        rules = [each for each in rules_of(self.clients) if each.offered]
        self.rules = {each.name: each for each in rules}
        self.drawing = Drawing(rules, task.plan.steps, Random(task.seed))  # noqa: S311  # no secret is made of it
        self.corpus: list[Sequence[Action]] = [
            [action for action in each.actions if self.drawing.takes(action)]
            for each in task.corpus
        ]
        self.seen = set(task.seen)
        self.result = Explored()
        self.judging = Judging(
            engine, task.plan, task.blank, task.known, task.accepted, self.result, tell
        )
        self._coverage = Coverage()
        self._shown = ""

    def run(self) -> Explored:
        try:
            with interrupts.held(), garbage.seldom():
                while self.result.examples < self.task.examples:
                    self.example()
        except Leave as leaving:
            error = leaving.because
            if not (error is None or isinstance(error, OutOfTime) or interrupts.arrived()):
                raise error from None
        self.result.whole = self.result.examples == self.task.examples
        return self.result

    def example(self) -> None:
        drawing, self._shown = self.drawing, ""
        fresh = not self.corpus or drawing.random.random() < FRESH
        actions = drawing.fresh() if fresh else drawing.mutated(self.corpus)
        clients = self.clients(self, self.config)
        done: list[Action] = []
        try:
            clients.first()
            for action in actions:
                rule = self.rules[action.rule]
                if rule.applies(clients):
                    rule.do(clients, **action.arguments)
                    if clients.broken:
                        break
                    done.append(action)
        finally:
            well = not clients.broken
            clients.last()
        assert clients.referee is not None
        log = clients.referee.log
        self.result.reached.update(sorted(features(log, self.config)))
        if self._shown:
            self.result.shown[self._shown] += 1
        if clients.broken and well:
            return  # seen as it ended: whatever is made of it ends so
        self.keep(done, log[:-1] if clients.broken else log)

    def keep(self, done: list[Action], log: list[Iteration]) -> None:
        """What was done up to a violation, if it reached something new before that."""
        new = features(log, self.config) - self.seen
        if new and done:
            self.seen |= new
            self.corpus.append(done)
            self.result.corpus.append(CorpusEntry(tuple(done), frozenset(new)))

    def begin(self) -> Referee:
        """A judge for the next example."""
        self.go_on()
        self._coverage = Coverage()
        return self.judging.begin(self._coverage)

    def go_on(self) -> None:
        """An example ends where the time does; what it showed before that counts."""
        interrupts.check()
        if self.stop():
            raise OutOfTime

    def end(self) -> None:
        """One more was run."""
        self.result.examples += 1
        self.result.coverage.add(self._coverage)
        self.tell(1)

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Note what is new; the task goes on."""
        self._shown = mark(referee.log[-1], lead(violations)).id
        self.judging.saw(referee, violations, self.task.first + self.result.examples + 1)
        return False
