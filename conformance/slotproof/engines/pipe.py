"""A driver's process: lines in, lines out, what it writes on standard error kept."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from subprocess import PIPE

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.support import bounds
from slotproof.support.children import Child
from slotproof.support.draining import Drain


class Pipe:
    """One run of a driver, which ends with us and takes along all it started. Times in seconds.

    Every failure is an :class:`EngineFailed` that carries the beginning and the end of
    standard error.
    """

    def __init__(self, argv: Sequence[str], env: dict[str, str] | None = None) -> None:
        try:
            self._child = Child(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise EngineUnusable(f"can't start {argv[0]}: {reason}") from None
        self._process = self._child.process
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._errors = Drain(self._process.stderr, bounds.STDERR_FIRST, bounds.STDERR_LAST)
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._buffer = bytearray()

    def send(self, line: str, timeout: float) -> None:
        """Write a line. A driver that does not read it is a hang."""
        rest = memoryview(line.encode() + b"\n")
        deadline = time.monotonic() + timeout
        while rest:
            if not _ready(self._in, select.POLLOUT, deadline):
                raise self.failed("hang", f"it does not read: no line taken within {timeout:g} s")
            try:
                rest = rest[os.write(self._in, rest) :]
            except OSError:
                raise self.failed("death", self._ended()) from None

    def line(self, timeout: float) -> bytes:
        """The next line of standard output, without its end."""
        deadline = time.monotonic() + timeout
        looked = 0
        while (end := self._buffer.find(b"\n", looked)) < 0:
            looked = len(self._buffer)
            if looked > bounds.LINE_BYTES:
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
        """Close the driver's standard input; nothing can be sent after that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(self, timeout: float) -> int | None:
        """The exit status, or ``None`` where the driver is still there after the time."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the driver and all it started. May be called again."""
        self._child.kill()
        self._errors.close()

    def stderr(self) -> str:
        """What the driver wrote on standard error: the beginning and the end."""
        return self._errors.text()

    def failed(self, fault: str, text: str) -> EngineFailed:
        """A failure of the driver, with what it said on standard error."""
        return EngineFailed(
            "hang" if fault == "hang" else "crash", text, self.stderr(), fault=fault
        )

    def _ended(self) -> str:
        """How the driver ended, once its end of a pipe is closed."""
        if (status := self.wait(1.0)) is None:
            return "the driver closed its output and goes on"
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"the driver was ended by {signal.Signals(-status).name}"
        return f"the driver exited with status {status}"


def _ready(descriptor: int, event: int, deadline: float) -> bool:
    """Wait until it can be read or written; `select.select` is for numbers below 1024."""
    poll, left = select.poll(), deadline - time.monotonic()
    poll.register(descriptor, event)
    return left > 0 and bool(poll.poll(math.ceil(left * 1000)))
