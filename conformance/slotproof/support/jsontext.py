"""The only module that parses JSON from outside slotproof.

The module refuses overlong files, more than 200 nested levels, duplicate keys, NaN and infinity.
The module also refuses lone surrogates, because UTF-8 can't represent them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jiter


class BadJson(ValueError):
    """JSON that slotproof refuses. The message gives the reason in one line."""


def parse(text: bytes) -> Any:
    """Return the value of a JSON text, given in UTF-8. Raises :class:`BadJson`.

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
    """Return the value of a JSON file of at most ``most`` bytes. Raises :class:`BadJson`, with one
    line that does not name the file.

    >>> read(Path("nowhere.json"), 100)
    Traceback (most recent call last):
        ...
    slotproof.support.jsontext.BadJson: No such file or directory
    """
    try:
        with path.open("rb") as file:
            text = file.read(most + 1)
    except (OSError, ValueError) as error:  # A name with a null character raises ValueError.
        raise BadJson(str(getattr(error, "strerror", error))) from None
    if len(text) > most:
        raise BadJson(f"the file is too long: more than {most} bytes")
    return parse(text)
