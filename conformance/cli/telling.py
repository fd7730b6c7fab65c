"""The progress bar of commands that take long."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotproof.conformance.search.campaign import Progress as Tell


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
