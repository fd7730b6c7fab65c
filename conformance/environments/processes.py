"""Programs that make environments: run to the end, watched line by line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

Tell = Callable[[str], None]
"""Is told, in a few words, what is being done right now."""


@dataclass(frozen=True)
class Done:
    """How a program ended; ``text`` is its standard output, then its standard error."""

    status: int
    text: str


class Runner(Protocol):
    """Runs a program. ``keep_open`` is a file descriptor that the program inherits."""

    def __call__(self, argv: Sequence[str], keep_open: int, tell: Tell) -> Done: ...


def clean_environment() -> dict[str, str]:
    """This process' variables, without those that would lead another Python astray."""
    astray = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in astray}


def run(argv: Sequence[str], keep_open: int, tell: Tell) -> Done:
    """Run a program to its end; the program is killed if this is interrupted."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        try:
            process = subprocess.Popen(  # noqa: S603  # programs of the environment
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                env=clean_environment(),
                pass_fds=(keep_open,),
            )
        except OSError as error:
            return Done(127, f"{argv[0]}: {error.strerror}")
        lines = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                tell(line.strip())
            status = process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        errors.seek(0)
        return Done(status, "".join(lines) + errors.read())
