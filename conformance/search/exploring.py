"""Exhaustive where Hypothesis samples: every word of an alphabet in every class of states.

The engine is explored breadth first. A state is known by its *class*: a small
abstraction of what its snapshot shows, which keeps apart what the guards of the
spec keep apart. The shortest way to each new class is kept; from there every
*word* (a few client commands) is tried once, on a fresh engine that was brought
there the same way. All oracles look on throughout, as in ``run``, and every new
class is drained once, so that a lock or a request that got lost comes to light.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from slotproof.conformance import interrupts
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.referee import Iteration, Referee, referee_profile
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.campaign import Found, Outcome, Plan, shrink
from slotproof.conformance.search.exploring_words import (
    CONFIGS,
    Class,
    Place,
    alphabet,
    class_of,
    place,
)
from slotproof.conformance.search.machine import drain
from slotproof.conformance.search.plan import Part, configurations
from slotproof.conformance.search.rounds import Clock, OutOfTime, Stop
from slotproof.conformance.traces.trace import Trace

DEPTH = 5
"""Words from a fresh engine."""


@dataclass
class Reached:
    """What there was in one configuration."""

    classes: int = 0
    expanded: int = 0
    """Classes from which every word was tried; the others lie at the rim."""
    pairs: int = 0
    """(class, word)."""
    depth: int = 0


Progress = Callable[[str, int, int], None]
"""(configuration, classes expanded, classes known)."""


class _Search:
    """One configuration, breadth first over classes."""

    def __init__(
        self, engine: Engine, name: str, config: EngineConfig, plan: Plan, outcome: Outcome
    ) -> None:
        self.engine, self.plan, self.outcome = engine, plan, outcome
        self.name, self.config = name, config
        self.reached = Reached()
        self.profile = referee_profile(engine, config, plan.profile)
        self.words = alphabet(config, engine.capabilities.commands)

    def play(self, commands: list[Command]) -> Referee:
        """A fresh engine brought to where these commands lead, or to the first violation."""
        coverage: Coverage = self.outcome.coverage
        referee = Referee(
            self.engine, self.config, self.plan.seed, coverage, self.profile, self.plan.set_aside
        )
        for command in commands:
            if referee.do(command):
                break
        return referee

    def go(
        self, depth: int, stop: Stop, tell: Callable[[int, int], None]
    ) -> list[Iteration] | None:
        """What was logged on the way to the first violation, if there is one.

        Raises :class:`OutOfTime` where it has to stop before all is expanded.
        """
        known: set[Class] = set()
        places = [Place()]
        for here in places:  # grows while it is read: breadth first
            tell(self.reached.expanded, len(places))
            if here.depth == depth:
                break
            for word in self.words.values():
                if stop():
                    raise OutOfTime
                spelt = here.spell(word)
                if spelt is None:
                    continue
                referee = self.play([*here.commands, *spelt])
                self.reached.pairs += 1
                self.outcome.run[self.name] += 1
                if referee.log[-1].violations:
                    return referee.log
                world = referee.world
                there = (bool(referee.client.unread), *(class_of(world) if world else ()))
                if there not in known:
                    known.add(there)
                    places.append(place(referee, here.depth + 1))
                    self.reached.depth = here.depth + 1
                    self.reached.classes = len(known)
                    if any(referee.do(command) for command in drain(referee)):
                        return referee.log
            self.reached.expanded += 1
        return None


def explore(
    engine: Engine,
    spec: str,
    plan: Plan,
    depth: int = DEPTH,
    seconds: float | None = None,
    progress: Progress = lambda *_: None,
    keep: Callable[[Trace], None] = lambda _: None,
) -> tuple[Outcome, dict[str, Reached]]:
    """Explore each configuration of the plan until something is found, or its share of the
    time is over.

    ``keep`` is given a counterexample as it was found, and again when it is minimal.
    """
    profile = plan.profile or engine.capabilities.profile
    outcome = Outcome(f"{engine.name} {engine.version}".strip(), profile)
    possible = configurations(engine, plan, outcome)
    clock = Clock(seconds)
    reached: dict[str, Reached] = {}

    def note(found: Found, part: Part) -> None:
        outcome.traces = [part.trace(found.log, found.violations, found.minimal)]
        keep(outcome.traces[0])

    def one(name: str, share: float) -> None:
        part = Part(outcome.engine, spec, profile, plan, name, possible[name])
        search = _Search(engine, name, part.config, plan, outcome)
        reached[name] = search.reached
        outcome.configs.append(name)
        until = clock.share(share)
        try:
            log = search.go(
                depth, lambda: time.monotonic() > until, lambda *done: progress(name, *done)
            )
        except OutOfTime:
            outcome.out_of_time = True
            return
        if log is not None:
            found = Found(log, log[-1].violations, minimal=False)
            note(found, part)
            shrink(engine, part, found, clock.over, lambda shorter: note(shorter, part))

    with interrupts.noted(), interrupts.held():
        try:
            for number, name in enumerate(possible):
                one(name, 1 / (len(possible) - number))
                if outcome.trace is not None:
                    break
        except KeyboardInterrupt:
            outcome.interrupted = True
        outcome.interrupted |= interrupts.arrived()
    outcome.seconds = clock.taken()
    return outcome, reached


__all__ = ["CONFIGS", "DEPTH", "Reached", "explore"]
