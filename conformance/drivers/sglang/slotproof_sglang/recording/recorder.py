"""One line of the log for each iteration of a running scheduler.

An iteration ends where the next one asks for input: then its batch is the last batch and
the engine's checks have run. Iterations in which nothing happened leave no line.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from .. import dialects
from ..boot import UsageError
from ..dialects import checks
from ..engine import NOT_OBSERVED, TRANSITIONS
from ..own_check import Probe, first_line
from ..snapshot import Snapshooter
from .guard import Switch, guarded
from .lines import Lines
from .live import LiveMailbox, LiveTracker, LiveWrapper
from .settings import SMALL, Settings

VERSION = 2
LEFT_OUT = ("overlap scheduling", "speculative decoding", "sliding window")
"""Of what the driver can't see, that for which the recorder stays off."""


class Recorder:
    """Watches one scheduler from within. Raises `UsageError` where it can't be watched."""

    def __init__(self, scheduler: Any, settings: Settings, tell: Callable[[str], None]) -> None:
        refuse(scheduler)
        self.scheduler = scheduler
        self.settings = settings
        self.dialect = dialects.choose(scheduler)
        self.iteration = self.lines_written = 0
        self.pages = settings.pages
        if self.pages is None:
            self.pages = self.dialect.total // self.dialect.page_size <= SMALL
        self.lines = Lines(settings.path, settings.most)
        self.switch = Switch(lambda why: self._off(why, tell))
        self.tracker = LiveTracker()
        self.mailbox = LiveMailbox()
        self.probe = Probe()
        self.complaint = ""
        self.snapshooter = Snapshooter(self.dialect, self.tracker)
        self.wrapper = LiveWrapper(scheduler, self.dialect, self.tracker, self.switch)
        self.lines.write(self.header())
        try:
            self._install()
        except Exception:
            self.switch.on = False  # what is wrapped already must not go on collecting
            raise
        tell(f"recording to {self.lines.path}")

    def _install(self) -> None:
        scheduler = self.scheduler
        self.mailbox.listen(self.switch)
        checks.watch(scheduler, self.probe)
        self.wrapper.install()
        checker = checks.checker_of(scheduler)
        for owner, name in (
            (checker, "self_check_during_busy"),
            (scheduler, "on_idle"),
            (scheduler, "self_check_during_idle"),
        ):
            cls = checks.owner_of(owner, name)  # the object itself may have slots only
            if cls is not None:
                setattr(cls, name, guarded(self.switch, getattr(cls, name), self._checked))
        start = "ingest_requests" if hasattr(scheduler, "ingest_requests") else None
        start = start or "process_input_requests"
        setattr(scheduler, start, guarded(self.switch, getattr(scheduler, start), self._begin))

    def header(self) -> dict[str, Any]:
        """The first line."""
        scheduler, dialect = self.scheduler, self.dialect
        args = scheduler.server_args
        told = ["commands", "messages", "events"] if self.settings.tokens else ["events"]
        return {
            "slotproof-log": VERSION,
            "engine": {
                "name": "sglang",
                "version": str(importlib.import_module("sglang").__version__),
            },
            "profile": dialect.profile,
            "config": {
                "page_size": dialect.page_size,
                "total_tokens": dialect.total,
                "max_running": int(scheduler.max_running_requests),
                "rows": int(dialect.rows.size),
                "context_len": int(scheduler.model_config.context_len),
                "chunk": max(0, int(args.chunked_prefill_size or 0)),
                "timeout": 0,
            },
            "records": told,
            "transitions": list(TRANSITIONS),
            "not_observed": {k: v for k, v in NOT_OBSERVED.items() if k not in LEFT_OUT},
            "recorder": {"every": self.settings.every, "pages": bool(self.pages)},
        }

    # Iterations -----------------------------------------------------------------

    def _begin(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """The loop asks for input: the iteration before this one is over."""
        self.write()
        self.iteration += 1
        return original(*args, **kwargs)

    def _checked(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """The engine's own check; where it raises, its iteration still gets its line."""
        try:
            return original(*args, **kwargs)
        except (AssertionError, ValueError) as complaint:
            self.complaint = first_line(complaint)
            raise

    def write(self) -> None:
        """The lines of the iteration that is over, if there is anything to tell."""
        if not self.switch.on:
            return
        commands, self.wrapper.live.commands = self.wrapper.live.commands, []
        messages, taken = self.mailbox.take(), self.tracker.take()
        if not (commands or messages or taken["events"] or self.complaint):
            self.probe.clear()
            return
        snapshot: dict[str, Any] = {"iter": self.iteration, **taken}
        lines: list[dict[str, Any]] = []
        if self.settings.tokens:
            lines += [{"command": command} for command in commands]
            snapshot |= {"consumed": len(commands), "messages": messages}
        if self.lines_written % self.settings.every == 0 or self.complaint:
            snapshot |= self.snapshooter.take(bool(self.pages))
            snapshot["checker"] = self._check()
        self.lines_written += 1
        self.probe.clear()
        self.complaint = ""
        if not self.lines.write(*lines, {"snapshot": snapshot}):
            self.switch.on = False

    def _check(self) -> dict[str, Any]:
        ran = bool(self.probe.level)
        verdict = "ok" if ran else "off"
        return {
            "ran": ran,
            "level": int(ran),
            "pools": dict(self.probe.pools),
            "verdict": "leak" if self.complaint else verdict,
            "message": self.complaint,
        }

    # The end ----------------------------------------------------------------------

    def stop(self, error: Exception | None) -> None:
        """The loop is over; an error of the engine's is the last line."""
        if not self.switch.on:
            return
        complained = bool(self.complaint)
        try:
            self.write()
            if error is not None and not complained:
                text = f"{type(error).__name__}: {first_line(error)}"
                self.lines.write({"failed": {"how": "crash", "error": text}})
        except Exception as failure:
            self.switch.off(f"the recorder failed: {type(failure).__name__}: {failure}")
        self.switch.on = False

    def _off(self, why: str, tell: Callable[[str], None]) -> None:
        tell(f"recorder off: {why}")
        try:
            self.lines.end(why)
        except OSError:
            tell(f"recorder: {self.lines.path} can't be written any more")


def refuse(scheduler: Any) -> None:
    """`UsageError` for what the events can't follow."""
    if not scheduler.spec_algorithm.is_none():
        raise UsageError("speculative decoding is not recorded")
    if getattr(scheduler, "is_hybrid_swa", False):
        raise UsageError("a sliding-window pool is not recorded")
    rank = getattr(scheduler, "attn_tp_rank", getattr(scheduler, "tp_rank", 0))
    if rank:
        raise UsageError(f"rank {rank}: only the first of a group records")
