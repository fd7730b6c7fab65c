"""Processes that a test starts: what they say, and what is there of them and of their own."""

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
    """A program run to its end, which comes with ours; options as of :func:`children.run`."""
    done = children.run(argv, **options)
    out, err = (each.decode(errors="replace") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


class Descent:
    """Processes that carry a mark in their environment, which whatever they start inherits."""

    def __init__(self) -> None:
        self._mark = uuid.uuid4().hex
        self.environment = {**os.environ, _NAME: self._mark}

    def alive(self) -> dict[int, str]:
        """Their numbers and command lines. Those that only wait to be collected are gone."""
        mark = f"{_NAME}={self._mark}".encode()
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and mark in (folder / "environ").read_bytes():
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    found[int(folder.name)] = b" ".join(words).decode(errors="replace")[:200]
            except OSError:
                continue  # it went away, or is another user's
        return found

    def end(self) -> None:
        """Kill what is left."""
        for pid in self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def outlive(self, seconds: float) -> dict[int, str]:
        """Those that are there when the time is over, or none as soon as there is none."""
        deadline = time.monotonic() + seconds
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found
