"""Time that passes only when the client says so.

Session timeouts and deferred closes hang on `time.monotonic()`, those of requests on
`time.perf_counter()`; read from a real clock they would make a run depend on the machine's speed.
"""

from __future__ import annotations

import time
from typing import Any


class Clock:
    """Stands in for the module `time` inside the engine's modules."""

    def __init__(self, start: float = 1000.0) -> None:
        self.now = start

    def monotonic(self) -> float:
        """Seconds, advanced by `tick` alone."""
        return self.now

    perf_counter = monotonic

    def monotonic_ns(self) -> int:
        """The same in nanoseconds."""
        return int(self.now * 1e9)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def install(self, *modules: Any) -> None:
        """Give these modules this clock in place of `time`."""
        for module in modules:
            if hasattr(module, "time"):
                module.time = self
