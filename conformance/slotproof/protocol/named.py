"""Names of configurations: names of the suite, and fields written by hand as ``FIELD=VALUE``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

from slotproof.protocol.config import CONFIGS, SERVED, BadConfig, EngineConfig

NUMBERED = re.compile(r"(pairs|triples)-\d+", re.ASCII)
"""Pattern of a configuration's name in a covering array. The array depends on the engine."""
DEFAULTS: dict[str, Any] = asdict(EngineConfig())
"""Default of each field."""


def chosen(names: Iterable[str] | None) -> dict[str, EngineConfig]:
    """Return the named configurations, or {} without names. Raises :class:`BadConfig`.

    >>> list(chosen(["p4", "p1", "pairs-01", "overlap,page_size=4"]))
    ['p4', 'p1', 'page_size=4,overlap=true']
    """
    known, wanted = CONFIGS | SERVED, dict[str, EngineConfig]()
    for name in names or ():
        if name in known:
            wanted[name] = known[name]
        elif by_hand(name) or name in DEFAULTS:
            config = read(name)
            wanted[written(config)] = config
        elif not NUMBERED.fullmatch(name):
            hint = nearest(name, [*known, *DEFAULTS])
            choices = f"there are: {', '.join(known)}; for several, repeat the option"
            raise BadConfig(f"unknown configuration {name!r}; {hint or choices}")
    return wanted


def by_hand(name: str) -> bool:
    """Return True for a list of fields. No name of a configuration has a comma or a ``=``."""
    return "=" in name or "," in name


def written(config: EngineConfig) -> str:
    """Return a configuration as text for :func:`read`: its fields that are not at their default.

    >>> written(EngineConfig(chunk=8, page_size=4, overlap=True)), written(EngineConfig())
    ('page_size=4,chunk=8,overlap=true', 'page_size=1')
    """
    fields = {name: value for name, value in asdict(config).items() if value != DEFAULTS[name]}
    texts = {name: str(value).lower() for name, value in fields.items()}
    return ",".join(f"{name}={text}" for name, text in (texts or {"page_size": "1"}).items())


def read(text: str) -> EngineConfig:
    """Return the configuration written as ``FIELD=VALUE,…``. Fields left out have their default. A
    field without a value is true. Raises :class:`BadConfig`."""
    fields: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = map(str.strip, part.partition("="))
        if name not in DEFAULTS:
            hint = nearest(name, DEFAULTS) or f"the fields are: {', '.join(DEFAULTS)}"
            raise BadConfig(f"{text!r}: there is no field {name!r}; {hint}")
        if name in fields:
            raise BadConfig(f"{text!r}: {name} is given twice")
        try:
            fields[name] = json.loads(value.lower()) if equals else True
        except ValueError:
            fields[name] = value  # The text of a choice.
    config = EngineConfig.from_json(fields)
    if reason := config.too_large():
        raise BadConfig(f"{text!r}: {reason}")
    return config


def nearest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean …?" if a known name is similar, otherwise "".

    >>> nearest("chunks", DEFAULTS), nearest("colour", DEFAULTS)
    ('did you mean chunk?', '')
    """
    close = get_close_matches(name, [*known], n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else ""
