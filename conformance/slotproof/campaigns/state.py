"""What a campaign knows: made of the lines of its journal, in their order, and of nothing else.

A round is dealt, its tasks are done in any order, what they found is shrunk, clause by clause. What
the next round builds on is put together when all of that is there, in the order of the tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotproof.campaigns.lines import MANY, Head, explored_of, finding_of
from slotproof.lockstep.coverage import Coverage, total
from slotproof.search.collected import Collected, groups
from slotproof.search.findings import Finding
from slotproof.search.guided import CorpusEntry, Explored


@dataclass
class Place:
    """What was done in one configuration."""

    examples: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    seen: set[str] = field(default_factory=set)
    """Features."""
    rare: Counter[str] = field(default_factory=Counter)
    """Of those, by how many examples, while that is few."""
    corpus: list[CorpusEntry] = field(default_factory=list)

    @property
    def common(self) -> frozenset[str]:
        """Features that nobody counts any more."""
        return frozenset(self.seen - self.rare.keys())

    def add(self, result: Explored) -> bool:
        """What a task did; whether it was the first to reach something."""
        self.examples += result.examples
        self.coverage.add(result.coverage)
        new = result.reached.keys() - self.seen
        self._reached(result.reached)
        self._keep(result.corpus, new)
        return bool(new)

    def join(self, other: Place) -> None:
        """What another campaign did there."""
        self.examples += other.examples
        self.coverage.add(other.coverage)
        new, mine = other.seen - self.seen, self.common
        for name in other.common:
            self.rare.pop(name, None)
        self._reached({name: n for name, n in other.rare.items() if name not in mine})
        self.seen |= other.seen
        self._keep(other.corpus, new)

    def _reached(self, reached: Mapping[str, int]) -> None:
        for name, count in reached.items():
            if name not in self.seen or name in self.rare:
                self.seen.add(name)
                self.rare[name] += count
                if self.rare[name] >= MANY:
                    del self.rare[name]

    def _keep(self, kept: Iterable[CorpusEntry], new: set[str]) -> None:
        """Of several examples that were the first to reach the same, the first."""
        left = set(new)
        for each in kept:
            if left & each.features:
                self.corpus.append(each)
                left -= each.features


@dataclass(frozen=True)
class Point:
    """Where a campaign was after a round."""

    seconds: float
    examples: int
    features: int
    transitions: int
    findings: int


@dataclass
class Moment:
    """When something happened last: after how many examples, and seconds of work."""

    examples: int = 0
    seconds: float = 0.0


@dataclass
class Round:
    """A round: what was dealt, and what is done of it."""

    number: int
    tasks: list[tuple[str, int]]
    """Of each the configuration, and how many examples."""
    results: dict[int, Explored] = field(default_factory=dict)
    closed: bool = False
    shrunk: dict[int, list[Finding | None]] = field(default_factory=dict)
    seen: list[Finding] = field(default_factory=list)
    """By tasks that were not done when they were."""

    @property
    def explored(self) -> bool:
        """Whether nothing is left of it but shrinking."""
        return self.closed or len(self.results) == len(self.tasks)

    @property
    def found(self) -> list[Finding]:
        """By tasks, in their order; and what only a task saw that was cut short for good, or when
        it was run again did not see."""
        done = [each for number in sorted(self.results) for each in self.results[number].findings]
        ids = {each.id for each in done}
        return [*done, *(each for each in self.seen if each.id not in ids)]


class CampaignState:
    """The state of a campaign after the lines of its journal that were read."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.places = {name: Place() for name in head.configs}
        self.findings = Collected()
        self.accepted: set[str] = set()
        """Findings of the baseline that were seen, as they were seen."""
        self.shown: Counter[str] = Counter()
        """By identity, as it was seen: how many examples showed it."""
        self.judged: dict[str, str] = {}
        """Findings that belong to a group of the baseline, and why."""
        self.round: Round | None = None
        self.rounds = 0
        """Those that are over."""
        self.left: list[Finding] = []
        """What merged campaigns had no time to shrink: the next round does."""
        self.points: list[Point] = []
        self.when: dict[str, Moment] = {}
        """By identity, when a finding came to be one."""
        self.new = Moment()
        """When a feature was reached for the first time."""
        self.parts = [CampaignState(each) for each in head.parts]
        self.seconds = self._base = 0.0
        """Of work, in all calls together: merged ones one after the other."""
        self._begun: float | None = None

    # Reading --------------------------------------------------------------------

    def read(self, line: Mapping[str, Any]) -> None:
        """The next line. Raises whatever a line that makes no sense leads to."""
        if "part" in line:
            self.parts[line["part"]].read({k: v for k, v in line.items() if k != "part"})
            return
        if line["kind"] == "begun":
            self._begun, self._base = line["at"], self.seconds
        elif self._begun is not None:
            self.seconds = max(self.seconds, self._base + line["at"] - self._begun)
        match line["kind"]:
            case "round":
                self._dealt(line)
            case "task":
                self._done(line)
            case "seen":
                finding = finding_of(line["finding"])
                if self.findings.saw(finding) and self.round is not None:
                    self.round.seen.append(finding)
            case "shorter":
                self.findings.shorter(finding_of(line["finding"]))
            case "closed":
                self._current(line).closed = True
                self._end()
            case "shrunk":
                results = [None if each is None else finding_of(each) for each in line["results"]]
                self._current(line).shrunk[line["group"]] = results
                self._end()
            case "judged":
                self.judged.update(line["known"])
            case "joined":
                for part in self.parts:
                    self._join(part)

    def _dealt(self, line: Mapping[str, Any]) -> None:
        if line["round"] != self.rounds or self.round is not None:
            raise ValueError(f"round {line['round']} comes after {self.rounds} rounds")
        for name, count in line["tasks"]:
            if name not in self.places or not isinstance(count, int):
                raise ValueError(f"a task of {name!r:.60} with {count!r:.60} examples")
        self.round = Round(line["round"], [(name, count) for name, count in line["tasks"]])

    def _current(self, line: Mapping[str, Any]) -> Round:
        if self.round is None or self.round.number != line["round"]:
            raise ValueError(f"round {line['round']} is not the one that is dealt")
        return self.round

    def _done(self, line: Mapping[str, Any]) -> None:
        task, current = line["task"], self._current(line)
        if task >= len(current.tasks) or current.tasks[task][0] != line["config"]:
            raise ValueError(f"task {task} is not one of the round")
        current.results[task] = explored_of(line)
        for each in current.results[task].findings:
            self.findings.saw(each)
        self._end()

    # Putting together -----------------------------------------------------------

    def groups(self) -> list[tuple[Finding, ...]]:
        """What is to be shrunk at the end of this round; none before it is explored."""
        current = self.round
        if current is None or not current.explored:
            return []
        return groups([*self.left, *current.found])

    def _end(self) -> None:
        """Put the round together, if all of it is there."""
        current, due = self.round, self.groups()
        if current is None or not current.explored or len(current.shrunk) < len(due):
            return
        new = False
        for number in sorted(current.results):
            result = current.results[number]
            new |= self.places[current.tasks[number][0]].add(result)
            self.accepted |= result.accepted
            self.shown += result.shown
        smaller = [each for group in sorted(current.shrunk) for each in current.shrunk[group]]
        pending = [*self.left, *current.found]
        self.findings.shrunk(pending, filter(None, smaller))
        self.left, self.round, self.rounds = [], None, current.number + 1
        self._mark(new)

    def _mark(self, new: bool) -> None:
        now = Moment(self.examples, self.seconds)
        if new:
            self.new = now
        for each in self.findings.found:
            self.when.setdefault(each, now)
        reached, found = len(self.coverage.transitions), len(self.findings.found)
        self.points.append(Point(self.seconds, self.examples, self.features, reached, found))

    def _join(self, part: CampaignState) -> None:
        """What another campaign knows; of a round that is not over, what is done of it."""
        for name, result in part.unfinished():
            part.places[name].add(result)
            part.accepted |= result.accepted
            part.shown += result.shown
        before = self.examples
        for name, place in part.places.items():
            self.places.setdefault(name, Place()).join(place)
        self.accepted |= part.accepted
        self.shown += part.shown
        self.judged.update(part.judged)
        for small in part.findings.found.values():
            self.findings.add(small)
        self.findings.known += [m for m in part.findings.known if m not in self.findings.known]
        self.left += [each for each in part.findings.pending.values() if self.findings.saw(each)]
        self.seconds += part.seconds
        for name, moment in part.when.items():
            self.when.setdefault(name, Moment(before + moment.examples, moment.seconds))
        self._mark(new=True)

    # What it comes to -----------------------------------------------------------

    @property
    def examples(self) -> int:
        """Of rounds that are over."""
        return sum(each.examples for each in self.places.values())

    @property
    def done(self) -> int:
        """Examples, those of the round that is not over included."""
        return self.examples + sum(result.examples for _, result in self.unfinished())

    def unfinished(self) -> Iterator[tuple[str, Explored]]:
        """What is done of a round that is not over: the configurations, and the results."""
        if self.round is not None:
            for number in sorted(self.round.results):
                yield self.round.tasks[number][0], self.round.results[number]

    @property
    def features(self) -> int:
        """Reached, in all configurations: the same in two counts twice."""
        return sum(len(each.seen) for each in self.places.values())

    @property
    def coverage(self) -> Coverage:
        return total(each.coverage for each in self.places.values())
