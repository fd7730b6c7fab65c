"""The engine's own memory check, with the terms that the check adds up.

A failed check is the engine's *verdict*, not a crash, and the run continues. Any other exception
raised inside the check is a crash of the checker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any


class Probe:
    """Terms that the wrapped check adds up. See `dialects.checks.watch`."""

    def __init__(self) -> None:
        self.level = ""
        self.pools: dict[str, dict[str, int]] = {}
        self.rows: dict[str, int] = {}
        #: Requests that the busy check counted, or their KV records. None if not watched.
        self.counted: list[Any] | None = None
        self.logged = 0
        #: Lines stored until a check fails. None for a build that stores none.
        self.stored: Collection[str] | None = None

    def clear(self) -> None:
        """Drop the terms of the last check."""
        self.level, self.pools, self.rows, self.logged = "", {}, {}, 0
        if self.counted:
            self.counted.clear()

    def add(self, level: str, figures: dict[str, int], uncached: int, pool: str = "full") -> None:
        """Record the terms of one pool. A build that checks batch by batch adds to ``uncached``."""
        before = self.pools.get(pool, {}).get("uncached", 0) if self.level == level else 0
        self.level = level
        self.pools[pool] = {**figures, "uncached": before + uncached}


class Checker:
    """Checks of one iteration: the idle check if no batch ran, then the busy check."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.clear()

    def clear(self) -> None:
        """Begin a new iteration."""
        self.probe.clear()
        self.due = False
        self.verdict, self.message = "off", ""

    def around(self, check: Callable[..., None]) -> Callable[..., None]:
        """Wrap a check. If the check fails, its message becomes the verdict."""

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

    def report(self, live: Iterable[tuple[str, Any]] = ()) -> dict[str, Any]:
        """Return the protocol's `checker`. `ran` is true only if the check added up a pool.

        ``live``: name of each unfinished request.
        """
        ran = bool(self.probe.level)
        return {
            "ran": ran,
            # SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY (see boot.py), or 0 if the event loop
            # has nothing to check: time passed, or the engine is paused.
            "level": int(self.due),
            "pools": dict(self.probe.pools),
            "verdict": self.verdict,
            "message": self.message,
            **self.probe.rows,
            **(self._busy(live) if self.probe.level == "busy" else {}),
        }

    def _busy(self, live: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Return the requests that the busy check counted, and its number of log lines."""
        probe, shown = self.probe, dict[str, Any]()
        if probe.counted is not None:
            names = {id(of): rid for rid, req in live for of in (req, getattr(req, "kv", req))}
            shown["counted"] = [names[id(of)] for of in probe.counted if id(of) in names]
        # The build's check of single pages, after the check of the pools, logs nothing.
        pools = self.verdict == "ok" or "Mem Leak" in self.message
        if probe.stored is not None and pools:
            shown |= {"logged": probe.logged, "kept": len(probe.stored)}
        return shown


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return " ".join(str(error).split()) or type(error).__name__
