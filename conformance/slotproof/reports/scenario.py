"""A scenario for tests and notebooks: method calls drive an engine in lockstep with the spec."""

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
"""Environment variable that names the engine for a test file made from a trace."""


@dataclass(frozen=True, repr=False)
class Happened:
    """Result of a command. Its ``repr`` is the command's part of a trace's text. Lengths: tokens.

    >>> with Scenario("reference") as engine:
    ...     engine.open("s1")
      1  open s1
    """

    number: int
    """Number of the command in the scenario, from 1."""
    row: Row
    """The command, and ``sessions``, ``slots`` and ``requests`` after it. ``frames`` has the page
    owners and the result of the engine's own check for each iteration."""
    messages: list[Message]
    """Messages from the engine to clients, in the form of the protocol."""
    violations: list[Violation]
    """Clauses of the spec broken by the command, with the evidence."""
    figures: dict[str, dict[str, int]]
    """For each pool, ``total`` and the equation's five terms by page ownership."""
    before: Row = field(compare=False)
    """Row of the previous command."""

    @property
    def transitions(self) -> list[str]:
        """Transitions reported by the engine, in order. Empty if the command awaits a ``step``."""
        return self.row.transitions

    def __repr__(self) -> str:
        broken = (f"  {violation}" for violation in self.violations)
        return "\n".join(map(plain, [*table([self.row], self.number - 1, self.before), *broken]))


class Violated(AssertionError):
    """A violation of the spec. The message lists every violated clause with its evidence.

    >>> with Scenario("reference:27228a-check-off-with-drafts", {"draft": 2}) as engine:
    ...     engine.submit("r1", None, [5], max_new=2), engine.step()
    Traceback (most recent call last):
        ...
    slotproof.reports.scenario.Violated: INV-CHECKER.ran: a batch ran (r1), but the check did not
    """

    def __init__(self, happened: Happened) -> None:
        super().__init__("\n".join(plain(str(violation)) for violation in happened.violations))
        self.happened = happened


class Scenario:
    """An engine driven command by command, and judged after every iteration.

    ``engine`` is an ``--engine`` argument. ``config`` has fields of the protocol's configuration,
    with defaults for missing fields. ``profile`` overrides the engine's own profile. ``patches``
    names the known bugs to repair. ``step_timeout`` is in seconds.

    Every command returns a :class:`Happened`. If the engine breaks a clause of the spec, the method
    raises :class:`Violated`, an ``AssertionError``. With ``raises=False`` the result has the
    violations instead, and the scenario can continue. Raises :class:`EngineUnusable` if the engine
    can't start or run a command, and ``ValueError`` for an invalid configuration or command.

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
        """Return a scenario on the engine named by ``SLOTPROOF_ENGINE``, or else on ``found_on``.

        A trace may come from a stranger. ``found_on`` is therefore started only if it names the
        reference engine or a mutant. Raises :class:`EngineUnusable`.
        """
        __tracebackhide__ = True
        if not (engine := os.environ.get(ENGINE)) and not is_ours(found_on):
            raise EngineUnusable(
                f"this trace was found on {found_on!r}, which a test does not start by itself: "
                f"set {ENGINE}={plain(shlex.quote(found_on))}, or set it to another engine"
            )
        return cls(engine or found_on, config, seed=seed, profile=profile, patches=patches)

    def __enter__(self) -> Scenario:
        return self

    def __exit__(self, *raised: object) -> None:
        self.engine.close()

    def ignore(self, clause: str) -> None:
        """Ignore further violations of a clause, such as ``INV-ONCE.reported``."""
        self.referee.ignored |= {clause}

    def do(self, command: Command) -> Happened:
        """Send a protocol command to the engine. Raises :class:`Violated`."""
        command = check(command)
        demand(self.engine, self.referee.config, [command])
        self.referee.do(command)
        entry, last = self.referee.log[-1], self.happened[-1] if self.happened else None
        before, figures = (last.row, last.figures) if last else (Row({}), {})
        row = row_of(entry, before)
        if row.frames:
            shares = row.frames[-1].shares
            figures = {name: {**pool, **shares.get(name, {})} for name, pool in row.pools.items()}
        told = [message for seen in entry.observations for message in seen.snapshot["messages"]]
        happened = Happened(len(self.happened) + 1, row, told, entry.violations, figures, before)
        self.happened.append(happened)
        if happened.violations and self.raises:
            raise Violated(happened)
        return happened

    @property
    def trace(self) -> Trace:
        """Trace of all commands up to the first violation, ready to show, save or replay."""
        offered, setup = self.engine.capabilities, self.setup
        first = next((result for result in self.happened if result.violations), None)
        known = self.happened[: first.number if first else None]
        judged = copy(self.referee)
        judged.log = judged.log[: len(known)]
        return Trace(
            versioned(self.engine),
            self.text,
            setup.profile or offered.profile,
            setup.config,
            setup.seed,
            [result.row for result in known],
            first.violations if first else [],
            chosen_profile=setup.profile,
            ignored=tuple(sorted(self.referee.ignored)),
            explained=explain(judged) if first else None,
            patches=offered.patches,
            build=built(self.engine),
        )

    def open(self, session: str) -> Happened:
        """Open a session."""
        return self.do({"do": "open", "session": session})

    def close(self, session: str) -> Happened:
        """Close a session."""
        return self.do({"do": "close", "session": session})

    def submit(
        self,
        rid: str,
        session: str | None,
        tokens: Sequence[int],
        max_new: int,
        stop: Sequence[int] = (),
    ) -> Happened:
        """Submit new ``tokens`` as a turn of the session, or a plain request without a session."""
        fields = {"session": session, "rid": rid, "tokens": list(tokens), "max_new": max_new}
        return self.do({"do": "submit", **fields, "stop": list(stop)})

    def abort(self, rid: str) -> Happened:
        """Abort a request."""
        return self.do({"do": "abort", "rid": rid})

    def abort_all(self) -> Happened:
        """Abort every request."""
        return self.do({"do": "abort_all"})

    def step(self, n: int = 1) -> Happened:
        """Run ``n`` iterations of the scheduler."""
        return self.do({"do": "step", "n": n})

    def tick(self, seconds: int) -> Happened:
        """Advance the engine's clock. The engine then reaps the sessions that have timed out."""
        return self.do({"do": "tick", "seconds": seconds})

    def tick_ms(self, ms: int) -> Happened:
        """Advance the engine's clock by a part of a second."""
        return self.do({"do": "tick_ms", "ms": ms})

    def evict(self, tokens: int) -> Happened:
        """Evict a number of tokens from the prefix tree."""
        return self.do({"do": "evict", "tokens": tokens})

    def retract(self) -> Happened:
        """Make the scheduler retract one running request."""
        return self.do({"do": "retract"})

    def accept(self, rid: str, tokens: int) -> Happened:
        """Make the request's next speculative round accept this number of tokens, if possible."""
        return self.do({"do": "accept", "rid": rid, "tokens": tokens})

    def draft(self, rid: str, allocate: int, commit: int) -> Happened:
        """Run a drafting round by hand: allocate and commit these numbers of tokens."""
        return self.do({"do": "draft", "rid": rid, "allocate": allocate, "commit": commit})

    def flush(self) -> Happened:
        """Empty the prefix tree."""
        return self.do({"do": "flush"})

    def flush_all(self) -> Happened:
        """Retract all running requests, and empty the prefix tree."""
        return self.do({"do": "flush_all"})

    def pause(self) -> Happened:
        """Stop admitting requests until ``continue_``."""
        return self.do({"do": "pause"})

    def continue_(self) -> Happened:
        """Admit requests again, after ``pause``."""
        return self.do({"do": "continue"})
