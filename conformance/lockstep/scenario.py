"""A scenario of literal calls, for tests: an engine in lockstep with the spec.

    with Scenario("reference", {"page_size": 4}) as engine:
        engine.open("s1")
        engine.submit("r1", "s1", [1, 2, 3], max_new=4)
        engine.step(5)

Each call raises :class:`Violated`, an ``AssertionError``, if it breaks a clause of the spec.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from slotproof.conformance.engines.base import EngineUnusable, demand
from slotproof.conformance.engines.registry import EngineSpec, is_ours, mends_for, with_python
from slotproof.conformance.lockstep.referee import Setup
from slotproof.conformance.protocol.commands import Command, check
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.terminal import plain

ENGINE, PYTHON = "SLOTPROOF_ENGINE", "SLOTPROOF_PYTHON"
"""Environment variables: which engine a file made from a trace is run on."""


class Violated(AssertionError):
    """A clause of the spec does not hold; the message names each, with the figures."""


class Scenario:
    """An engine that is sent commands one by one, and judged after every iteration.

    ``engine`` is an ``--engine`` argument; ``python`` the interpreter of its environment, for
    engines that have one. ``config`` has the fields of the protocol's configuration; what is
    missing has its default; ``mends`` are known bugs that its driver is to repair. Raises
    :class:`EngineUnusable` if the engine can't start.
    """

    def __init__(
        self,
        engine: str = "reference",
        config: Mapping[str, Any] | None = None,
        *,
        python: str | Path | None = None,
        seed: int = 0,
        profile: str | None = None,
        mends: Sequence[str] = (),
        step_timeout: float = 30.0,
    ) -> None:
        path = Path(python) if python else None
        chosen = EngineConfig.from_json(config or {})
        text = with_python(engine, path)
        self.engine = EngineSpec(
            text, path, step_timeout=step_timeout, mends=mends_for(text, mends)
        ).open()
        self.referee = Setup(chosen, seed, profile).referee(self.engine)

    @classmethod
    def asked_for(
        cls,
        found_on: str,
        config: Mapping[str, Any],
        *,
        seed: int = 0,
        profile: str | None = None,
        mends: Sequence[str] = (),
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
        python = os.environ.get(PYTHON)
        text = engine or found_on
        return cls(text, config, python=python, seed=seed, profile=profile, mends=mends)

    def __enter__(self) -> Scenario:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.engine.close()

    def set_aside(self, clause: str) -> None:
        """Pass over violations of a clause (``INV-ONCE.reported``) from here on."""
        self.referee.set_aside |= {clause}

    def do(self, command: Command) -> None:
        """Send a command of the protocol. Raises :class:`Violated`."""
        command = check(command)
        demand(self.engine, self.referee.config, [command])
        violations = self.referee.do(command)
        if violations:
            raise Violated("\n".join(plain(str(each)) for each in violations))

    def open(self, session: str) -> None:
        """A client opens a session."""
        self.do({"do": "open", "session": session})

    def close(self, session: str) -> None:
        """A client closes a session."""
        self.do({"do": "close", "session": session})

    def submit(
        self,
        rid: str,
        session: str | None,
        tokens: Sequence[int],
        max_new: int,
        stop: Sequence[int] = (),
    ) -> None:
        """A turn of the session, or without one a plain request; ``tokens`` are the new ones."""
        fields = {"session": session, "rid": rid, "tokens": list(tokens), "max_new": max_new}
        self.do({"do": "submit", **fields, "stop": list(stop)})

    def abort(self, rid: str) -> None:
        """A client aborts a request."""
        self.do({"do": "abort", "rid": rid})

    def abort_all(self) -> None:
        """Every request is aborted."""
        self.do({"do": "abort_all"})

    def step(self, n: int = 1) -> None:
        """``n`` iterations of the scheduler."""
        self.do({"do": "step", "n": n})

    def tick(self, seconds: int) -> None:
        """Time passes; sessions that are due are reaped."""
        self.do({"do": "tick", "seconds": seconds})

    def evict(self, tokens: int) -> None:
        """Evict so many tokens from the prefix tree."""
        self.do({"do": "evict", "tokens": tokens})

    def retract(self) -> None:
        """Retract one running request."""
        self.do({"do": "retract"})

    def accept(self, rid: str, tokens: int) -> None:
        """So many tokens the request's next speculative round commits, if it can."""
        self.do({"do": "accept", "rid": rid, "tokens": tokens})

    def draft(self, rid: str, allocate: int, commit: int) -> None:
        """A draft, put in by hand: so many tokens allocated, so many of them committed."""
        self.do({"do": "draft", "rid": rid, "allocate": allocate, "commit": commit})

    def flush(self) -> None:
        """Empty the prefix tree."""
        self.do({"do": "flush"})

    def pause(self) -> None:
        """Admit nothing until ``continue_``."""
        self.do({"do": "pause"})

    def continue_(self) -> None:
        """Admit requests again."""
        self.do({"do": "continue"})
