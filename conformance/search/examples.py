"""The examples of a part: drawn by Hypothesis, run one after the other, as far as time allows.

What is drawn depends on the seed, the part and the configuration, and on nothing an engine does
(:mod:`slotproof.conformance.search.machine`). So a part that was cut short goes on later where it
was: what has been run before is drawn again, and not run. Nothing but this module knows that it
is Hypothesis that draws.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import hypothesis
from hypothesis.internal.conjecture import providers
from hypothesis.stateful import run_state_machine_as_test

from slotproof.conformance import bounds, interrupts
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.referee import Iteration, Referee, referee_profile
from slotproof.conformance.search.machine import Leave, machine_for
from slotproof.conformance.search.plan import Part
from slotproof.conformance.search.rounds import OutOfTime, Stop, Turn

_SEEDS = 1009
"""Parts of a campaign whose seeds are consecutive."""


class Examples(ABC):
    """Runs the examples of a turn. A subclass says what becomes of violations."""

    def __init__(self, engine: Engine, part: Part, turn: Turn, stop: Stop) -> None:
        self.engine, self.part, self.turn, self.stop = engine, part, turn, stop
        self.run = 0
        """Examples that were run to their end, or to their first violation."""
        self.coverage = Coverage()
        self._profile = referee_profile(engine, part.config, part.plan.profile)
        self._dry = 0
        """Examples still to be drawn that were run before."""

    @abstractmethod
    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Told of an example's first violations; whether that was enough."""

    @abstractmethod
    def counted(self) -> None:
        """Told when an example was run."""

    def passes(self, entry: Iteration) -> bool:
        """Whether the example goes on after these violations."""
        del entry
        return False

    def begin(self) -> Referee | None:
        """A judge for the next example, if it was not run before and there is time for it."""
        if self._dry:
            self.go_on()
            return None
        if self.run and time.monotonic() > self.turn.until:
            raise OutOfTime  # of its share; one example it has in any case
        self.go_on()
        return Referee(
            self.engine,
            self.part.config,
            self.part.plan.seed,
            self.coverage,
            self._profile,
            self.part.plan.set_aside,
            self.passes,
            self.part.plan.oracles,
        )

    def go_on(self) -> None:
        """An example ends where the time does; what it showed before that counts."""
        interrupts.check()
        if self.stop():
            raise OutOfTime

    def end(self) -> None:
        """One more was run, or drawn."""
        if self._dry:
            self._dry -= 1
            return
        chunk, done = self.turn.place
        self.turn = replace(self.turn, done=self.turn.done + 1, place=(chunk, done + 1))
        self.run += 1
        self.counted()

    def go(self) -> bool:
        """Go on from where the turn is; whether it came to its end.

        Raises ``KeyboardInterrupt``, and whatever an engine or an oracle raises.
        """
        try:
            with interrupts.held(), _own_choices():
                self._draw()
        except Leave as leaving:
            interrupts.check()
            if leaving.because is None or isinstance(leaving.because, OutOfTime):
                return False
            raise leaving.because from None
        interrupts.check()
        return True

    def _draw(self) -> None:
        turn, offered = self.turn, self.engine.capabilities.commands
        while (chunk := self.turn.place[0]) * bounds.EXAMPLES_AT_ONCE < turn.examples:
            self._dry = self.turn.place[1]
            left = turn.examples - chunk * bounds.EXAMPLES_AT_ONCE
            machine = machine_for(self, offered, self.part.config)
            seed = _seed(self.part.plan.seed, turn.index, chunk)
            settings = hypothesis.settings(
                max_examples=min(left, bounds.EXAMPLES_AT_ONCE),
                stateful_step_count=self.part.plan.steps,
                database=None,  # the same seed gives the same trace, whatever was found before
                deadline=None,
                report_multiple_bugs=False,
                print_blob=False,
                verbosity=hypothesis.Verbosity.quiet,
                suppress_health_check=list(hypothesis.HealthCheck),
                phases=[hypothesis.Phase.generate],
            )
            run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=settings)
            self.turn = replace(self.turn, place=(chunk + 1, 0))


def _seed(seed: int, index: int, chunk: int) -> int:
    """A seed of its own for each part, and for each run of Hypothesis within one.

    >>> _seed(0, 3, 0), _seed(1, 0, 0)
    (3, 1009)
    >>> _seed(0, 1009, 0) == _seed(1, 0, 0)
    False
    """
    lap, index = divmod(index, _SEEDS)
    return seed * _SEEDS + index + (lap << 64) + (chunk << 96)


@contextmanager
def _own_choices() -> Iterator[None]:
    """Draw nothing from the source of the modules that happen to be imported.

    Hypothesis takes constants for its examples from there, so that the same seed would give
    other examples after any change of a source, and in a process of ``--jobs``; and keeps what
    it has read in a folder ``.hypothesis``, wherever the user is. Needs names of Hypothesis that
    are not public; where they are gone, nothing is changed.
    """
    before = getattr(providers, "_get_local_constants", None)
    cache = getattr(providers, "CONSTANTS_CACHE", None)
    constants = getattr(providers, "Constants", None)
    if before is None or cache is None or constants is None:
        yield
        return
    none = constants()
    cache.cache.clear()
    providers._get_local_constants = lambda: none  # noqa: SLF001  # see above
    try:
        yield
    finally:
        providers._get_local_constants = before  # noqa: SLF001  # see above
        cache.cache.clear()
