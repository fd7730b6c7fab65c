"""An engine of this process that may not come back, and one of someone else's module.

A command that takes longer than it may is a hang. Of a stranger's engine what it raises is its own
crash; what it shows is taken as it would come through a pipe, and has to follow the schema. So
whatever is raised later, while it is judged, is ours.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from typing import Any, cast

from slotproof.engines.base import Engine, EngineFailed, Identified, its_own_fault, miscounted
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import RECOMPUTED
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot
from slotproof.support import jsontext


class _TooLong(BaseException):
    """Raised inside the engine, whose own ``except Exception`` is not meant."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Break off what takes longer, between two bytecodes; in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TimedEngine(Identified):
    """Passes everything on. A command that takes longer than it may is a hang (INV-ALIVE.hang)."""

    def __init__(self, engine: Engine, step_timeout: float) -> None:
        self.engine, self.step_timeout = engine, step_timeout
        self.name, self.version = engine.name, engine.version
        self.capabilities = engine.capabilities

    def reset(self, config: EngineConfig, seed: int) -> None:
        self.engine.reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        seconds = self.step_timeout * max(1, command["n"] if command["do"] == "step" else 1)
        try:
            with _limited(seconds):
                return self.engine.do(command)
        except _TooLong:
            text = f"no answer to “{command['do']}” within {seconds:g} s"
            raise EngineFailed("hang", text, broken=False) from None

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        return self.engine.recompute(tokens, count)

    def close(self) -> None:
        self.engine.close()


class CheckedEngine(TimedEngine):
    """The same of a stranger's engine, checked as one behind a pipe is."""

    def reset(self, config: EngineConfig, seed: int) -> None:
        with its_own_fault():
            super().reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        with its_own_fault():
            shown = super().do(command)
        found: list[Snapshot] = _through_a_pipe(SNAPSHOTS, {"snapshots": shown})["snapshots"]
        if (wrong := miscounted(command, found)) is not None:
            raise _nonsense(wrong)
        return found

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        with its_own_fault():
            said = super().recompute(tokens, count)
        return cast("list[int] | None", _through_a_pipe(RECOMPUTED, {"tokens": said})["tokens"])

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # all is said by then
            super().close()


def _through_a_pipe(shape: Shape, shown: Any) -> Any:
    try:
        plain = jsontext.parse(json.dumps(shown).encode())
        shape.demand(plain, ValueError)
    except (TypeError, ValueError, RecursionError) as error:
        raise _nonsense(str(error)) from None
    return plain


def _nonsense(wrong: str) -> EngineFailed:
    text = f"what it shows is no snapshot: {wrong}"[:300]
    return EngineFailed("crash", text, fault="nonsense")
