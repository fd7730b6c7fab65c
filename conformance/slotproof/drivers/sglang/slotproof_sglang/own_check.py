"""Run the engine's own check and report what it found, in its own figures.

A failed check is the engine's *verdict*, not a crash: the run goes on. Only something
other than the check's own complaint counts as a crash of the checker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Probe:
    """Told by the wrapped check what it adds up; see `Dialect.watch_checks`."""

    def __init__(self) -> None:
        self.level = ""
        self.pools: dict[str, dict[str, int]] = {}
        self.rows: dict[str, int] = {}

    def clear(self) -> None:
        """Forget the last check."""
        self.level, self.pools, self.rows = "", {}, {}

    def add(self, level: str, figures: dict[str, int], uncached: int, pool: str = "full") -> None:
        """One pool was looked at; called once per batch where a build adds batch by batch."""
        before = self.pools.get(pool, {}).get("uncached", 0) if self.level == level else 0
        self.level = level
        self.pools[pool] = {**figures, "uncached": before + uncached}


class Checker:
    """The checks of one iteration: the idle one where there was no batch, then the busy one."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.clear()

    def clear(self) -> None:
        """A new iteration begins."""
        self.probe.clear()
        self.due = False
        self.verdict, self.message = "off", ""

    def around(self, check: Callable[..., None]) -> Callable[..., None]:
        """The check, whose complaint becomes the verdict."""

        def checked(*args: Any, **kwargs: Any) -> None:
            self.due = True
            try:
                check(*args, **kwargs)
            except (AssertionError, ValueError) as complaint:
                self.verdict, self.message = "leak", first_line(complaint)
            except Exception as error:
                self.verdict = "crash"
                self.message = f"{type(error).__name__}: {first_line(error)}"
            else:
                if self.verdict == "off" and self.probe.level:
                    self.verdict = "ok"

        return checked

    def report(self) -> dict[str, Any]:
        """The protocol's `checker`; `ran` only if it got as far as adding up a pool."""
        ran = bool(self.probe.level)
        return {
            "ran": ran,
            # SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY (see boot.py); 0 where the event
            # loop has nothing to check: time passed, or the engine is paused.
            "level": int(self.due),
            "pools": dict(self.probe.pools),
            "verdict": self.verdict,
            "message": self.message,
            **self.probe.rows,
        }


def first_line(error: BaseException) -> str:
    """An exception's message in one line."""
    return " ".join(str(error).split()) or type(error).__name__
