"""Clock of the engine, advanced only by the client.

Session timeouts and deferred closes use `time.monotonic()`. Request timeouts use
`time.perf_counter()`. With a real clock, a run would depend on the machine's speed.
"""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """Replacement of the module `time` in the engine's modules."""

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start

    def monotonic(self) -> float:
        """Return the time in seconds. Only `tick` advances the time."""
        return self.now

    perf_counter = monotonic

    def monotonic_ns(self) -> int:
        """Return the time in nanoseconds."""
        return int(self.now * 1e9)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def install(self, *modules: Any) -> None:
        """Replace `time` by this clock in the given modules."""
        for module in modules:
            if hasattr(module, "time"):
                module.time = self
