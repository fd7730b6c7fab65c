"""What to run: configurations, how many examples, how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof.lockstep.oracles import ORACLES, Oracle
from slotproof.protocol.config import EngineConfig

EXAMPLES = 1400
"""Of a run that is not told how many, nor how long."""


@dataclass
class Plan:
    """What to run. ``examples`` are shared by the configurations."""

    configs: dict[str, EngineConfig]
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

    def __post_init__(self) -> None:
        if self.examples is None and self.seconds is None:
            raise ValueError("a plan without a number of examples needs seconds")
