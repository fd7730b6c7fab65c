"""Progress of work that takes a minute: a line that moves on a terminal, else one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from slotproof.conformance.environments.processes import Tell
from slotproof.conformance.terminal import complain, plain


@contextmanager
def telling(title: str) -> Iterator[Tell]:
    """Yields what is told each step. Says nothing at all where nothing is told."""
    if sys.stderr.isatty():
        console = Console(stderr=True)

        def fitting(text: str) -> str:
            return escape(plain(text)[: max(20, console.width - 4)])

        with console.status(fitting(title)) as line:
            yield lambda step: line.update(fitting(f"{title}: {step}"))
        return
    told: list[str] = []

    def once(step: str) -> None:
        if not told:
            complain(title)
        told.append(step)

    yield once
