"""SIGTERM ends a command as Ctrl-C does: what was found is kept, and the status is 3."""

from __future__ import annotations

import signal
from types import FrameType


def heed_sigterm() -> None:
    """From now on; for the main thread, which is the one that is interrupted."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Whatever Ctrl-C would do just now, also where a shell has us ignore it (`command &`)."""
    there = signal.getsignal(signal.SIGINT)
    if not callable(there):
        raise KeyboardInterrupt
    there(number, frame)
