"""What to run: configurations, how many examples, how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.engines.base import Capabilities
from slotproof.lockstep.oracles import ORACLES, Oracle
from slotproof.protocol.config import NUMBERED, BadConfig, EngineConfig, chosen
from slotproof.search.array import Array, array

EXAMPLES = 1400
"""Of a run that is not told how many, nor how long."""


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
    set_aside: tuple[str, ...] = ()
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
