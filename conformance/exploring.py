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

from slotproof.conformance import campaign
from slotproof.conformance.campaign import Outcome, Plan
from slotproof.conformance.coverage import Coverage
from slotproof.conformance.engines.base import Engine, EngineUnusable
from slotproof.conformance.exploring_words import CONFIGS, Class, Place, alphabet, class_of, place
from slotproof.conformance.machine import drain
from slotproof.conformance.minimise import minimise
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.referee import Iteration, Referee, referee_profile
from slotproof.conformance.traces.trace import Trace, rows_of

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
        self, engine: Engine, config: EngineConfig, plan: Plan, outcome: Outcome, depth: int
    ) -> None:
        self.engine, self.config, self.plan, self.outcome = engine, config, plan, outcome
        self.depth = depth
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

    def go(self, deadline: float, tell: Callable[[int, int], None]) -> list[Iteration] | None:
        """What was logged on the way to the first violation, if there is one."""
        known: set[Class] = set()
        places = [Place()]
        for here in places:  # grows while it is read: breadth first
            tell(self.reached.expanded, len(places))
            if here.depth == self.depth or time.monotonic() > deadline:
                break
            for word in self.words.values():
                spelt = here.spell(word)
                if spelt is None:
                    continue
                referee = self.play([*here.commands, *spelt])
                self.reached.pairs += 1
                self.outcome.examples += 1
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
    seconds: float = float("inf"),
    progress: Progress = lambda *_: None,
    keep: Callable[[Trace], None] = lambda _: None,
) -> tuple[Outcome, dict[str, Reached]]:
    """Explore each configuration of the plan until something is found.

    ``keep`` is given a counterexample as it was found, and again when it is minimal.
    """
    profile = plan.profile or engine.capabilities.profile
    outcome = Outcome(f"{engine.name} {engine.version}".strip(), profile)
    started = time.monotonic()
    reached: dict[str, Reached] = {}
    for name, config in plan.configs.items():
        reason = engine.capabilities.refuses(config)
        if reason is not None:
            outcome.skipped[name] = reason
            continue
        outcome.configs.append(name)
        search = _Search(engine, config, plan, outcome, depth)
        reached[name] = search.reached

        def note(log: list[Iteration], minimal: bool, of: tuple[str, EngineConfig]) -> None:
            outcome.traces = [
                Trace(
                    engine=outcome.engine,
                    spec=spec,
                    profile=profile,
                    config=of[1],
                    seed=plan.seed,
                    rows=rows_of(log),
                    violations=log[-1].violations,
                    minimal=minimal,
                    config_name=of[0],
                    set_aside=plan.set_aside,
                )
            ]
            keep(outcome.traces[0])

        try:
            log = search.go(started + seconds, lambda *done, of=name: progress(of, *done))
            if log is not None:
                note(log, False, (name, config))
                note(*_smallest(engine, config, plan, log), (name, config))
        except KeyboardInterrupt:
            outcome.interrupted = True
        if outcome.trace is not None or outcome.interrupted:
            break
    if not outcome.configs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in outcome.skipped.items())
        raise EngineUnusable(f"{outcome.engine} can run none of the configurations ({reasons})")
    outcome.seconds = time.monotonic() - started
    return outcome, reached


def _smallest(
    engine: Engine, config: EngineConfig, plan: Plan, log: list[Iteration]
) -> tuple[list[Iteration], bool]:
    """The same violation in as few commands, and whether nothing can be left out."""

    def again(commands: list[Command]) -> list[Iteration]:
        return campaign.replay(
            engine, config, plan.seed, commands, plan.profile, plan.set_aside
        ).log

    def replay(commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        done = again(commands)
        return [entry.command for entry in done], done[-1].violations if done else []

    commands = [entry.command for entry in log]
    best, _, minimal = minimise(commands, log[-1].violations, replay, plan.shrink)
    shorter = again(best)
    return (shorter, minimal) if shorter and shorter[-1].violations else (log, False)


__all__ = ["CONFIGS", "DEPTH", "Reached", "explore"]
