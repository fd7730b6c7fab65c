"""What is given to the command line, and the changes that every kind of it can have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz.mutations import broken, changed, doubled
from tests.fuzz.odd import LIGHT, dumps, raw

FILE, FOLDER, OUT, SCRIPT = "{file}", "{folder}", "{out}", "{script}"
"""Stand in an argument for the input's path, the folder it is in where that is what is named, a
path that may be written, and the life's commands."""


@dataclass(frozen=True)
class Input:
    """What is given to the command line."""

    kind: str
    data: bytes
    argv: tuple[str, ...]
    life: str = ""
    """Whose commands are said to the driver."""
    wrong: str = ""
    """The figure that was changed: no verdict may be that this conforms."""
    right: bool = False
    """Nothing was changed: it conforms."""

    @property
    def path(self) -> str:
        """Where it is, from a folder of its own."""
        return "journal/reference-seed0.journal.jsonl" if self.kind == "journals" else "input.json"


def any_odd(rng: Random) -> str:
    """A value that does not belong."""
    return raw(rng.choice(LIGHT))


def text_changed(rng: Random, data: bytes, sense: Callable[[Random, Any], Any]) -> bytes:
    """A JSON text with some changes."""
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
