"""Errors that end a command before its verdict: bad input, and bugs of our own. One line each."""

from __future__ import annotations

import traceback
from pathlib import Path

from slotproof.support import terminal

DEBUG = "SLOTPROOF_DEBUG"
"""The environment variable that stands for ``--debug``."""
_LONGEST = 300
"""Characters of what an exception says of itself."""

REPLACED = {
    "--python": "the Python follows the engine: --engine ENGINE@PYTHON",
    "--device": "the device follows the engine: --engine reference@cuda",
    "--mend": "it is --patch",
    "--mended-fails": "it is --fail-on-fixed",
    "--set-aside": "it is --ignore",
    "--envs": "the environment variable SLOTPROOF_ENVS names the folder",
    "diff": "it is replay TRACE --engine A --against B",
}
"""Options and commands that there were, and what to use instead."""


class UsageProblem(Exception):
    """What was wrong, where, what to do: one line."""


def tell_bug(error: BaseException, with_traceback: bool) -> None:
    """A bug of slotproof: what it is, and what a report of it needs."""
    if with_traceback:
        terminal.complain_text("".join(traceback.format_exception(error)))
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    what = "".join(traceback.format_exception_only(error)).strip()[:_LONGEST]
    how = "the traceback" if with_traceback else f"what {DEBUG}=1 (or slotproof --debug …) shows"
    terminal.complain(
        f"internal error{where}: {what}; this says nothing about the engine: please report it, "
        f"with the command, the files it was given, and {how}"
    )
