"""Progress of long commands: a live bar on a terminal, or a line once a minute elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotproof.search.campaign import Progress as Tell
from slotproof.support.terminal import complain, duration

EVERY = 60.0
"""Seconds between two lines of progress. A shorter command prints no progress."""

_TICK = 1.0
"""Seconds between two checks that decide if a line is due."""


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Tell]:
    """Yield a function that reports progress: a bar on a terminal, lines in a pipe."""
    if not wanted:
        yield lambda *_: None
    elif sys.stderr.isatty():
        columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("starting")
            yield lambda name, n, of: bar.update(task, description=name, completed=n, total=of)
    else:
        with _lines() as tell:
            yield tell


@contextmanager
def _lines() -> Iterator[Tell]:
    """Yield a function that prints progress and elapsed time on standard error when a line is due.
    During a phase without reports, the last report is printed again."""
    begun = last = time.monotonic()
    told = "starting", 0, 0
    lock, over = threading.Lock(), threading.Event()

    def tell(*news: Any) -> None:
        nonlocal last, told
        with lock:
            name, done, total = told = news or told
            now = time.monotonic()
            if now - last >= EVERY:
                last = now
                of = f" of {total}" if total > done else ""
                complain(f"{duration(now - begun)}: {name}{f', {done}{of}' if of or done else ''}")

    def repeat() -> None:
        while not over.wait(_TICK):
            tell()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        over.set()
        thread.join()
