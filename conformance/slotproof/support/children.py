"""Programs that end with this process, however it ends, and all that they start with them.

A program runs in a process group that belongs to a *watcher*: a shell that reads from a pipe
of which nobody but this process has the other end. Ctrl-C, an exception that nobody catches,
SIGTERM, SIGKILL: the kernel closes that end, the watcher reads the end of its input and kills
its group, itself included. The program enters the group between fork and exec, and until the
exec it has a copy of that end itself, so there is no moment at which it could be left behind.

The parent-death signal of Linux would do less: it is of Linux, it comes when the *thread* that
forked ends, and what the program forks in turn does not get it. A program that leaves its
process group on purpose (`setsid`) is out of reach of both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

_WATCHER = ("/bin/sh", "-c", "trap '' HUP INT QUIT TERM; read line; kill -KILL 0")
"""Waits for the end of its input; a shell, because it starts in under a millisecond."""

Argv = Sequence[str | Path]


class Child:
    """A program that was started; it and all it starts end with :meth:`kill`, or with us.

    Options are those of :class:`subprocess.Popen`, and it raises what that raises. A stream that is
    not named is empty. Output that is read is read as bytes.

    >>> with Child(["echo", "here"], stdout=PIPE) as child:
    ...     child.process.communicate()[0]
    b'here\\n'
    """

    def __init__(self, argv: Argv, **options: Any) -> None:
        # In a group of its own, so that a terminal's Ctrl-C is for this process alone.
        reading, writing = os.pipe()
        self._life = os.fdopen(writing, "wb", buffering=0)  # closes with this object, if not before
        try:
            self._watcher = subprocess.Popen(  # noqa: S603  # always the same
                _WATCHER, stdin=reading, stdout=DEVNULL, stderr=DEVNULL, process_group=0
            )
        finally:
            os.close(reading)
        options = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL, **options}
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603  # the caller's
                list(argv), process_group=self._watcher.pid, **options
            )
        except BaseException:
            self._end_group()
            raise

    def kill(self) -> None:
        """End the program and all it started. May be called again."""
        self._end_group()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # what is not written yet is not wanted
                    stream.close()

    def _end_group(self) -> None:
        """The watcher leads the group, so its number is nobody else's until we wait for it."""
        if self._watcher.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._watcher.pid, signal.SIGKILL)
            self._watcher.wait()
        self._life.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def run(
    argv: Argv, timeout: float | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end: its status, and what it wrote. ``timeout`` is in seconds.

    >>> done = run(["sh", "-c", "echo here; exit 3"])
    >>> done.returncode, done.stdout, done.stderr
    (3, b'here\\n', b'')
    """
    with Child(argv, stdout=PIPE, stderr=PIPE, **options) as child:
        out, err = child.process.communicate(timeout=timeout)
        status = child.process.returncode
    return subprocess.CompletedProcess(list(argv), status, out, err)
