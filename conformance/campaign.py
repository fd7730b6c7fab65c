"""A campaign: configurations in turn, each with its share of examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import hypothesis

from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.conformance.machine import Counterexample, machine_for
from slotproof.conformance.minimise import minimise, signature
from slotproof.conformance.observation import Violation
from slotproof.conformance.oracles import ORACLES, Oracle
from slotproof.conformance.plan import (
    Outcome,
    OutOfTime,
    Part,
    Plan,
    Progress,
    configurations,
    generate,
    interruptible,
    plainness,
    schedule,
)
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration, Referee, referee_profile
from slotproof.conformance.traces.trace import Trace

__all__ = ["Outcome", "Plan", "Progress", "replay", "run"]


def run(
    engine: Engine,
    spec: str,
    plan: Plan,
    progress: Progress = lambda *_: None,
    keep: Callable[[list[Trace]], None] = lambda _: None,
) -> Outcome:
    """Run the plan until something is found. Ctrl-C returns what there is so far.

    ``keep`` is given the counterexamples, the plainest first, as soon as one is seen,
    and again each time one got shorter: a caller that writes them down loses nothing.

    >>> from slotproof.conformance.engines.reference import InProcessEngine
    >>> from slotproof.conformance.protocol.config import CONFIGS
    >>> name, plan = "22213-double-count", Plan({"p1": CONFIGS["p1"]}, examples=60)
    >>> trace = run(InProcessEngine(name), f"reference:{name}", plan).trace
    >>> trace.violations[0].clause, len(trace.commands)
    ('INV-SUM-FULL.reported', 5)
    """
    profile = plan.profile or engine.capabilities.profile
    outcome = Outcome(f"{engine.name} {engine.version}".strip(), profile)
    started = time.monotonic()
    possible = configurations(engine, plan, outcome)
    share, turns = schedule(plan, list(possible))
    for index, (turn, name) in enumerate(turns):
        config = possible[name]
        if turn == 0:
            outcome.configs.append(name)

        def tell(done: int, name: str = name, index: int = index) -> None:
            if plan.seconds is not None and time.monotonic() - started > plan.seconds:
                outcome.out_of_time = True
                raise OutOfTime
            progress(name, index * share + done, share * len(turns))

        def note(found: Found, name: str = name, config: EngineConfig = config) -> None:
            part = Part(outcome.engine, spec, profile, plan, name, config)
            trace = part.trace(found.log, found.violations, found.minimal)
            if outcome.first is None:
                outcome.first = outcome.coverage.commands, time.monotonic() - started
            same = signature(found.violations[0])
            outcome.traces = [
                each for each in outcome.traces if signature(each.violations[0]) != same
            ]
            outcome.traces.append(trace)
            outcome.traces.sort(key=plainness)
            keep(outcome.traces)

        try:
            with interruptible(outcome):
                _Run(engine, config, plan, outcome, tell, note).go(share, index)
        except KeyboardInterrupt:
            outcome.interrupted = True
        except OutOfTime:
            pass
        except (EngineFailed, EngineUnusable):
            if not outcome.traces:
                raise
        if outcome.traces or outcome.interrupted or outcome.out_of_time:
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
            self.engine,
            self.config,
            self.plan.seed,
            coverage,
            self.profile,
            self.plan.set_aside,
            oracles=self.plan.oracles,
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
        for _ in range(self.plan.distinct):
            self.last = None
            self._search(examples, index)
            if self.last is None:
                return
            self.known.add(signature(self.last.violations[0]))
            self._shrink(self.last)

    def _search(self, examples: int, index: int) -> None:
        try:
            generate(machine_for(self.referee, self.saw), self.plan, examples, index)
        except (Counterexample, hypothesis.errors.Flaky):
            if self.outcome.out_of_time:  # what Hypothesis makes of an example cut short
                raise OutOfTime from None
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
        return replay(
            self.engine,
            self.config,
            plan.seed,
            commands,
            plan.profile,
            plan.set_aside,
            plan.oracles,
        )

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
    oracles: Mapping[str, Oracle] = ORACLES,
) -> Referee:
    """Run commands on a fresh engine up to the first violation.

    >>> from slotproof.conformance.engines.reference import InProcessEngine
    >>> from slotproof.conformance.protocol.config import CONFIGS
    >>> commands = [{"do": "open", "session": "s1"}, {"do": "step", "n": 1}]
    >>> referee = replay(InProcessEngine(), CONFIGS["p1"], seed=0, commands=commands)
    >>> [event[0] for event in referee.log[-1].events], referee.log[-1].violations
    (['T-OPEN'], [])
    """
    choices = referee_profile(engine, config, profile)
    unread = Coverage(wanted=False)
    referee = Referee(engine, config, seed, unread, choices, set_aside, oracles=oracles)
    for command in commands:
        if referee.do(command):
            break
    return referee
