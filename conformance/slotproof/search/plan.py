"""What to run: configurations, how many examples, how long; and how that is dealt out.

Each configuration gets its examples in rounds, each twice as long as the one before: many a bug
shows in some configurations only, and none of them waits for all the others.
Within a round the time that is left is shared: a batch may go on until its share is over, and
what one does not need is the next one's. A batch that was cut short goes on before another
round begins, exactly where it was. So what is run depends on the plan alone, and how far it gets
on the time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from slotproof.engines.base import Capabilities
from slotproof.lockstep.oracles import ORACLES, Oracle
from slotproof.protocol.commands import Command
from slotproof.protocol.config import NUMBERED, BadConfig, EngineConfig, chosen
from slotproof.search.array import Array, array
from slotproof.search.findings import Finding

EXAMPLES = 1400
"""Of a run that is not told how many, nor how long."""
LEAST = 4
"""Examples of a batch in the first round. The first example of a batch is always the simplest."""
MOST = 64
"""Examples of a batch at most."""
FLOOR = 20
"""Examples of each configuration without which there is no verdict."""

Name = TypeVar("Name")
Tell = Callable[[Finding | int], None]
"""Told of each finding as soon as there is one, and of each example or replay."""
Stop = Callable[[], bool]
"""Whether to stop: out of time, or Ctrl-C."""


@dataclass
class Plan:
    """What to run. ``examples`` are shared by the configurations."""

    configs: dict[str, EngineConfig]
    """By name; none: those of :meth:`of`."""
    examples: int | None = EXAMPLES
    """None: as many as there is time for; then ``seconds`` are needed."""
    steps: int = 40
    seed: int = 0
    profile: str | None = None
    """Instead of the engine's own."""
    ignored: tuple[str, ...] = ()
    """Clauses whose violations are known and passed over."""
    shrink: int = 2000
    """Replays that shrinking may take: not seconds, so that a slow machine gives the same trace."""
    seconds: float | None = None
    """After which it stops, shrinking too; the traces up to there are the same."""
    floor: bool = False
    """Each configuration gets the examples that a verdict needs before anything is shrunk."""
    distinct: int | None = 4
    """Findings that are looked for at most, once there is one; ``None``: all there are."""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Who looks; the referee itself sees a crash in any case."""

    strength: int = 2
    """Of the array of configurations: each pair of features, or each triple, is in one of them."""
    numbered: tuple[str, ...] = ()
    """Names of configurations of an array, to be looked up there."""
    array: Array | None = None
    """The array that the configurations are of."""

    @classmethod
    def named(cls, names: Sequence[str] | None, **fields: Any) -> Plan:
        """Return a plan with configurations of these names; with none: those of :meth:`of`. Raises
        :class:`BadConfig` for an unknown one."""
        numbered = tuple(name for name in names or () if NUMBERED.fullmatch(name))
        return cls(chosen(names), numbered=numbered, **fields)

    def of(self, *offered: Capabilities) -> Plan:
        """Return the plan with the configurations of an array that these engines can take, unless
        some were named. Raises :class:`BadConfig` for a number that the array does not have."""
        if self.configs and not self.numbered:
            return self
        found = array(offered, self.strength)
        for name in self.numbered:
            if name not in found.rows:
                raise BadConfig(
                    f"there is no configuration {name}; the last is {[*found.rows][-1]}"
                )
        if not self.numbered:
            return replace(self, configs=found.configs, array=found)
        named = {name: found.configs[name] for name in self.numbered}
        return replace(self, configs=self.configs | named, numbered=())

    def __post_init__(self) -> None:
        if self.examples is None and self.seconds is None:
            raise ValueError("a plan without a number of examples needs seconds")


class Clock:
    """How long a campaign may go on."""

    def __init__(self, seconds: float | None, taken: float = 0.0) -> None:
        """``taken``: seconds that are over already."""
        self.started = time.monotonic() - taken
        self.end = math.inf if seconds is None else self.started + seconds

    def over(self) -> bool:
        return time.monotonic() > self.end

    def taken(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.started

    def share(self, of: float) -> float:
        """When so much of the time that is left will be over."""
        now = time.monotonic()
        return now + of * (self.end - now)


@dataclass(frozen=True)
class ExampleBatch:
    """A batch of examples of one configuration, to be run in a row."""

    name: str
    index: int
    """Index of the batch in the whole campaign, which gives the seed."""
    first: int
    """Examples of its configuration that were run before it."""
    examples: int
    done: int = 0
    """Examples of the batch that were run."""
    place: tuple[int, int] = (0, 0)
    """Where they end: whole runs of Hypothesis, and examples of the next one."""
    before: tuple[Command, ...] = ()
    """Commands of the last of them."""
    until: float = math.inf
    """When its share of the time is over."""


class Schedule:
    """What there is to run, and what was."""

    def __init__(self, plan: Plan, names: list[str]) -> None:
        self.planned = planned(plan, names)
        self._batches = _batches(names, self.planned)
        self._waiting: list[ExampleBatch] = []
        self._next: list[ExampleBatch] | None = next(self._batches, None)

    @property
    def done(self) -> bool:
        """Whether nothing is left; never where the time is the plan."""
        return not self._waiting and self._next is None

    def deal(self, until: float, jobs: int = 1) -> list[ExampleBatch]:
        """What is due, each with its share of the time up to then; so many run at once.

        Those come first that have had least: the last share may be none.
        """
        if not (due := sorted(self._waiting, key=lambda batch: batch.done)):
            due, self._next = self._next or [], next(self._batches, None)
        self._waiting = []
        now, count = time.monotonic(), math.ceil(len(due) / jobs)
        shares = [(index // jobs + 1) / count for index in range(len(due))]
        return [
            replace(batch, until=now + share * (until - now))
            for batch, share in zip(due, shares, strict=True)
        ]

    def cut(self, batch: ExampleBatch) -> None:
        """It was cut short: it goes on when the others had their share."""
        self._waiting.append(batch)


def planned(plan: Plan, names: list[Name]) -> dict[Name, int]:
    """Examples of each configuration, or item; nothing where the time is the plan.

    >>> planned(Plan({}, examples=100), ["a", "b", "c"]), planned(Plan({}, examples=2), ["a"])
    ({'a': 34, 'b': 33, 'c': 33}, {'a': 2})
    """
    if plan.examples is None:
        return {}
    share, more = divmod(plan.examples, len(names))
    return {name: max(1, share + (index < more)) for index, name in enumerate(names)}


def _batches(names: list[str], planned: dict[str, int]) -> Iterator[list[ExampleBatch]]:
    """Yield the batches of each round; without end where the time is the plan.

    A batch takes what is left over where that is too little for one of its own.

    >>> rounds = _batches(["a", "b"], {"a": 21, "b": 21})
    >>> [[batch.examples for batch in batches] for batches in rounds]
    [[4, 4], [8, 8], [9, 9]]
    """
    left: dict[str, float] = {name: planned.get(name, math.inf) for name in names}
    share, index = LEAST, 0
    while any(left.values()):
        batches = []
        for name in names:
            rest = left[name] - share
            examples = share if rest >= LEAST else int(left[name])
            left[name] -= examples
            if examples:
                batches.append(ExampleBatch(name, index, 0, examples))
            index += 1
        yield batches
        share = min(2 * share, MOST)
