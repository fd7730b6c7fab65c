"""Processes started by a test: their output, and their surviving children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from slotproof.support import children
from slotproof.support.children import Argv

_NAME = "SLOTPROOF_TEST_DESCENT"


def finished(argv: Argv, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, which comes with ours. Options as for :func:`children.run`."""
    done = children.run(argv, **options)
    out, err = (output.decode(errors="replace") for output in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


class Descent:
    """Processes with a variable in their environment. Every child inherits it."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self.environment = {**os.environ, _NAME: self._mark}

    def alive(self) -> dict[int, str]:
        """Return process IDs and command lines. Zombies do not count."""
        mark = f"{_NAME}={self._mark}".encode()
        commands = {}
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and mark in (folder / "environ").read_bytes():
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    commands[int(folder.name)] = b" ".join(words).decode(errors="replace")[:200]
            except OSError:
                continue  # It has ended, or belongs to another user.
        return commands

    def end(self) -> None:
        """Kill the remaining processes."""
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def outlive(self, seconds: float) -> dict[int, str]:
        """Return the processes still alive after ``seconds``. Returns early once none is left."""
        deadline = time.monotonic() + seconds
        while (remaining := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return remaining
