"""What no file may start: an engine of the file's choice."""

from __future__ import annotations

from typing import NoReturn


class Ran(BaseException):
    """Code of the file's choice was run."""


def spring(*_: object, **__: object) -> NoReturn:
    """Say so."""
    raise Ran("a function that a file named as an engine")
