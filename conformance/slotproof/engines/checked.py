"""Wrappers of engines that run in this process. One limits time, one checks foreign engines.

A command that exceeds its time limit is a hang. An exception raised by a foreign engine is a crash
of that engine. The engine's snapshots are validated like snapshots from a driver's pipe. An
exception while the referee judges a snapshot is therefore a bug of slotproof.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

from slotproof.engines.base import Engine, EngineFailed, its_own_fault, miscounted
from slotproof.protocol.build import Build
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import RECOMPUTED
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot
from slotproof.support import jsontext


class _TooLong(BaseException):
    """Exception that the time limit raises in the engine. ``except Exception`` can't catch it."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt the block after ``seconds``. Works in the main thread only."""
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


class TimedEngine:
    """Wrapper of an engine. A command that exceeds the time limit is a hang (INV-ALIVE.hang)."""

    identity: Callable[[], Build] | None = None
    """Function that returns the build's identity. Its first call reads all files of the build."""

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
    """Wrapper of a foreign engine. It validates the engine's snapshots like those of a driver."""

    def reset(self, config: EngineConfig, seed: int) -> None:
        with its_own_fault():
            super().reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        with its_own_fault():
            shown = super().do(command)
        snapshots: list[Snapshot] = _through_a_pipe(SNAPSHOTS, {"snapshots": shown})["snapshots"]
        if (wrong := miscounted(command, snapshots)) is not None:
            raise _nonsense(wrong)
        return snapshots

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        with its_own_fault():
            said = super().recompute(tokens, count)
        return cast("list[int] | None", _through_a_pipe(RECOMPUTED, {"tokens": said})["tokens"])

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # a failure to close is no result
            super().close()


def _through_a_pipe(shape: Shape, shown: Any) -> Any:
    try:
        plain = jsontext.parse(json.dumps(shown).encode())
        shape.demand(plain, ValueError)
    except (TypeError, ValueError, RecursionError) as error:
        raise _nonsense(str(error)) from None
    return plain


def _nonsense(wrong: str) -> EngineFailed:
    return EngineFailed("crash", f"the engine's answer is invalid: {wrong}"[:300], fault="nonsense")
