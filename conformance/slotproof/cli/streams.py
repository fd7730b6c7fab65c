"""Standard streams whose writes never fail: a reader who leaves or a full disk ends no command.

A verdict must not depend on who reads it. What can't be delivered is dropped, and remembered for
the exit status; no character is without a form in the encoding of the terminal.
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
    """A text stream whose ``write`` and ``flush`` never fail."""

    problem: OSError | None = None
    """Why the rest was not delivered."""

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
        """From here on into the void: what is still in the buffer, too, when Python exits."""
        self.problem = self.problem or error
        with contextlib.suppress(OSError):
            _to_null(self.fileno())


def install() -> None:
    """Make the streams of this process steady. Where there is none (``>&-``), there is a void:

    else the next file that is opened would take its place, and what is printed.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _to_null(number)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream: Any = getattr(sys, name)
        # (the descriptor stays open with the stream that was there)
        buffer = open(number, "wb", closefd=False) if stream is None else stream.detach()  # noqa: SIM115
        encoding = "utf-8" if stream is None else stream.encoding
        steady = Steady(buffer, encoding, "backslashreplace", line_buffering=True)
        setattr(sys, name, steady)
        setattr(sys, f"__{name}__", steady)


def flush() -> None:
    """Write out what Python still holds; who is gone does not matter any more."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # none, or closed
            stream.flush()


def settled(code: int) -> int:
    """The exit status, now that all is said.

    A reader who left (``| head -1``) changes nothing. Output that could not be written is told;
    then 0 would promise what is not there, and becomes 2. Other statuses say more, and stay.
    """
    problem = sys.stdout.problem if isinstance(sys.stdout, Steady) else None
    if problem is None or problem.errno == errno.EPIPE:
        return code
    complain(f"standard output can't be written to: {problem.strerror}")
    return USAGE if code == CONFORMS else code


def _to_null(number: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, number)  # inheritable: the streams of programs that are started
    if null != number:
        os.close(null)
