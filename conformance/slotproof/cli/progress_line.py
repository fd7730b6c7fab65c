"""How far commands are that take long: live on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotproof.search.campaign import Progress as Tell
from slotproof.support.terminal import complain, duration

EVERY = 60.0
"""Seconds from one line to the next: what takes less says nothing."""

_TICK = 1.0
"""Seconds from one look whether a line is due to the next."""


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
