"""Programs that make environments: run to the end, watched line by line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from subprocess import PIPE

from slotproof.support import bounds
from slotproof.support.children import Child
from slotproof.support.draining import Drain, Ends

Tell = Callable[[str], None]
"""Is told, in a few words, what is being done right now."""


@dataclass(frozen=True)
class Done:
    """How a program ended; ``text`` is its standard output, then its standard error,
    of which the middle is left out where they are very long."""

    status: int
    text: str

    @property
    def lines(self) -> list[str]:
        """Those with something on them."""
        return [line.strip() for line in self.text.splitlines() if line.strip()]


Runner = Callable[[Sequence[str], Sequence[int], Tell], Done]
"""Runs a program, which inherits some file descriptors."""


def clean_environment() -> dict[str, str]:
    """This process' variables, without those that would lead another Python astray."""
    astray = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in astray}


def run(argv: Sequence[str], keep_open: Sequence[int], tell: Tell) -> Done:
    """Run a program to its end; it and all it started are killed if this is interrupted.

    It inherits the file descriptors ``keep_open``.
    """
    first, last = bounds.INSTALLER_FIRST, bounds.INSTALLER_LAST
    try:
        child = Child(argv, stdout=PIPE, stderr=PIPE, env=clean_environment(), pass_fds=keep_open)
    except OSError as error:
        return Done(127, f"{argv[0]}: {error.strerror}")
    with child:
        out, process = Ends(first, last), child.process
        assert process.stdout and process.stderr
        with contextlib.closing(Drain(process.stderr, first, last)) as errors:
            while line := process.stdout.readline(first):
                out.add(line)
                tell(line.decode(errors="replace").strip())
            return Done(process.wait(), out.text() + errors.text())
