"""A campaign: configurations in turn, each with its share of examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineUnusable
from slotproof.conformance.machine import Counterexample, machine_for
from slotproof.conformance.minimise import minimise
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration, Referee, referee_profile
from slotproof.conformance.traces.trace import Trace, rows_of

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


def run(
    engine: Engine,
    spec: str,
    plan: Plan,
    progress: Progress = lambda *_: None,
    keep: Callable[[Trace], None] = lambda _: None,
) -> Outcome:
    """Run the plan until something is found. Ctrl-C returns what there is so far.

    ``keep`` is given every counterexample as soon as it is seen, and again each
    time it got shorter: a caller that writes it down loses nothing.
    """
    profile = plan.profile or engine.capabilities.profile
    outcome = Outcome(f"{engine.name} {engine.version}".strip(), profile)
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
    rounds = max(1, min(ROUNDS, plan.examples // (len(possible) * LEAST)))
    share = max(1, plan.examples // (len(possible) * rounds))
    turns = [(turn, name) for turn in range(rounds) for name in possible]
    for index, (turn, name) in enumerate(turns):
        config = possible[name]
        if turn == 0:
            outcome.configs.append(name)

        def tell(done: int, name: str = name, index: int = index) -> None:
            progress(name, index * share + done, share * len(turns))

        def note(found: Found, name: str = name, config: EngineConfig = config) -> None:
            outcome.trace = Trace(
                engine=outcome.engine,
                spec=spec,
                profile=profile,
                config=config,
                seed=plan.seed,
                rows=rows_of(found.log),
                violations=found.violations,
                minimal=found.minimal,
                config_name=name,
                chosen_profile=plan.profile,
                set_aside=plan.set_aside,
            )
            keep(outcome.trace)

        try:
            _Run(engine, config, plan, outcome, tell, note).go(share, index)
        except KeyboardInterrupt:
            outcome.interrupted = True
        if outcome.trace is not None or outcome.interrupted:
            break
    outcome.seconds = time.monotonic() - started
    return outcome


@dataclass
class Found:
    """A counterexample, as the referee logged it."""

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
        note: Callable[[Found], None],
    ) -> None:
        self.engine, self.config, self.plan = engine, config, plan
        self.outcome, self.tell, self.note = outcome, tell, note
        self.done = 0
        self.last: Found | None = None
        self.profile = referee_profile(engine, config, plan.profile)

    def referee(self) -> Referee:
        """A judge for one example; coverage counts until something is found."""
        coverage = self.outcome.coverage if self.last is None else Coverage()
        if self.last is None:
            self.outcome.examples += 1
            self.done += 1
            self.tell(self.done)
        return Referee(
            self.engine, self.config, self.plan.seed, coverage, self.profile, self.plan.set_aside
        )

    def saw(self, referee: Referee, violations: list[Violation]) -> None:
        self.last = Found(referee.log, violations, minimal=False)
        self.note(self.last)

    def go(self, examples: int, index: int) -> None:
        """Look for a counterexample, and note it: as it is, then shrunk."""
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
            phases=[hypothesis.Phase.generate],
        )
        try:
            run_state_machine_as_test(machine, settings=settings)
        except (Counterexample, hypothesis.errors.Flaky):
            if self.last is None:
                raise
        if self.last is None:
            return
        commands = [entry.command for entry in self.last.log]
        best, _, minimal = minimise(commands, self.last.violations, self.replay, self.plan.shrink)
        final = self.again(best)
        if final.log and final.log[-1].violations:
            self.note(Found(final.log, final.log[-1].violations, minimal))

    def again(self, commands: list[Command]) -> Referee:
        plan = self.plan
        return replay(self.engine, self.config, plan.seed, commands, plan.profile, plan.set_aside)

    def replay(self, commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        log = self.again(commands).log
        return [entry.command for entry in log], log[-1].violations if log else []


def replay(
    engine: Engine,
    config: EngineConfig,
    seed: int,
    commands: list[Command],
    profile: str | None = None,
    set_aside: Collection[str] = (),
) -> Referee:
    """Run commands on a fresh engine up to the first violation."""
    choices = referee_profile(engine, config, profile)
    referee = Referee(engine, config, seed, profile=choices, set_aside=set_aside)
    for command in commands:
        if referee.do(command):
            break
    return referee
