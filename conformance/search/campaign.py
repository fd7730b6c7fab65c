"""A campaign: configurations in turn, each with its share of examples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace as changed

from slotproof.conformance import interrupts
from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.oracles import ORACLES, Oracle
from slotproof.conformance.lockstep.referee import Iteration, Referee, referee_profile
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.examples import Examples
from slotproof.conformance.search.minimise import Spent, minimise, signature
from slotproof.conformance.search.plan import (
    Outcome,
    Part,
    Plan,
    Progress,
    configurations,
    plainness,
)
from slotproof.conformance.search.rounds import Clock, OutOfTime, Rounds, Stop, Turn
from slotproof.conformance.traces.trace import Trace

__all__ = ["Outcome", "Plan", "Progress", "replay", "run"]

SEARCHING = 0.7
"""Once something is found: of the time that is left, so much may go into looking for more; the
rest is for shrinking that."""


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
    clock = Clock(plan.seconds)
    possible = configurations(engine, plan, outcome)
    rounds = Rounds(plan, list(possible))
    outcome.planned = rounds.planned
    total = sum(rounds.planned.values())

    def note(found: Found, part: Part) -> None:
        trace = part.trace(found.log, found.violations, found.minimal)
        if outcome.first is None:
            outcome.first = outcome.coverage.commands, clock.taken()
        same = signature(found.violations[0])
        others = [each for each in outcome.traces if signature(each.violations[0]) != same]
        outcome.traces = sorted([*others, trace], key=plainness)
        keep(outcome.traces)

    def one(turn: Turn) -> None:
        part = Part(outcome.engine, spec, profile, plan, turn.name, possible[turn.name])
        if turn.name not in outcome.configs:
            outcome.configs.append(turn.name)

        def told() -> None:
            outcome.run[turn.name] += 1
            progress(turn.name, outcome.examples, total or outcome.examples)

        search = _Run(engine, part, turn, clock, outcome.coverage, told, note)
        search.campaign()
        if not (search.finished or outcome.traces):
            rounds.cut(search.turn)

    with interrupts.noted(), interrupts.held():
        try:
            while not (rounds.done or clock.over() or outcome.traces):
                for turn in rounds.deal(clock.end):
                    if outcome.traces:
                        break
                    one(turn)
        except (EngineFailed, EngineUnusable) as problem:
            if not outcome.traces:
                raise
            outcome.unusable = str(problem)
        except KeyboardInterrupt:
            outcome.interrupted = True
        outcome.interrupted |= interrupts.arrived()
    outcome.out_of_time = plan.examples is not None and clock.over() and not rounds.done
    outcome.seconds = clock.taken()
    return outcome


@dataclass
class Found:
    """A counterexample, as the referee logged it."""

    log: list[Iteration]
    violations: list[Violation]
    minimal: bool


class _Run(Examples):
    """A turn, up to what is found in it; then that is shrunk, and the rest of the turn goes on."""

    def __init__(
        self,
        engine: Engine,
        part: Part,
        turn: Turn,
        clock: Clock,
        coverage: Coverage,
        told: Callable[[], None],
        note: Callable[[Found, Part], None],
    ) -> None:
        super().__init__(engine, part, turn, clock.over)
        self.clock, self.coverage, self.told, self.note = clock, coverage, told, note
        self.finished = False
        self.last: Found | None = None
        self.known: set[tuple[str, str]] = set()

    def counted(self) -> None:
        """What is looked at after a finding is no part of the plan any more."""
        if not self.known:
            self.told()

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Whether this is worth stopping for: not if its first clause was found before."""
        if signature(violations[0]) in self.known:
            return False
        self.last = Found(referee.log, violations, minimal=False)
        self.note(self.last, self.part)
        return True

    def campaign(self) -> None:
        """Note what is found: as it is, then shrunk; then look for others in the same examples."""
        for _ in range(self.part.plan.distinct):
            self.last = None
            self.finished = self.go()
            if self.last is None:
                break
            self.known.add(signature(self.last.violations[0]))
            self.coverage = Coverage()  # the campaign's is up to what was found first
            shrink(self.engine, self.part, self.last, self.clock.over, self._noted)
            self.turn = changed(self.turn, until=math.inf)  # the others have no use for the time
            self.stop = _after(self.clock.share(SEARCHING))

    def _noted(self, found: Found) -> None:
        self.note(found, self.part)


def shrink(
    engine: Engine, part: Part, found: Found, stop: Stop, note: Callable[[Found], None]
) -> None:
    """``note`` the same in fewer commands, as far as there is time. ``KeyboardInterrupt`` if one
    arrives, after the best so far was noted."""
    wanted = found.violations[0]
    replays = _Replays(engine, part, wanted, stop)
    commands = [entry.command for entry in found.log]
    best, _, minimal = minimise(commands, found.violations, replays.replay, part.plan.shrink)
    log = replays.log_of(best)
    if log is not None:
        same = signature(wanted)
        violations = sorted(log[-1].violations, key=lambda each: signature(each) != same)
        note(Found(log, violations, minimal))
    replays.check()


class _Replays:
    """Replays while there is time, and keeps the last that still showed what is wanted.

    An interrupt ends them like the time does; :meth:`check` raises it then.
    """

    def __init__(self, engine: Engine, part: Part, wanted: Violation, stop: Stop) -> None:
        self.engine, self.part, self.stop = engine, part, stop
        self._wanted = signature(wanted)
        self._last: list[Iteration] = []
        self._interrupted = False

    def replay(self, commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        """As :data:`~slotproof.conformance.search.minimise.Replay`."""
        plan = self.part.plan
        try:
            log = replay(
                self.engine,
                self.part.config,
                plan.seed,
                commands,
                plan.profile,
                plan.set_aside,
                plan.oracles,
                self.stop,
            ).log
        except OutOfTime:
            raise Spent from None
        except KeyboardInterrupt:
            self._interrupted = True
            raise Spent from None
        broken = log[-1].violations if log else []
        if self._wanted in map(signature, broken):
            self._last = log
        return [entry.command for entry in log], broken

    def log_of(self, commands: list[Command]) -> list[Iteration] | None:
        """What these commands showed; none if they did not, or there is no time to look."""
        if [entry.command for entry in self._last] != commands:
            with suppress(Spent):
                self._last = []
                self.replay(commands)
        return self._last or None

    def check(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt


def _after(when: float) -> Stop:
    return lambda: time.monotonic() > when


def replay(
    engine: Engine,
    config: EngineConfig,
    seed: int,
    commands: list[Command],
    profile: str | None = None,
    set_aside: Collection[str] = (),
    oracles: Mapping[str, Oracle] = ORACLES,
    stop: Stop = lambda: False,
) -> Referee:
    """Run commands on a fresh engine up to the first violation.

    Raises :class:`~slotproof.conformance.search.rounds.OutOfTime` where it has to ``stop`` before a
    command, and ``KeyboardInterrupt`` if one arrives: then what was seen so far is not judged.

    >>> from slotproof.conformance.engines.reference import InProcessEngine
    >>> from slotproof.conformance.protocol.config import CONFIGS
    >>> commands = [{"do": "open", "session": "s1"}, {"do": "step", "n": 1}]
    >>> referee = replay(InProcessEngine(), CONFIGS["p1"], seed=0, commands=commands)
    >>> [event[0] for event in referee.log[-1].events], referee.log[-1].violations
    (['T-OPEN'], [])
    """
    if stop():
        raise OutOfTime
    choices = referee_profile(engine, config, profile)
    unread = Coverage()
    referee = Referee(engine, config, seed, unread, choices, set_aside, oracles=oracles)
    for command in commands:
        if stop():
            raise OutOfTime
        if referee.do(command):
            break
    return referee
