"""Bait: an engine named by a file. Reading a file must never start it."""

from __future__ import annotations

from typing import ClassVar, NoReturn


class Ran(BaseException):
    """Raised when code named by a file runs. ``last`` survives if the command line catches it."""

    last: ClassVar[str] = ""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        type(self).last = what


def spring(*_: object, **__: object) -> NoReturn:
    """Raise :class:`Ran`."""
    raise Ran("a function named by the file as its engine")
