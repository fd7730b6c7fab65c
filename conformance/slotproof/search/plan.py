"""Plan of a run: configurations, number of examples, time limit, and the order of the work.

Each configuration gets its examples in rounds. A round is up to twice as long as the round before.
Many bugs occur only in some configurations, so no configuration waits until the others are
finished. The batches of a round share the remaining time. A batch runs until its share is over, and
the next batch gets the time left unused. A batch cut short resumes before the next round. So the
plan alone decides the order of the work. The time limit decides how much of the work is done.
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
from slotproof.protocol.config import LATER, BadConfig, EngineConfig
from slotproof.protocol.named import NUMBERED, by_hand, chosen
from slotproof.search.array import Array, array
from slotproof.search.findings import Finding

EXAMPLES = 1400
"""Number of examples in a run for which the user sets neither a number nor a time."""
LEAST = 4
"""Examples in a batch of the first round. A batch's first example is always the simplest."""
MOST = 64
"""Largest number of examples in a batch."""
FLOOR = 20
"""Number of examples that each configuration needs for a verdict."""

Name = TypeVar("Name")
Tell = Callable[[Finding | int], None]
"""Callback that gets each finding when it is seen, and counts of new examples or replays."""
Stop = Callable[[], bool]
"""Function returning True to stop: out of time, or Ctrl-C."""


@dataclass
class Plan:
    """Plan of a run. ``examples`` is the total for all configurations."""

    configs: dict[str, EngineConfig]
    """Configurations by name. If empty, :meth:`of` chooses configurations."""
    examples: int | None = EXAMPLES
    """Number of examples. None: as many examples as ``seconds`` allow."""
    steps: int = 40
    seed: int = 0
    profile: str | None = None
    """Profile used in place of the engine's own."""
    ignored: tuple[str, ...] = ()
    """Clauses to ignore."""
    shrink: int = 2000
    """Maximum replays per finding. A limit in seconds would give other traces on slow machines."""
    seconds: float | None = None
    """Time limit in seconds for search and shrinking. The limit does not change traces found before
    its end."""
    floor: bool = False
    """True to run the examples needed for a verdict in each configuration before any shrinking."""
    distinct: int | None = 4
    """Number of findings after which the search ends. ``None``: no limit."""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Oracles of the run. Without any oracle, the referee still detects a crash."""

    strength: int = 2
    """Strength of the covering array: 2 covers each pair of feature levels, 3 each triple."""
    numbered: tuple[str, ...] = ()
    """Names of configurations in the array, such as ``pairs-01``, resolved by :meth:`of`."""
    array: Array | None = None
    """Covering array of the configurations, or None."""

    @classmethod
    def named(cls, names: Sequence[str] | None, **fields: Any) -> Plan:
        """Return a plan with the named configurations. Without names, :meth:`of` chooses the
        configurations. Raises :class:`BadConfig` for an unknown name."""
        numbered = tuple(name for name in names or () if NUMBERED.fullmatch(name))
        return cls(chosen(names), numbered=numbered, **fields)

    def of(self, *offered: Capabilities) -> Plan:
        """Return the plan with all configurations of an array that these engines accept, or with
        only the named configurations. Raises :class:`BadConfig` for a number outside the array, or
        for fields that an engine refuses."""
        for name, config in self.configs.items():
            for engine in offered if by_hand(name) else ():
                if reason := engine.refuses(config):
                    sizes = ", ".join(map(str, engine.page_sizes))
                    listed = ["page sizes " + sizes, *sorted(engine.config.keys() & LATER)]
                    raise BadConfig(f"{name}: {reason}; the engine offers {', '.join(listed)}")
        if self.configs and not self.numbered:
            return self
        made = array(offered, self.strength)
        for name in self.numbered:
            if name not in made.rows:
                raise BadConfig(f"there is no configuration {name}; the last is {[*made.rows][-1]}")
        if not self.numbered:
            return replace(self, configs=made.configs, array=made)
        named = {name: made.configs[name] for name in self.numbered}
        return replace(self, configs=self.configs | named, numbered=())

    def __post_init__(self) -> None:
        if self.examples is None and self.seconds is None:
            raise ValueError("a plan without a number of examples needs seconds")


class Clock:
    """Time limit of a campaign."""

    def __init__(self, seconds: float | None, taken: float = 0.0) -> None:
        """Start the clock. ``taken``: seconds already used."""
        self.started = time.monotonic() - taken
        self.end = math.inf if seconds is None else self.started + seconds

    def over(self) -> bool:
        return time.monotonic() > self.end

    def taken(self) -> float:
        """Return the seconds used so far."""
        return time.monotonic() - self.started

    def share(self, of: float) -> float:
        """Return the time at which a share of the remaining time will be over."""
        now = time.monotonic()
        return now + of * (self.end - now)


@dataclass(frozen=True)
class ExampleBatch:
    """A batch of one configuration's examples, run one after another."""

    name: str
    index: int
    """Index of the batch in the whole campaign. The batch's seed depends on the index."""
    first: int
    """Number of the configuration's examples that ran before the batch."""
    examples: int
    done: int = 0
    """Number of the batch's examples already run."""
    place: tuple[int, int] = (0, 0)
    """Place of the next example: number of complete Hypothesis runs, and of examples after them."""
    before: tuple[Command, ...] = ()
    """Commands of the last example run."""
    until: float = math.inf
    """End of the batch's share of the time."""


class Schedule:
    """Batches to run, and batches cut short."""

    def __init__(self, plan: Plan, names: list[str]) -> None:
        self.planned = planned(plan, names)
        self._batches = _batches(names, self.planned)
        self._waiting: list[ExampleBatch] = []
        self._next: list[ExampleBatch] | None = next(self._batches, None)

    @property
    def done(self) -> bool:
        """True if no batch is left. Never true for a plan without a number of examples."""
        return not self._waiting and self._next is None

    def deal(self, until: float, jobs: int = 1) -> list[ExampleBatch]:
        """Return the batches due, each with its share of the time up to ``until``. ``jobs`` batches
        run at once.

        Batches that ran the fewest examples come first, because the last batches may get no time.
        """
        if not (due := sorted(self._waiting, key=lambda batch: batch.done)):
            due, self._next = self._next or [], next(self._batches, None)
        self._waiting = []
        now, count = time.monotonic(), math.ceil(len(due) / jobs)
        ends = [now + (index // jobs + 1) / count * (until - now) for index in range(len(due))]
        return [replace(batch, until=end) for batch, end in zip(due, ends, strict=True)]

    def cut(self, batch: ExampleBatch) -> None:
        """Record a batch cut short. It resumes after all batches of the round had their share."""
        self._waiting.append(batch)


def planned(plan: Plan, names: list[Name]) -> dict[Name, int]:
    """Return the number of planned examples per name. Empty if the plan has no number of examples.

    >>> planned(Plan({}, examples=100), ["a", "b", "c"]), planned(Plan({}, examples=2), ["a"])
    ({'a': 34, 'b': 33, 'c': 33}, {'a': 2})
    """
    if plan.examples is None:
        return {}
    share, more = divmod(plan.examples, len(names))
    return {name: max(1, share + (index < more)) for index, name in enumerate(names)}


def _batches(names: list[str], planned: dict[str, int]) -> Iterator[list[ExampleBatch]]:
    """Yield the batches of each round, without end if no number of examples is planned.

    A batch also takes the remaining examples if these are too few for another batch.

    >>> rounds = _batches(["a", "b"], {"a": 21, "b": 21})
    >>> [[batch.examples for batch in batches] for batches in rounds]
    [[4, 4], [8, 8], [9, 9]]
    """
    left: dict[str, float] = {name: planned.get(name, math.inf) for name in names}
    share, index = LEAST, 0
    while any(left.values()):
        batches = []
        for name in names:
            examples = share if left[name] - share >= LEAST else int(left[name])
            left[name] -= examples
            if examples:
                batches.append(ExampleBatch(name, index, 0, examples))
            index += 1
        yield batches
        share = min(2 * share, MOST)
