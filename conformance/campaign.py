"""A campaign: configurations in turn, each with its share of examples."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import hypothesis
from hypothesis.stateful import run_state_machine_as_test

from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.conformance.machine import Counterexample, machine_for
from slotproof.conformance.minimise import minimise, signature
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration, Referee, referee_profile
from slotproof.conformance.traces.trace import Trace, rows_of
from slotproof.model.invariants import INVARIANTS

Progress = Callable[[str, int, int], None]
"""(configuration, examples done, examples in all)."""


ROUNDS = 5
"""Each configuration gets its examples in so many parts, so that none waits for all the others."""
DISTINCT = 4
"""Counterexamples with different first clauses that are looked for at most, once there is one."""
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
    traces: list[Trace] = field(default_factory=list)
    """What was found, one per first clause; the plainest first."""
    interrupted: bool = False

    @property
    def trace(self) -> Trace | None:
        """The plainest counterexample."""
        return self.traces[0] if self.traces else None


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
            trace = Trace(
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
            same = signature(found.violations[0])
            outcome.traces = [
                each for each in outcome.traces if signature(each.violations[0]) != same
            ]
            outcome.traces.append(trace)
            outcome.traces.sort(key=_plainness)
            keep(outcome.traces[0])

        try:
            with _interruptible(outcome):
                _Run(engine, config, plan, outcome, tell, note).go(share, index)
        except KeyboardInterrupt:
            outcome.interrupted = True
        except (EngineFailed, EngineUnusable):
            if not outcome.traces:
                raise
        if outcome.traces or outcome.interrupted:
            break
    outcome.seconds = time.monotonic() - started
    return outcome


def _plainness(trace: Trace) -> tuple[int, int]:
    """Clauses about memory before clauses about steps, then short before long."""
    order = list(INVARIANTS)
    first = trace.violations[0].invariant
    return (order.index(first) if first in order else len(order)), len(trace.rows)


@contextmanager
def _interruptible(outcome: Outcome) -> Iterator[None]:
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
        self.known: set[tuple[str, str]] = set()
        self.profile = referee_profile(engine, config, plan.profile)

    def referee(self) -> Referee:
        """A judge for one example; coverage counts until something is found."""
        if self.outcome.interrupted:
            raise KeyboardInterrupt
        first = not self.known and self.last is None
        coverage = self.outcome.coverage if first else Coverage(wanted=False)
        if first:
            self.outcome.examples += 1
            self.done += 1
            self.tell(self.done)
        return Referee(
            self.engine, self.config, self.plan.seed, coverage, self.profile, self.plan.set_aside
        )

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Whether this is worth stopping for: not if its first clause was found before."""
        if signature(violations[0]) in self.known:
            return False
        self.last = Found(referee.log, violations, minimal=False)
        self.note(self.last)
        return True

    def go(self, examples: int, index: int) -> None:
        """Note what is found: as it is, then shrunk; then look for others in the same examples."""
        for _ in range(DISTINCT):
            self.last = None
            self._search(examples, index)
            if self.last is None:
                return
            self.known.add(signature(self.last.violations[0]))
            self._shrink(self.last)

    def _search(self, examples: int, index: int) -> None:
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

    def _shrink(self, found: Found) -> None:
        commands = [entry.command for entry in found.log]
        best, _, minimal = minimise(commands, found.violations, self.replay, self.plan.shrink)
        final = self.again(best)
        if final.log and final.log[-1].violations:
            violations = final.log[-1].violations
            wanted = signature(found.violations[0])
            violations.sort(key=lambda each: signature(each) != wanted)
            self.note(Found(final.log, violations, minimal))

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
    unread = Coverage(wanted=False)
    referee = Referee(engine, config, seed, unread, choices, set_aside)
    for command in commands:
        if referee.do(command):
            break
    return referee
