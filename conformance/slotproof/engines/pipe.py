"""Connection to a driver's process. ``Pipe`` exchanges lines and stores the standard error."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from subprocess import PIPE
from typing import IO

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.support import bounds
from slotproof.support.children import Child

_PIPE_BYTES = 1 << 20
"""Largest capacity of a pipe in bytes, unless the administrator raised the limit (pipe(7))."""
_CHUNK = 1 << 16


class Pipe:
    """One run of a driver. The driver and its children end with this process. Times are in seconds.

    Every failure is an :class:`EngineFailed` with the beginning and end of standard error.
    """

    def __init__(self, argv: Sequence[str], env: dict[str, str] | None = None) -> None:
        try:
            self._child = Child(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            hint = "; give the path of the driver's program" * isinstance(error, FileNotFoundError)
            raise EngineUnusable(f"can't start {argv[0]}: {reason}{hint}") from None
        self._process = self._child.process
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._errors = Drain(self._process.stderr, bounds.STDERR_FIRST, bounds.STDERR_LAST)
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._buffer = bytearray()

    def send(self, line: str, timeout: float) -> None:
        """Write a line. If the driver does not read the line in time, the failure is a hang."""
        rest = memoryview(line.encode() + b"\n")
        deadline = time.monotonic() + timeout
        while rest:
            if not _ready(self._in, select.POLLOUT, deadline):
                raise self.failed("hang", f"the driver does not read a line within {timeout:g} s")
            try:
                rest = rest[os.write(self._in, rest) :]
            except OSError:
                raise self.failed("death", self._ended()) from None

    def line(self, timeout: float) -> bytes:
        """Return the next line of standard output, without the newline."""
        deadline = time.monotonic() + timeout
        looked = 0
        while (end := self._buffer.find(b"\n", looked)) < 0:
            if (looked := len(self._buffer)) > bounds.LINE_BYTES:
                text = f"garbage on the wire: a line of over {bounds.LINE_BYTES} bytes"
                raise self.failed("garbage", text)
            if not _ready(self._out, select.POLLIN, deadline):
                raise self.failed("hang", f"no answer within {timeout:g} s")
            if not (chunk := os.read(self._out, 1 << 16)):
                raise self.failed("death", self._ended())
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def end_input(self) -> None:
        """Close the driver's standard input. Nothing can be sent afterwards."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(self, timeout: float) -> int | None:
        """Return the exit status, or None if the driver still runs after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the driver and its children. Further calls do nothing."""
        self._child.kill()
        self._errors.close()

    def stderr(self) -> str:
        """Return the beginning and the end of the driver's standard error."""
        return self._errors.text()

    def failed(self, fault: str, text: str) -> EngineFailed:
        """Return an :class:`EngineFailed` with the driver's standard error."""
        stderr = self.stderr()
        return EngineFailed("hang" if fault == "hang" else "crash", text, stderr, fault=fault)

    def _ended(self) -> str:
        """Describe how the driver ended. Call this method after a pipe to the driver has closed."""
        if (status := self.wait(1.0)) is None:
            return "the driver closed its output but still runs"
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"the driver was ended by {signal.Signals(-status).name}"
        return f"the driver exited with status {status}"


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    """Return True if a descriptor is ready in time. ``select.select`` fails from number 1024."""
    poll, left = select.poll(), deadline - time.monotonic()
    poll.register(descriptor, event)
    return left > 0 and bool(poll.poll(math.ceil(left * 1000)))


class Ends:
    r"""The first and the last bytes of a stream of any length.

    >>> ends = Ends(3, 4)
    >>> ends.add(b"abcdefg")
    >>> ends.text()
    'abcdefg'
    >>> ends.add(b"hijk")
    >>> ends.text()
    'abc\n… 4 bytes left out …\nhijk'
    """

    def __init__(self, first: int, last: int) -> None:
        self._room, self._last = first, last
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail += chunk[fits:]
        over = max(0, len(self._tail) - self._last)
        del self._tail[:over]
        self._dropped += over

    def text(self) -> str:
        """Return the stored bytes. A line in the gap gives the number of dropped bytes."""
        gap = f"\n… {self._dropped} bytes left out …\n" if self._dropped else ""
        return (self._head + gap.encode() + self._tail).decode(errors="replace")


class Drain:
    """Reader of a pipe in a separate thread, so that the program at the other end never blocks."""

    def __init__(self, stream: IO[bytes], first: int, last: int) -> None:
        self._from = os.dup(stream.fileno())
        stream.close()
        os.set_blocking(self._from, False)
        self._ends = Ends(first, last)
        self._lock = threading.Lock()
        self._over = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        poll = select.poll()
        poll.register(self._from, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while not self._over and self._woken not in dict(poll.poll()):
            with self._lock:
                self._take()

    def _take(self) -> bool:
        """Read one chunk. Return True if the pipe had a chunk. The caller holds the lock."""
        if self._over:
            return False
        try:
            chunk = os.read(self._from, _CHUNK)
        except BlockingIOError:
            return False
        self._over = not chunk
        self._ends.add(chunk)
        return bool(chunk)

    def text(self) -> str:
        """Return the output up to now. Includes the last output of a program that has ended.

        If the program still writes, at most the capacity of one pipe is read.
        """
        with self._lock:
            taken = 0
            while taken < _PIPE_BYTES and self._take():
                taken += _CHUNK
            return self._ends.text()

    def close(self) -> None:
        """Read the remaining output and stop the thread. Further calls do nothing."""
        if self._wake < 0:
            return
        self.text()
        wake, self._wake = self._wake, -1
        os.close(wake)
        self._thread.join()
        self._over = True
        os.close(self._woken)
        os.close(self._from)
