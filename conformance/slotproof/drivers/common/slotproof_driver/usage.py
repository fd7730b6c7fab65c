"""Errors in requests. The driver reports an error in a request in one line and continues."""

from __future__ import annotations


class UsageError(Exception):
    """Error of a request with a value that is impossible for this build or this machine."""


def one_line(error: BaseException) -> str:
    """Return the exception's type and message as one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"
