"""Command lines of servers, read with a family's table of flags (``flags.toml``).

The table maps each flag of the server to fields of a configuration, ignores or refuses it. The
server's sizes are scaled to sizes that a search can fill.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.named import nearest, written
from slotproof.support.terminal import labelled

CONTEXT, LARGE, RUNNING = 48, 128, 6
"""Scaled context, largest context that is not scaled, and largest number of running requests. The
prompts of a search fill no more."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_NUMBER = re.compile(r"(-?\d{1,12}(?:\.\d{1,9})?)([kmgKMG]?)", re.ASCII)
_FLAG = re.compile(r"--?[A-Za-z]")


@dataclass(frozen=True)
class Flag:
    """Effect of a flag on a configuration. Fields get the flag's number × ``times`` − ``less``."""

    fields: tuple[str, ...] = ()
    times: float = 1
    less: int = 0
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields by value of the flag. A flag with the value "" takes none."""
    needs: str = ""
    """Flag without which this flag is refused."""
    refused: str = "the driver has no such value"
    """Reason why other values are refused."""
    note: str = ""

    def of(self, value: str) -> Mapping[str, Any] | None:
        """Return the fields that a value sets, or None for a refused value."""
        number = _NUMBER.fullmatch(value) if self.fields else None
        if value in self.values or number is None:
            return self.values.get(value)
        given = round(float(number[1]) * _UNITS[number[2]] * self.times) - self.less
        return dict.fromkeys(self.fields, given)


@dataclass(frozen=True)
class Table:
    """Flags of a family's server."""

    release: str
    """Release whose flags the table lists."""
    programs: tuple[str, ...]
    """Last words of the server's program. A model may follow."""
    page_sizes: tuple[int, ...]
    """Page sizes of the driver. Another page size is scaled to the next smaller one."""
    server: Mapping[str, Any]
    """Fields of a server without flags. ``pages`` is the pool's size in pages."""
    flags: Mapping[str, Flag]
    aliases: Mapping[str, str]
    refused: Mapping[str, tuple[str, ...]]
    """Flags by the reason why they are refused."""
    ignored: Mapping[str, tuple[str, ...]]


class Reading(NamedTuple):
    """Command line, read flag by flag: lines of a report, refused flags, and fields to scale."""

    lines: list[str]
    refused: list[str]
    fields: dict[str, Any]


def load(path: Path) -> Table:
    """Return the table in a file."""
    return TypeAdapter(Table).validate_python(tomllib.loads(path.read_text(encoding="utf-8")))


def read(table: Table, text: str) -> Reading:
    """Read a command line. Raises :class:`BadConfig` for a text that is no command line."""
    given = [*_split(table, text)]
    last, fields = dict(given), dict[str, Any]()
    said = [_unmapped(table, *pair) for pair in given if pair[0] not in table.flags]
    for name, flag in table.flags.items():  # In the table's order, a later flag overrides.
        if name in last:
            shown, made = f"{name} {last[name]}".strip(), flag.of(last[name])
            if made is None or (flag.needs and flag.needs not in last):
                why = flag.refused if made is None else f"it needs {flag.needs}"
                said.append(("refuses", f"{shown}: {why}"))
            else:
                fields |= made
                notes = filter(None, (_fields(made) or "as the driver runs", flag.note))
                said.append(("maps", f"{shown}: {'; '.join(notes)}"))
    assumed = {name: value for name, value in table.server.items() if name not in fields}
    lines = [labelled(*line) for line in [*said, ("assumes", _fields(assumed))] if line[1]]
    return Reading(lines, [line for kind, line in said if kind == "refuses"], assumed | fields)


def _fields(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={str(value).lower()}" for name, value in fields.items())


def _unmapped(table: Table, name: str, value: str) -> tuple[str, str]:
    """Return the line about a flag that sets no field."""
    for kind, listed in (("refuses", table.refused), ("ignores", table.ignored)):
        for reason, names in listed.items():
            if {name, name.partition(".")[0]} & {*names}:
                return kind, f"{name} {value}".strip() + f": {reason}"
    if not name.startswith("-"):
        return "ignores", f"{name} {value}".strip() + ": the table has no such argument"
    known = [*table.flags, *table.aliases, *sum(table.ignored.values(), ())]
    return "refuses", f"{name}: unknown flag; {nearest(name, known) or 'leave it out'}"


def _split(table: Table, text: str) -> Iterator[tuple[str, str]]:
    """Yield each variable, flag and model of a command line with its value."""
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise BadConfig(f"{text!r} is no command line: {error}") from None
    head = takewhile(lambda word: not word.startswith("--"), words)
    places = [at for at, word in enumerate(head, 1) if Path(word).name in table.programs]
    begin = places[-1] if places else 0
    for variable in (word for word in words[:begin] if re.match("[A-Z]", word) and "=" in word):
        yield variable.partition("=")[0], variable.partition("=")[2]
    words = words[begin:]
    while words:
        name, equals, value = words.pop(0).partition("=")
        if not _FLAG.match(name):
            if not begin:
                raise BadConfig(f"{name!r} is no flag, and no flag before it takes it as a value")
            begin = 0  # A program takes one model.
            yield name + equals + value, ""
            continue
        stem, dot, key = name.partition(".")
        stem = stem.replace("_", "-")
        name = table.aliases.get(stem, stem) + dot + key
        flag = table.flags.get(name)
        most = 0 if equals or (flag and "" in flag.values) else 1 if flag else len(words)
        while most and words and not _FLAG.match(words[0]):
            value, most = f"{value} {words.pop(0)}".strip(), most - 1
        has_keys = any(other.startswith(f"{name}.") for other in table.flags)
        yield from _keys(name, value) if has_keys else [(name, value)]


def _keys(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield a flag for each key of a JSON object."""
    try:
        keys = dict(json.loads(value))
    except (ValueError, TypeError):
        raise BadConfig(f"{name} {value}: the value must be a JSON object") from None
    for key, one in keys.items():
        yield f"{name}.{key}", one if isinstance(one, str) else json.dumps(one)


def configuration(table: Table, fields: Mapping[str, Any]) -> tuple[EngineConfig, list[str]]:
    """Return the configuration, with sizes that have the same relations as the server's sizes, and
    lines about it. Raises :class:`BadConfig`."""
    given = {"draft": 0, "queue": 0, **fields}
    given.setdefault("total_tokens", given.pop("pages", 0) * given["page_size"])
    context, chunk = given["context_len"], given["chunk"]
    page = max((size for size in table.page_sizes if size <= given["page_size"]), default=1)
    running = min(given["max_running"], RUNNING)
    length = context if context <= LARGE else max(CONTEXT, 3 * page)
    factor = length / max(context, 1)
    pool = min(round(given["total_tokens"] * factor), max(4, running) * length)
    if chunk >= given["max_running"] * context:
        chunk = 0  # Such a chunk holds every prompt.
    elif context > LARGE:
        rounds = min(running * (given["draft"] + 1), length // 2)
        least = max(4, page, round(chunk * factor), rounds)
        chunk = min(chunk, -(-least // page) * page)
    made = given | {
        "page_size": page,
        "context_len": length,
        "total_tokens": max(page, pool // page * page),
        "chunk": chunk,
        "max_running": running,
        "rows": min(given["rows"], running),
        "queue": min(given["queue"], RUNNING),
    }
    config = EngineConfig.from_json(made)
    scaled = ", ".join(f"{n} {given[n]} to {made[n]}" for n in made if made[n] != given[n])
    lines = [labelled("scales", scaled)] if scaled else []
    return config, [*lines, labelled("config", f"--config {written(config)}")]
