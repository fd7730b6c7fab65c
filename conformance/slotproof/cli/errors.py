"""Errors before a verdict, reported in one line: bad input, and internal errors."""

from __future__ import annotations

import traceback
from pathlib import Path

from slotproof.support import terminal

DEBUG = "SLOTPROOF_DEBUG"
"""Environment variable with the effect of ``--debug``."""
_LONGEST = 300
"""Maximum length of an exception's message, in characters."""

REPLACED = {
    "--python": "use --engine ENGINE@PYTHON",
    "--device": "use --engine reference@cuda",
    "--mend": "use --patch",
    "--mended-fails": "use --fail-on-fixed",
    "--set-aside": "use --ignore",
    "--envs": "set the environment variable SLOTPROOF_ENVS to the folder",
    "diff": "use replay TRACE --engine A --against B",
}
"""Removed options and commands, with the replacement."""


class UsageProblem(Exception):
    """A usage error, in one line: the problem, its place and the remedy."""


def tell_bug(error: BaseException, with_traceback: bool) -> None:
    """Report an internal error, with the data needed for a bug report."""
    if with_traceback:
        terminal.complain_text("".join(traceback.format_exception(error)))
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = "".join(traceback.format_exception_only(error)).strip()[:_LONGEST]
    how = "" if with_traceback else f" printed by {DEBUG}=1 or slotproof --debug …"
    terminal.complain(
        f"internal error{where}: {what}. This is a bug of slotproof, not of the engine: please "
        f"report it, with the command, its input files and the traceback{how}"
    )
