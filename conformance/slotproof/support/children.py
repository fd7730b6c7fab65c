"""Child processes that end with all their descendants when slotproof ends, even by SIGKILL.

A child runs in the process group of a *watcher*, a shell that reads from a pipe. slotproof holds
the pipe's other end. If slotproof ends, even by SIGKILL, the kernel closes that end. The watcher
then reads the end of its input and kills its whole group. The child joins the group between fork
and exec. Until the exec, the child also holds slotproof's pipe end, so no child can be left over.

Linux also has a parent-death signal, which is weaker: it comes when the forking *thread* ends, and
does not reach the child's children. A child that leaves its process group on purpose (`setsid`)
escapes both mechanisms.
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
"""Watcher command, which waits for the end of its input. A shell starts in under a millisecond."""

Argv = Sequence[str | Path]


class Child:
    r"""A running program. :meth:`kill`, or slotproof's end, ends the program and its descendants.

    Options and errors are as in :class:`subprocess.Popen`. Streams that the options do not name are
    ``/dev/null``. Output is in bytes.

    >>> with Child(["echo", "here"], stdout=PIPE) as child:
    ...     child.process.communicate()[0]
    b'here\n'
    """

    def __init__(self, argv: Argv, **options: Any) -> None:
        # The child has its own process group, so Ctrl-C on a terminal reaches only slotproof.
        reading, writing = os.pipe()
        self._life = os.fdopen(writing, "wb", buffering=0)  # also closes with self
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
        """End the program and all its descendants. A second call does nothing."""
        self._end_group()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # unwritten input does not matter
                    stream.close()

    def _end_group(self) -> None:
        """Kill the watcher's group. The number stays reserved until ``wait`` reaps the watcher."""
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
    r"""Run a program to its end. Return its status and output. ``timeout`` is in seconds.

    >>> done = run(["sh", "-c", "echo here; exit 3"])
    >>> done.returncode, done.stdout, done.stderr
    (3, b'here\n', b'')
    """
    with Child(argv, stdout=PIPE, stderr=PIPE, **options) as child:
        out, err = child.process.communicate(timeout=timeout)
        status = child.process.returncode
    return subprocess.CompletedProcess(list(argv), status, out, err)
