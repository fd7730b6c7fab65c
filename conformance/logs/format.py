"""Reading an event log: line by line, and nothing in it is trusted.

Every number has a bound, every line a length; what does not fit is told in one
line that names the line of the file. See docs/reference/log.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

import jsonschema

from slotproof.conformance.protocol.commands import check
from slotproof.conformance.protocol.config import LARGEST, BadConfig, EngineConfig
from slotproof.model.profiles import PROFILES
from slotproof.model.transitions import TRANSITIONS

VERSION = 1
LONGEST = 64 << 20
"""Bytes of a line at most."""
KINDS = ("slotproof-log", "command", "snapshot", "failed", "end")
"""What a line can be: its one key (a header has more than this one)."""


class BadLog(ValueError):
    """Not a log, or not in order; one line that says where and why."""


@dataclass(frozen=True)
class Header:
    """The first line, and the first of every further engine in the same file."""

    engine: str
    version: str
    config: EngineConfig
    seed: int
    profile: str
    records: frozenset[str]
    transitions: frozenset[str]
    not_observed: dict[str, str]

    @classmethod
    def of(cls, data: dict[str, Any]) -> Header:
        """The header of a line that fits the schema. Raises :class:`ValueError`, one line."""
        profile = data["profile"] or "reference"
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
        return cls(
            data["engine"]["name"],
            data["engine"]["version"],
            EngineConfig.from_json(data["config"]),
            data.get("seed", 0),
            profile,
            frozenset(data.get("records", ("commands", "messages", "events"))),
            frozenset(data.get("transitions", ())),
            dict(data.get("not_observed", {})),
        )


@dataclass(frozen=True)
class Line:
    """One line: its number in the file, from 1 on, what it is, and what it says."""

    number: int
    kind: str
    value: Any


@dataclass
class Log:
    """A log file. Iterating over it raises :class:`BadLog` at the first bad line."""

    path: Path
    lines: int = field(default=0, init=False)
    """Whole lines read so far."""
    cut: int | None = field(default=None, init=False)
    """The number of the last line, if it breaks off in the middle."""

    def __iter__(self) -> Iterator[Line]:
        try:
            with self.path.open("rb") as file:
                yield from self._read(file)
        except OSError as error:
            raise BadLog(f"{self.path}: {error.strerror}") from None

    def _read(self, file: BinaryIO) -> Iterator[Line]:
        while raw := file.readline(LONGEST + 1):
            number = self.lines + 1
            if len(raw) > LONGEST:
                raise self.bad(number, f"longer than {LONGEST} bytes")
            try:
                data = json.loads(raw, parse_float=_no_float, parse_constant=_no_float)
            except (ValueError, RecursionError) as error:
                if not raw.endswith(b"\n") and number > 1:
                    self.cut = number
                    return
                raise self.bad(number, f"not JSON ({str(error)[:100]})") from None
            self.lines = number
            try:
                yield _parsed(number, data)
            except ValueError as error:
                raise self.bad(number, str(error)) from None
        if self.lines == 0:
            raise BadLog(f"{self.path}: the log is empty")

    def bad(self, number: int, text: str) -> BadLog:
        """The complaint about one line."""
        return BadLog(f"{self.path}: line {number}: {' '.join(text.split())[:300]}")


def _no_float(text: str) -> Any:
    raise ValueError(f"{text} is no integer")


@cache
def _validator(definition: str) -> Any:
    text = files("slotproof.conformance.logs").joinpath("log.schema.json").read_text()
    return jsonschema.Draft202012Validator({**json.loads(text), "$ref": f"#/$defs/{definition}"})


def _parsed(number: int, data: Any) -> Line:
    """The line, checked. Raises :class:`ValueError` with what is wrong."""
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if len(kinds) != 1 or (len(data) > 1 and kinds != ["slotproof-log"]):
        raise ValueError(f"a line has one of {', '.join(KINDS)}, and nothing else")
    kind = kinds[0]
    if kind == "slotproof-log":
        if data[kind] != VERSION:
            raise ValueError(f"the log is of version {data[kind]!r}, this is {VERSION}")
        _fit("header", data)
        try:
            return Line(number, "header", Header.of(data))
        except BadConfig as bad:
            raise ValueError(f"config: {bad}") from None
    value = data[kind]
    _fit(kind, value)
    if kind == "command":
        value = check(value, least_token=0)
    elif kind == "snapshot":
        _check_arrays(value)
        for event in value.get("events", ()):
            if event[0] not in TRANSITIONS:
                raise ValueError(f"events: there is no transition {event[0]!r}")
    return Line(number, kind, value)


def _fit(definition: str, value: Any) -> None:
    error = next(_validator(definition).iter_errors(value), None)
    if error is not None:
        where = "/".join(map(str, error.absolute_path)) or definition
        raise ValueError(f"{where}: {error.message[:200]}")


def _check_arrays(snapshot: dict[str, Any]) -> None:
    """The long arrays of numbers, which a JSON Schema would take its time over."""
    for message in snapshot.get("messages", ()):
        _numbers("messages/tokens", message.get("tokens", ()))
    for name, pool in snapshot.get("pools", {}).items():
        _numbers(f"pools/{name}/free", pool.get("free", ()))
    rows = snapshot.get("rows", {})
    _numbers("rows/free", rows.get("free", ()))
    for row, views in rows.get("used", {}).items():
        for pool, indices in _object(f"rows/used/{row}", views).items():
            _numbers(f"rows/used/{row}/{pool}", indices)
    pairs = [(f"tree/{pool}", each) for pool, each in snapshot.get("tree", {}).items()]
    pairs += [(f"content/{row}", each) for row, each in snapshot.get("content", {}).items()]
    for where, entries in pairs:
        for entry in _array(where, entries):
            if len(_array(where, entry)) != 2:
                raise ValueError(f"{where}: each entry is a pair of numbers")
            _numbers(where, entry)


def _array(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: no array")  # noqa: TRY004  # it is input
    return value


def _object(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: no object")  # noqa: TRY004  # it is input
    return value


def _numbers(where: str, values: Iterable[Any]) -> None:
    if not isinstance(values, list | tuple):
        raise ValueError(f"{where}: no array")  # noqa: TRY004  # it is input
    for value in values:
        if type(value) is not int or not -1 <= value <= 10 * LARGEST:
            raise ValueError(f"{where}: {value!r} is no number from -1 to {10 * LARGEST}")
