"""A campaign: configurations one after the other, each with its share of examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.conformance.machine import Counterexample, machine_for
from slotproof.conformance.minimise import minimise
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration, Referee
from slotproof.conformance.traces.trace import Trace, rows_of

Progress = Callable[[str, int, int], None]
"""(configuration, examples done, examples in all)."""


@dataclass
class Plan:
    """What to run. ``examples`` are shared by the configurations."""

    configs: dict[str, EngineConfig]
    examples: int = 400
    steps: int = 40
    seed: int = 0
    shrink: float = 60.0
    """Seconds for the last part of shrinking."""


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
    trace: Trace | None = None
    interrupted: bool = False


def run(engine: Engine, spec: str, plan: Plan, progress: Progress = lambda *_: None) -> Outcome:
    """Run the plan until something is found. Ctrl-C returns what there is so far."""
    outcome = Outcome(f"{engine.name} {engine.version}".strip(), engine.capabilities.profile)
    started = time.monotonic()
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
    share = max(1, plan.examples // len(possible))
    try:
        for index, (name, config) in enumerate(possible.items()):
            outcome.configs.append(name)

            def tell(done: int, name: str = name, index: int = index) -> None:
                progress(name, index * share + done, share * len(possible))

            found = _Run(engine, config, plan, outcome, tell).go(share, index)
            if found is not None:
                outcome.trace = _trace(engine, spec, name, config, plan, found)
                break
    except KeyboardInterrupt:
        outcome.interrupted = True
    outcome.seconds = time.monotonic() - started
    return outcome


@dataclass
class _Found:
    log: list[Iteration]
    violations: list[Violation]
    minimal: bool


class _Run:
    """One configuration under Hypothesis."""

    def __init__(
        self,
        engine: Engine,
        config: EngineConfig,
        plan: Plan,
        outcome: Outcome,
        tell: Callable[[int], None],
    ) -> None:
        self.engine, self.config, self.plan = engine, config, plan
        self.outcome, self.tell = outcome, tell
        self.done = 0
        self.last: tuple[list[Iteration], list[Violation]] | None = None

    def referee(self) -> Referee:
        """A judge for one example; coverage counts until something is found."""
        coverage = self.outcome.coverage if self.last is None else Coverage()
        if self.last is None:
            self.outcome.examples += 1
            self.done += 1
            self.tell(self.done)
        return Referee(self.engine, self.config, self.plan.seed, coverage)

    def saw(self, referee: Referee, violations: list[Violation]) -> None:
        self.last = (referee.log, violations)

    def go(self, examples: int, index: int) -> _Found | None:
        machine = machine_for(self.referee, self.saw)
        machine = hypothesis.seed(self.plan.seed * 1009 + index)(machine)
        settings = hypothesis.settings(
            max_examples=examples,
            stateful_step_count=self.plan.steps,
            database=None,  # the same seed gives the same trace, whatever was found before
            deadline=None,
            report_multiple_bugs=False,
            print_blob=False,
            verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        )
        try:
            run_state_machine_as_test(machine, settings=settings)
        except Counterexample as counterexample:
            self.last = (counterexample.referee.log, counterexample.violations)
        except hypothesis.errors.Flaky:
            if self.last is None:
                raise
        if self.last is None:
            return None
        log, violations = self.last
        commands, _, minimal = minimise(
            [entry.command for entry in log], violations, self.replay, self.plan.shrink
        )
        final = replay(self.engine, self.config, self.plan.seed, commands)
        if final.log and final.log[-1].violations:
            return _Found(final.log, final.log[-1].violations, minimal)
        return _Found(log, violations, False)  # an engine that does not repeat itself

    def replay(self, commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        log = replay(self.engine, self.config, self.plan.seed, commands).log
        return [entry.command for entry in log], log[-1].violations if log else []


def replay(
    engine: Engine, config: EngineConfig, seed: int, commands: list[Command]
) -> Referee:
    """Run commands on a fresh engine up to the first violation."""
    referee = Referee(engine, config, seed)
    for command in _runnable(commands):
        if referee.do(command):
            break
    return referee


def _runnable(commands: list[Command]) -> Iterator[Command]:
    yield from commands


def _trace(
    engine: Engine, spec: str, name: str, config: EngineConfig, plan: Plan, found: _Found
) -> Trace:
    return Trace(
        engine=f"{engine.name} {engine.version}".strip(),
        spec=spec,
        profile=engine.capabilities.profile,
        config=config,
        seed=plan.seed,
        rows=rows_of(found.log),
        violations=found.violations,
        minimal=found.minimal,
        config_name=name,
    )


__all__ = ["EngineFailed", "Outcome", "Plan", "replay", "run"]
