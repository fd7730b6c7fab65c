"""A driver's process: lines in, lines out, what it writes on standard error kept."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence

from slotproof.conformance.engines.base import EngineFailed, EngineUnusable

LONGEST = 1 << 26
"""Bytes of a line at most: a driver that never ends one must not fill the memory."""
KEPT = 4000
"""Characters of standard error that a failure carries: the last ones."""


class Pipe:
    """One run of a driver, in a process group of its own. Times are in seconds.

    Every failure is an :class:`EngineFailed` that carries the end of standard error.
    """

    def __init__(self, argv: Sequence[str], env: dict[str, str] | None = None) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the driver
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the user names the program
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._stderr.close()
            reason = error.strerror if isinstance(error, OSError) else error
            raise EngineUnusable(f"can't start {argv[0]}: {reason}") from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        self._buffer = b""

    def send(self, line: str, timeout: float) -> None:
        """Write a line. A driver that does not read it is a hang."""
        rest = memoryview(line.encode() + b"\n")
        deadline = time.monotonic() + timeout
        while rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [self._in], [], left)[1]:
                raise self.failed("hang", f"it does not read: no line taken within {timeout:g} s")
            try:
                rest = rest[os.write(self._in, rest) :]
            except OSError:
                raise self.failed("crash", self._ended()) from None

    def line(self, timeout: float) -> bytes:
        """The next line of standard output, without its end."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._out], [], [], left)[0]:
                raise self.failed("hang", f"no answer within {timeout:g} s")
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise self.failed("crash", self._ended())
            self._buffer += chunk
            if len(self._buffer) > LONGEST:
                raise self.failed("crash", f"garbage on the wire: a line of over {LONGEST} bytes")
        line, self._buffer = self._buffer.split(b"\n", 1)
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
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stderr.close()

    def stderr(self) -> str:
        """The last of what the driver wrote on standard error."""
        end = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, end - 4 * KEPT))
        return self._stderr.read().decode(errors="replace")[-KEPT:]

    def failed(self, how: str, text: str) -> EngineFailed:
        """A failure, with what the driver said on standard error."""
        return EngineFailed("hang" if how == "hang" else "crash", text, self.stderr())

    def _ended(self) -> str:
        """How the driver ended, once its end of a pipe is closed."""
        status = self.wait(1.0)
        if status is None:
            return "the driver closed its output and goes on"
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"the driver was ended by {signal.Signals(-status).name}"
        return f"the driver exited with status {status}"
