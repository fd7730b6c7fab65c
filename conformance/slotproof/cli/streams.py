"""Standard streams whose writes never fail: a closed pipe or a full disk ends no command.

A verdict must not depend on its reader. Output that cannot be written is dropped, and the failed
write may change the exit status. A character outside the terminal's encoding is escaped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from io import TextIOWrapper
from typing import Any

from slotproof.support.statuses import CONFORMS, USAGE
from slotproof.support.terminal import complain


class Steady(TextIOWrapper):
    """Text stream whose ``write`` and ``flush`` never fail."""

    problem: OSError | None = None
    """Error that stopped the delivery of output, or None."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Discard all further output, including the buffer that Python flushes at exit."""
        self.problem = self.problem or error
        with contextlib.suppress(OSError):
            _to_null(self.fileno())


def install() -> None:
    """Replace the standard streams by :class:`Steady` streams. A closed stream (``>&-``) is opened
    on the null device. Otherwise the next opened file would get the closed stream's number and
    output."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _to_null(number)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream: Any = getattr(sys, name)
        # A detached stream leaves its descriptor open.
        buffer = open(number, "wb", closefd=False) if stream is None else stream.detach()  # noqa: SIM115
        encoding = "utf-8" if stream is None else stream.encoding
        steady = Steady(buffer, encoding, "backslashreplace", line_buffering=True)
        setattr(sys, name, steady)
        setattr(sys, f"__{name}__", steady)


def flush() -> None:
    """Write out Python's buffers. A closed pipe is ignored."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # missing, or closed
            stream.flush()


def settled(code: int) -> int:
    """Return the exit status after all output. A reader that left (``| head -1``) does not change
    it. Every other failed write is reported, and turns status 0 into 2. Statuses above 0 stay,
    because they state more."""
    problem = sys.stdout.problem if isinstance(sys.stdout, Steady) else None
    if problem is None or problem.errno == errno.EPIPE:
        return code
    complain(f"standard output can't be written to: {problem.strerror}")
    return USAGE if code == CONFORMS else code


def _to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, number)  # inheritable by the programs started later
    if null != number:
        os.close(null)
