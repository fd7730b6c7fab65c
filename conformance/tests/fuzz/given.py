"""Inputs of the command line, and changes common to all kinds of input."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz.mutations import broken, changed, doubled
from tests.fuzz.odd import LIGHT, dumps, raw

FILE, FOLDER, OUT, SCRIPT = "{file}", "{folder}", "{out}", "{script}"
"""Placeholders in an argument: the input's path, its folder, a path for output, and the life's
commands."""


@dataclass(frozen=True)
class Input:
    """An input: a file, and the command line that reads it."""

    kind: str
    data: bytes
    argv: tuple[str, ...]
    life: str = ""
    """Name of the life with the commands for the driver."""
    wrong: str = ""
    """The changed figure. The verdict must not be "conforms"."""
    right: bool = False
    """True if nothing was changed: the verdict must be "conforms"."""

    @property
    def path(self) -> str:
        """Path of the file in the input's own folder."""
        return "journal/reference-seed0.journal.jsonl" if self.kind == "journals" else "input.json"


def any_odd(rng: Random) -> str:
    """Return an unexpected value."""
    return raw(rng.choice(LIGHT))


def text_changed(rng: Random, data: bytes, sense: Callable[[Random, Any], Any]) -> bytes:
    """Return a JSON text with some changes."""
    way = rng.randrange(20)
    if way == 0:
        return broken(rng, data)
    value = json.loads(data)
    if way < 9:
        value = sense(rng, value)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            value = changed(rng, value)
    text = dumps(value)
    if way == 19:
        text = doubled(rng, text)
    return text.encode("utf-8", "surrogatepass")
