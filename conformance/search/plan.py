"""What to run, and what a run has to show for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slotproof.conformance.engines.base import Engine, EngineUnusable
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.oracles import ORACLES, Oracle
from slotproof.conformance.lockstep.referee import Iteration
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.traces.trace import Trace, rows_of
from slotproof.model.invariants import INVARIANTS

Progress = Callable[[str, int, int], None]
"""(configuration, examples done, examples in all)."""


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
    distinct: int = 4
    """Counterexamples with different first clauses that are looked for at most, once there is one.
    (A campaign that goes on collects all.)"""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Who looks; the referee itself sees a crash in any case."""

    def __post_init__(self) -> None:
        if self.examples is None and self.seconds is None:
            raise ValueError("a plan without a number of examples needs seconds")


@dataclass(frozen=True)
class Part:
    """One configuration of a plan on an engine: where a trace comes from."""

    engine: str
    spec: str
    profile: str
    plan: Plan
    name: str
    config: EngineConfig

    def trace(
        self,
        log: list[Iteration],
        violations: list[Violation],
        minimal: bool = False,
        set_aside: tuple[str, ...] | None = None,
    ) -> Trace:
        """What a referee logged, as a trace."""
        return Trace(
            engine=self.engine,
            spec=self.spec,
            profile=self.profile,
            config=self.config,
            seed=self.plan.seed,
            rows=rows_of(log),
            violations=violations,
            minimal=minimal,
            config_name=self.name,
            chosen_profile=self.plan.profile,
            set_aside=self.plan.set_aside if set_aside is None else set_aside,
        )


@dataclass
class Outcome:
    """What a campaign saw."""

    engine: str
    profile: str
    coverage: Coverage = field(default_factory=Coverage)
    configs: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    """Configurations that the engine can't take, and why."""
    run: Counter[str] = field(default_factory=Counter)
    """Examples of each configuration: those that were run to an end, not those that were begun."""
    planned: dict[str, int] = field(default_factory=dict)
    """Of each configuration; empty where the time is the plan."""
    seconds: float = 0.0
    traces: list[Trace] = field(default_factory=list)
    """What was found, one per first clause; the plainest first."""
    first: tuple[int, float] | None = None
    """Commands and seconds up to the first violation."""
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
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.traces[0] if self.traces else None


def configurations(engine: Engine, plan: Plan, outcome: Outcome) -> dict[str, EngineConfig]:
    """Those that the engine can take; the others are noted with the reason.

    Raises :class:`EngineUnusable` if there is none.
    """
    possible = {}
    for name, config in plan.configs.items():
        reason = engine.capabilities.refuses(config)
        if reason is None:
            possible[name] = config
        else:
            outcome.skipped[name] = reason
    if not possible:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in outcome.skipped.items())
        raise EngineUnusable(f"{outcome.engine} can run none of the configurations ({reasons})")
    return possible


def plainness(trace: Trace) -> tuple[int, int]:
    """Clauses about memory before clauses about steps, then short before long."""
    order = list(INVARIANTS)
    first = trace.violations[0].invariant
    return (order.index(first) if first in order else len(order)), len(trace.rows)
