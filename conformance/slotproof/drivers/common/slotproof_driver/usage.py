"""What makes no sense, or can't be had: one line, and the driver goes on."""

from __future__ import annotations


class UsageError(Exception):
    """The request can't be met here: a value this build or this machine can't take."""


def one_line(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"
