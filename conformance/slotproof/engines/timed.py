"""An engine in this process that may not come back: after the step time-out that is a finding."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from slotproof.engines.base import Engine, EngineFailed
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot


class _TooLong(BaseException):
    """Raised inside the engine, whose own ``except Exception`` is not meant."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Break off what takes longer, between two bytecodes; in the main thread only."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TimedEngine:
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
