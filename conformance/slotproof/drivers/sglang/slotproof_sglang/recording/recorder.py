"""Log of a running scheduler, with one line for each iteration.

An iteration ends when the next iteration asks for input. The batch of the ended iteration is then
the last batch, and the engine's checks have run. Idle iterations leave no line. Lines are written
at the next state, at the next idle iteration, or when their number reaches a maximum. When the loop
ends, for any reason, all lines are written.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from slotproof_driver.usage import UsageError

from .. import dialects
from ..dialects import checks
from ..engine import NOT_OBSERVED, TRANSITIONS
from ..own_check import Probe, first_line
from .clients import Clients
from .guard import Switch, guarded
from .lines import Files, TooMuch
from .live import LiveMailbox, LiveSnapshooter, LiveTracker, LiveWrapper
from .settings import SMALL, Settings
from .tokens import Keyed, Open

VERSION = 3
HASHED = "only lengths and keyed hashes are recorded, so tokens can be compared, but not read"
ON_DEVICE = "the server would have to wait for a read of pages from {}"
AT_ONCE = 64
"""Largest number of lines not yet written. A state or an idle iteration writes all of them."""
PAGES = "pages (free list, tree, rows)"


class Recorder:
    """Recorder inside one scheduler. Raises `UsageError` for an unsupported scheduler."""

    def __init__(self, scheduler: Any, settings: Settings, tell: Callable[[str], None]) -> None:
        self.scheduler = scheduler
        self.settings = settings
        self.dialect = dialects.choose(scheduler)
        self.iteration = self.lines_written = 0
        self.owed = False
        self.pending: list[dict[str, Any]] = []
        self.pages = settings.pages
        if self.pages is None:
            self.pages = self.dialect.total // self.dialect.page_size <= SMALL
        self.pages = self.pages and self.dialect.device == "cpu"
        empty = Open() if settings.tokens else Keyed.under(settings.key)
        self.clients = Clients(empty)
        self.files = Files(settings.path, settings.most << 20, settings.files)
        self.switch = Switch(lambda why: self._off(why, tell))
        self.tracker = LiveTracker(self.clients)
        self.mailbox = LiveMailbox(self.clients)
        self.probe = Probe()
        self.complaint = ""
        self.snapshooter = LiveSnapshooter(self.dialect, self.tracker, empty)
        self.wrapper = LiveWrapper(scheduler, self.dialect, self.tracker, self.switch)
        self.files.begin(self.header())
        try:
            self._install()
        except Exception:
            self.switch.on = False  # The wrappers stay installed, but must stop collecting.
            raise
        tell(f"recording to {self.files.path}.*")

    def _install(self) -> None:
        scheduler = self.scheduler
        self.mailbox.listen(self.switch)
        checks.watch(scheduler, self.probe)
        self.wrapper.install()
        checks.surround(scheduler, lambda check: guarded(self.switch, check, self._checked))
        start = "ingest_requests" if hasattr(scheduler, "ingest_requests") else None
        start = start or "process_input_requests"
        setattr(scheduler, start, guarded(self.switch, getattr(scheduler, start), self._begin))

    def header(self) -> dict[str, Any]:
        """Return the first line of the first file."""
        scheduler, dialect = self.scheduler, self.dialect
        args, swa = scheduler.server_args, dialect.swa
        hidden = dict(NOT_OBSERVED)
        if not self.settings.tokens:
            hidden["clients' tokens"] = HASHED
        if dialect.device != "cpu":
            hidden[PAGES] = ON_DEVICE.format(dialect.device)
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
                "window": 0 if swa is None else swa.window,
                "swa_tokens": 0 if swa is None else swa.total,
                "chunk": max(0, int(args.chunked_prefill_size or 0)),
                "draft": drafted(scheduler),
                "timeout": 0,
                **({"overlap": True} if scheduler.enable_overlap else {}),
            },
            "records": ["commands", "messages", "events"],
            "transitions": list(TRANSITIONS),
            "not_observed": hidden,
            "recorder": {"every": self.settings.every, "pages": bool(self.pages)},
        }

    def next_file(self) -> None:
        """Start a new file. The first lines repeat all facts needed from earlier files."""
        began = {
            "file": self.files.number + 1,
            "lines": self.files.lines,
            "iter": self.iteration,
            "clients": self.clients.known(),
        }
        state = {"iter": self.iteration, **self.snapshooter.take(bool(self.pages))}
        self.files.begin({**self.header(), "continues": began}, {"snapshot": state})

    # Iterations -----------------------------------------------------------------

    def _begin(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap the loop's request for input. The request ends the previous iteration."""
        self.write()
        self.iteration += 1
        return original(*args, **kwargs)

    def _checked(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap the engine's own check. If the check raises, the iteration still gets its line."""
        try:
            return original(*args, **kwargs)
        except (AssertionError, ValueError) as complaint:
            self.complaint = first_line(complaint)
            raise

    def write(self) -> None:
        """Record the finished iteration, unless it was idle."""
        if not self.switch.on:
            return
        commands, self.wrapper.live.commands = self.wrapper.live.commands, []
        messages, taken = self.mailbox.take(), self.tracker.take()
        if not (commands or messages or taken["events"] or self.complaint):
            self.probe.clear()
            self.flush()
            return
        snapshot = {"iter": self.iteration, "consumed": len(commands), "messages": messages}
        snapshot |= taken
        self.pending += [{"command": command} for command in commands]
        due = self.lines_written % self.settings.every == 0 or self.owed or bool(self.complaint)
        self.owed = due and not self.settled
        if due and not self.owed:
            snapshot |= self.snapshooter.take(bool(self.pages))
            snapshot["checker"] = self._check()
        self.lines_written += 1
        self.probe.clear()
        self.complaint = ""
        self.pending.append({"snapshot": snapshot})
        if due or len(self.pending) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write all pending lines at once. A write per line would cost too much."""
        if not self.pending:
            return
        pending, self.pending = self.pending, []
        try:
            self.files.write(*pending)
            if self.files.full and self.settled:
                self.next_file()
        except TooMuch as full:
            self.switch.off(str(full))
        except OSError as error:
            self.switch.off(f"{self.files.path}: {error.strerror}")

    @property
    def settled(self) -> bool:
        """True if the state can be read now. Counting deferred frees would mean reading tensors."""
        swa = self.dialect.swa
        return bool(self.pages) or not (
            self.dialect.free.deferred() or (swa is not None and swa.deferred())
        )

    def _check(self) -> dict[str, Any]:
        ran = bool(self.probe.level)
        verdict = "ok" if ran else "off"
        return {
            "ran": ran,
            "level": int(ran),
            "pools": dict(self.probe.pools),
            "verdict": "leak" if self.complaint else verdict,
            "message": self.complaint,
            **self.probe.rows,
        }

    # The end ----------------------------------------------------------------------

    def stop(self, error: Exception | None) -> None:
        """Write the remaining lines when the loop ends. An engine error becomes the last line."""
        if not self.switch.on:
            return
        complained = bool(self.complaint)
        try:
            self.write()
            self.flush()
            if error is not None and not complained:
                text = f"{type(error).__name__}: {first_line(error)}"
                self.files.write({"failed": {"how": "crash", "error": text}})
        except Exception as failure:
            self.switch.off(f"the recorder failed: {type(failure).__name__}: {failure}")
        self.switch.on = False

    def _off(self, why: str, tell: Callable[[str], None]) -> None:
        tell(f"recorder off: {why}")
        with contextlib.suppress(Exception):  # the reason may be a full disk or a bad line
            self.files.write(*self.pending)
        with contextlib.suppress(OSError):
            self.files.end(why)


def refuse(scheduler: Any) -> None:
    """Raise `UsageError` for a scheduler whose events the recorder can't follow."""
    rank = getattr(scheduler, "attn_tp_rank", getattr(scheduler, "tp_rank", 0))
    if rank:
        raise UsageError(f"rank {rank}: only the first rank of a group records")


def drafted(scheduler: Any) -> int:
    """Return how many tokens beyond one a speculative round can commit. 0: plain decoding."""
    if scheduler.spec_algorithm.is_none():
        return 0
    return max(1, int(scheduler.server_args.speculative_num_draft_tokens or 0) - 1)
