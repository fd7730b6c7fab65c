"""The environment of a release, made where it is missing; its progress is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from slotproof.environments.families import parse
from slotproof.environments.making import Check, Maker
from slotproof.environments.processes import Tell
from slotproof.environments.store import Entry, Store
from slotproof.support.terminal import complain, plain


@contextmanager
def telling(title: str) -> Iterator[Tell]:
    """Yields what is told each step: a line that moves on a terminal, else one line.

    Says nothing at all where nothing is told.
    """
    if not sys.stderr.isatty():
        once = cache(complain)
        yield lambda _: once(title)
        return
    console = Console(stderr=True)

    def fitting(text: str) -> str:
        return escape(plain(text)[: max(20, console.width - 4)])

    with console.status(fitting(title)) as line:
        yield lambda step: line.update(fitting(f"{title}: {step}"))


def environment(
    name: str, store: Store, check: Check, python: Path | None = None, again: bool = False
) -> Entry:
    """The environment called ``ENGINE==RELEASE``, made first where it is missing.

    ``check`` starts it then. Raises :class:`EnvironmentProblem`.
    """
    family, release = parse(name)
    with telling(f"making the environment of {name} in {store.folder}, once") as tell:
        return Maker(family, store, check, tell).ensure(release, python, again)
