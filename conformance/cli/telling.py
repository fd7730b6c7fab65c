"""The progress bar of commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from slotproof.conformance.search.campaign import Progress as Tell
from slotproof.conformance.terminal import plain


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Tell]:
    """A bar on a terminal; nothing in a pipe."""
    if not wanted or not sys.stderr.isatty():
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting")

        def tell(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield tell


class StatusLine:
    """A line on a terminal that is written over; nothing in a pipe."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def show(self, text: str) -> None:
        """The line, as long as there is room for."""
        if not sys.stderr.isatty():
            return
        if self._live is None:
            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Text(plain(text), no_wrap=True, overflow="ellipsis"), refresh=True)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Out of the way while something else is said."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
        yield


@contextmanager
def status_line() -> Iterator[StatusLine]:
    """A line of progress that is gone at the end."""
    line = StatusLine()
    try:
        yield line
    finally:
        with line.hidden():
            pass
