"""A scenario of literal calls, for tests and notebooks: an engine in lockstep with the spec."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from slotproof.engines.base import EngineUnusable, built, demand, versioned
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Setup
from slotproof.protocol.commands import Command, check
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Message
from slotproof.reports.text import table
from slotproof.reports.trace import Trace
from slotproof.support.terminal import plain
from slotproof.traces.record import Row, row_of

ENGINE = "SLOTPROOF_ENGINE"
"""The environment variable that names the engine for a file made from a trace."""


@dataclass(frozen=True, repr=False)
class Happened:
    """What a command led to; printed, its line of the trace. Lengths and figures are tokens.

    >>> with Scenario("reference") as engine:
    ...     engine.open("s1")
      1  open s1
    """

    number: int
    """Of the command, from 1."""
    row: Row
    """The command, the tables of ``sessions``, ``slots`` and ``requests`` after it, and in
    ``frames`` each iteration: whose each page is, what the engine's own check said."""
    messages: list[Message]
    """What clients were told, as in the protocol."""
    violations: list[Violation]
    """Clauses of the spec that it broke, with what shows it."""
    figures: dict[str, dict[str, int]]
    """By pool, the five terms of the equation as ownership gives them, and ``total``."""
    before: Row = field(compare=False)
    """The row of the command before."""

    @property
    def transitions(self) -> list[str]:
        """What the engine did, in order; none for a command that waits for the next ``step``."""
        return self.row.transitions

    def __repr__(self) -> str:
        broken = (f"  {violation}" for violation in self.violations)
        return "\n".join(map(plain, [*table([self.row], self.number - 1, self.before), *broken]))


class Violated(AssertionError):
    """A clause of the spec does not hold; the message names each, with the figures.

    >>> with Scenario("reference:27228a-check-off-with-drafts", {"draft": 2}) as engine:
    ...     engine.submit("r1", None, [5], max_new=2), engine.step()
    Traceback (most recent call last):
        ...
    slotproof.reports.scenario.Violated: INV-CHECKER.ran: a batch ran (r1) and the check did not
    """

    def __init__(self, happened: Happened) -> None:
        super().__init__("\n".join(plain(str(each)) for each in happened.violations))
        self.happened = happened


class Scenario:
    """An engine that is sent commands one by one, and judged after every iteration.

    ``engine`` is an ``--engine`` argument. ``config`` has the fields of the protocol's
    configuration; what is missing has its default. ``profile`` stands instead of the engine's own;
    ``patches`` are known bugs that its driver is to repair; ``step_timeout`` is in seconds.

    Every command returns what :class:`Happened`. One that breaks a clause of the spec raises
    :class:`Violated`, an ``AssertionError``; with ``raises=False`` the violations are in what it
    returns, and one may go on. Raises :class:`EngineUnusable` if the engine can't start or lacks
    what a command needs, and ``ValueError`` for a configuration or a command that is none.

    >>> with Scenario("reference:22213-double-count", raises=False) as engine:
    ...     _ = engine.open("s1"), engine.submit("r1", "s1", [5, 6, 7], max_new=0)
    ...     first = engine.step()
    ...     _ = engine.submit("r2", "s1", [8], max_new=2)
    ...     second = engine.step()
    >>> first
      3  one scheduler iteration
           T-OPEN T-SUBMIT T-MATCH T-EXTEND T-SAVE
           full: 61 available + 0 evictable + 0 protected + 3 held + 0 uncached = 64
           slot of s1: row=0 C=3 A=3 Q=0 E=0
    >>> second.figures["full"]["uncached"], [each.clause for each in second.violations][:2]
    (4, ['INV-SUM-FULL.reported', 'INV-ONCE.reported'])
    """

    def __init__(
        self,
        engine: str = "reference",
        config: Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        profile: str | None = None,
        patches: Sequence[str] = (),
        step_timeout: float = 30.0,
        raises: bool = True,
    ) -> None:
        chosen = EngineConfig.from_json(config or {})
        spec = EngineSpec.parse(engine, step_timeout, default_patches=patches)
        self.text, self.engine = spec.text, spec.open()
        self.setup = Setup(chosen, seed, profile)
        self.referee = self.setup.referee(self.engine)
        self.raises = raises
        self.happened: list[Happened] = []

    @classmethod
    def asked_for(
        cls,
        found_on: str,
        config: Mapping[str, Any],
        *,
        seed: int = 0,
        profile: str | None = None,
        patches: Sequence[str] = (),
    ) -> Scenario:
        """On the engine that the environment names, and only ours unasked.

        ``found_on`` is what a trace says it was found on: a file that anybody may have made.
        Raises :class:`EngineUnusable`.
        """
        __tracebackhide__ = True
        engine = os.environ.get(ENGINE)
        if not engine and not is_ours(found_on):
            raise EngineUnusable(
                f"this was found on {found_on!r}, which a file does not start by itself: "
                f"{ENGINE}={plain(shlex.quote(found_on))} asks for it, or name another engine there"
            )
        text = engine or found_on
        return cls(text, config, seed=seed, profile=profile, patches=patches)

    def __enter__(self) -> Scenario:
        return self

    def __exit__(self, *raised: object) -> None:
        self.engine.close()

    def ignore(self, clause: str) -> None:
        """Pass over violations of a clause (``INV-ONCE.reported``) from here on."""
        self.referee.ignored |= {clause}

    def do(self, command: Command) -> Happened:
        """Send a command of the protocol. Raises :class:`Violated`."""
        command = check(command)
        demand(self.engine, self.referee.config, [command])
        self.referee.do(command)
        entry, last = self.referee.log[-1], self.happened[-1] if self.happened else None
        before, figures = (last.row, last.figures) if last else (Row({}), {})
        row = row_of(entry, before)
        if row.frames:
            shares = row.frames[-1].shares
            figures = {name: {**pool, **shares.get(name, {})} for name, pool in row.pools.items()}
        told = [each for seen in entry.observations for each in seen.snapshot["messages"]]
        number = len(self.happened) + 1
        happened = Happened(number, row, told, entry.violations, figures, before)
        self.happened.append(happened)
        if happened.violations and self.raises:
            raise Violated(happened)
        return happened

    @property
    def trace(self) -> Trace:
        """What was sent and seen, up to the first violation: to be shown, saved or replayed."""
        offered, setup = self.engine.capabilities, self.setup
        first = next((each for each in self.happened if each.violations), None)
        known = self.happened[: first.number if first else None]
        judged = copy(self.referee)
        judged.log = judged.log[: len(known)]
        return Trace(
            versioned(self.engine),
            self.text,
            setup.profile or offered.profile,
            setup.config,
            setup.seed,
            [each.row for each in known],
            first.violations if first else [],
            chosen_profile=setup.profile,
            ignored=tuple(sorted(self.referee.ignored)),
            explained=explain(judged) if first else None,
            patches=offered.patches,
            build=built(self.engine),
        )

    def open(self, session: str) -> Happened:
        """A client opens a session."""
        return self.do({"do": "open", "session": session})

    def close(self, session: str) -> Happened:
        """A client closes a session."""
        return self.do({"do": "close", "session": session})

    def submit(
        self,
        rid: str,
        session: str | None,
        tokens: Sequence[int],
        max_new: int,
        stop: Sequence[int] = (),
    ) -> Happened:
        """A turn of the session, or without one a plain request; ``tokens`` are the new ones."""
        fields = {"session": session, "rid": rid, "tokens": list(tokens), "max_new": max_new}
        return self.do({"do": "submit", **fields, "stop": list(stop)})

    def abort(self, rid: str) -> Happened:
        """A client aborts a request."""
        return self.do({"do": "abort", "rid": rid})

    def abort_all(self) -> Happened:
        """Every request is aborted."""
        return self.do({"do": "abort_all"})

    def step(self, n: int = 1) -> Happened:
        """``n`` iterations of the scheduler."""
        return self.do({"do": "step", "n": n})

    def tick(self, seconds: int) -> Happened:
        """Time passes; sessions that are due are reaped."""
        return self.do({"do": "tick", "seconds": seconds})

    def evict(self, tokens: int) -> Happened:
        """Evict so many tokens from the prefix tree."""
        return self.do({"do": "evict", "tokens": tokens})

    def retract(self) -> Happened:
        """Retract one running request."""
        return self.do({"do": "retract"})

    def accept(self, rid: str, tokens: int) -> Happened:
        """So many tokens the request's next speculative round commits, if it can."""
        return self.do({"do": "accept", "rid": rid, "tokens": tokens})

    def draft(self, rid: str, allocate: int, commit: int) -> Happened:
        """A draft, put in by hand: so many tokens allocated, so many of them committed."""
        return self.do({"do": "draft", "rid": rid, "allocate": allocate, "commit": commit})

    def flush(self) -> Happened:
        """Empty the prefix tree."""
        return self.do({"do": "flush"})

    def pause(self) -> Happened:
        """Admit nothing until ``continue_``."""
        return self.do({"do": "pause"})

    def continue_(self) -> Happened:
        """Admit requests again."""
        return self.do({"do": "continue"})
