"""What commands that take long have in common: a progress bar, names of files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotproof.conformance.search.campaign import Progress as Tell


def slug(spec: str) -> str:
    """An ``--engine`` argument as part of a file's name.

    >>> slug("reference:22213-double-count")
    'reference-22213-double-count'
    """
    return re.sub(r"[^A-Za-z0-9.]+", "-", spec).strip("-")[:60]


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
