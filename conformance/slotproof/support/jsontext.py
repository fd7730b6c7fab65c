"""JSON from outside: the one reader of files and of lines.

Refused: more bytes than were agreed on, nesting over 200 levels, a key that is there twice,
NaN and infinity, text that is no Unicode (a lone surrogate can't be written again).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jiter


class BadJson(ValueError):
    """No JSON that is taken here; one line that says why."""


def parse(text: bytes) -> Any:
    """The value of a JSON text in UTF-8. Raises :class:`BadJson`.

    >>> parse(b'{"a": [1, 2]}')
    {'a': [1, 2]}
    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
        ...
    slotproof.support.jsontext.BadJson: not JSON: Detected duplicate key "a" at line 1 column 14
    """
    try:
        return jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise BadJson(f"not JSON: {str(error)[:200]}") from None


def read(path: Path, most: int) -> Any:
    """The value of a file of at most so many bytes. Raises :class:`BadJson`, one line without
    the name of the file.

    >>> read(Path("nowhere.json"), 100)
    Traceback (most recent call last):
        ...
    slotproof.support.jsontext.BadJson: No such file or directory
    """
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except (OSError, ValueError) as error:  # or a name with a null character
        raise BadJson(str(getattr(error, "strerror", error))) from None
    if len(text) > most:
        raise BadJson(f"the file is too long: more than {most} bytes")
    return parse(text)
