"""What to run, in which order; and what a run has to show for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import hypothesis
from hypothesis.internal.conjecture import providers
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineUnusable
from slotproof.conformance.observation import Violation
from slotproof.conformance.oracles import ORACLES, Oracle
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration
from slotproof.conformance.traces.trace import Trace, rows_of
from slotproof.model.invariants import INVARIANTS

Progress = Callable[[str, int, int], None]
"""(configuration, examples done, examples in all)."""


ROUNDS = 5
"""Each configuration gets its examples in so many parts, so that none waits for all the others."""
LEAST = 10
"""Examples in a part at least: the first one is always the simplest."""


@dataclass
class Plan:
    """What to run. ``examples`` are shared by the configurations."""

    configs: dict[str, EngineConfig]
    examples: int = 1400
    steps: int = 40
    seed: int = 0
    profile: str | None = None
    """Instead of the engine's own."""
    set_aside: tuple[str, ...] = ()
    """Clauses whose violations are known and passed over."""
    shrink: int = 2000
    """Replays that shrinking may take: not seconds, so that a slow machine gives the same trace."""
    seconds: float | None = None
    """After which it stops; the traces up to there are the same."""
    distinct: int = 4
    """Counterexamples with different first clauses that are looked for at most, once there is one.
    (A campaign that goes on collects all.)"""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Who looks; the referee itself sees a crash in any case."""


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
    examples: int = 0
    seconds: float = 0.0
    traces: list[Trace] = field(default_factory=list)
    """What was found, one per first clause; the plainest first."""
    first: tuple[int, float] | None = None
    """Commands and seconds up to the first violation."""
    interrupted: bool = False
    out_of_time: bool = False

    @property
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.traces[0] if self.traces else None


class OutOfTime(BaseException):
    """The plan's seconds are over: not an error of anything."""


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


def schedule(plan: Plan, names: list[str]) -> tuple[int, list[tuple[int, str]]]:
    """Examples of a part, and the parts in order: (round, configuration)."""
    rounds = max(1, min(ROUNDS, plan.examples // (len(names) * LEAST)))
    share = max(1, plan.examples // (len(names) * rounds))
    return share, [(turn, name) for turn in range(rounds) for name in names]


@contextmanager
def _own_choices() -> Iterator[None]:
    """Draw nothing from the source of the modules that happen to be imported.

    Hypothesis takes constants for its examples from there, so that the same seed would give
    other examples after any change of a source, and in a process of ``--jobs``. Needs a name
    of Hypothesis that is not public; where it is gone, nothing is changed.
    """
    before = getattr(providers, "_get_local_constants", None)
    cache = getattr(providers, "CONSTANTS_CACHE", None)
    if before is None or cache is None:
        yield
        return
    none = type(before())()
    cache.cache.clear()
    providers._get_local_constants = lambda: none  # noqa: SLF001  # see above
    try:
        yield
    finally:
        providers._get_local_constants = before  # noqa: SLF001  # see above
        cache.cache.clear()


def generate(machine: type[RuleBasedStateMachine], plan: Plan, examples: int, index: int) -> None:
    """Have Hypothesis run so many examples; ``index`` is that of the part, and its seed."""
    machine = hypothesis.seed(plan.seed * 1009 + index)(machine)
    settings = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=plan.steps,
        database=None,  # the same seed gives the same trace, whatever was found before
        deadline=None,
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    with _own_choices():
        run_state_machine_as_test(machine, settings=settings)


def plainness(trace: Trace) -> tuple[int, int]:
    """Clauses about memory before clauses about steps, then short before long."""
    order = list(INVARIANTS)
    first = trace.violations[0].invariant
    return (order.index(first) if first in order else len(order)), len(trace.rows)


@contextmanager
def interruptible(outcome: Outcome) -> Iterator[None]:
    """Remember a Ctrl-C: one that comes inside a garbage collection would be swallowed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def remember(number: int, frame: FrameType | None) -> None:
        outcome.interrupted = True
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
