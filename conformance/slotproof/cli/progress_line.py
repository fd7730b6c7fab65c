"""How far commands are that take long: live on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from slotproof.campaigns.following import Show
from slotproof.campaigns.state import CampaignState
from slotproof.search.campaign import Progress as Tell
from slotproof.support.terminal import complain, duration, plain

EVERY = 60.0
"""Seconds from one line to the next: what takes less says nothing."""

_TICK = 1.0
"""Seconds from one look whether a line is due to the next."""
_REFRESH = 0.25
_SHOWN = 8
"""Findings on a terminal."""


class Lines:
    """A plain line on standard error now and then, with the time that has passed."""

    def __init__(self) -> None:
        self.begun = self.last = time.monotonic()
        self._line: Callable[[], str] = lambda: "starting"
        self._lock, self._over = threading.Lock(), threading.Event()

    def tell(self, line: Callable[[], str]) -> None:
        """Made and written if it is time for one."""
        with self._lock:
            self._line = line
            now = time.monotonic()
            if now - self.last >= EVERY:
                self.last = now
                complain(f"{duration(now - self.begun)}: {line()}")

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """The last line again where a phase tells nothing for so long."""

        def repeat() -> None:
            while not self._over.wait(_TICK):
                self.tell(self._line)

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Tell]:
    """A bar on a terminal; a line now and then in a pipe."""
    if not wanted:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        lines = Lines()
        with lines.repeated():
            yield lambda *told: lines.tell(lambda: _counted(*told))
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting")

        def tell(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield tell


def _counted(name: str, done: int, total: int) -> str:
    if total > done:
        return f"{name}, {done} of {total}"
    return f"{name}, {done}" if done else name


@contextmanager
def campaign_view(wanted: bool, examples: int | None) -> Iterator[Show]:
    """Figures of a campaign, live on a terminal; a line now and then in a pipe."""
    if not wanted:
        yield lambda *_: None
        return
    if not sys.stderr.isatty():
        lines = Lines()
        yield lambda state, running: lines.tell(lambda: _in_a_line(state, running, examples))
        return
    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        last = [0.0]

        def show(state: CampaignState, running: int) -> None:
            if time.monotonic() - last[0] > _REFRESH:
                last[0] = time.monotonic()
                text = "\n".join(map(plain, _in_lines(state, running, examples)))
                live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

        yield show


def _in_a_line(state: CampaignState, running: int, examples: int | None) -> str:
    done = state.done + running
    of = f" of {examples}" if examples else ""
    found = len(state.findings.all())
    return (
        f"{done}{of} examples, {state.features} features, {found} "
        f"{'finding' if found == 1 else 'findings'}"
    )


def _in_lines(state: CampaignState, running: int, examples: int | None) -> Iterator[str]:
    """What fits into a corner of the terminal."""
    yield f"{state.head.title}, round {state.rounds + 1}, {duration(state.seconds)} of work"
    yield _in_a_line(state, running, examples)
    if state.new.examples:
        yield f"last new feature by example {state.new.examples}"
    for each in state.findings.all()[:_SHOWN]:
        small = "" if each.trace.minimal else ", being made small"
        yield f"  {each.id}: {len(each.trace.rows)} commands{small}"
