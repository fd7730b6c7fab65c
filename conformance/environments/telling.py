"""Progress of work that takes a minute: a line that moves on a terminal, else one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from slotproof.conformance.environments.processes import Tell


@contextmanager
def telling(title: str) -> Iterator[Tell]:
    """Yields what is told each step. Says nothing at all where nothing is told."""
    if sys.stderr.isatty():
        console = Console(stderr=True)
        with console.status(escape(title)) as line:
            yield lambda step: line.update(escape(f"{title}: {step}"[: max(20, console.width - 4)]))
        return
    told: list[str] = []

    def once(step: str) -> None:
        if not told:
            sys.stderr.write(f"slotproof: {title}\n")
            sys.stderr.flush()
        told.append(step)

    yield once
