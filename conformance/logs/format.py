"""Reading an event log: line by line, and nothing in it is trusted.

Every number has a bound, every line a length; what does not fit is told in one
line that names the line of the file. See docs/reference/log.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from slotproof.conformance import schemas
from slotproof.conformance.protocol.commands import check
from slotproof.conformance.protocol.config import BadConfig, EngineConfig
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
        for event in value.get("events", ()):
            if event[0] not in TRANSITIONS:
                raise ValueError(f"events: there is no transition {event[0]!r}")
    return Line(number, kind, value)


def _fit(definition: str, value: Any) -> None:
    wrong = schemas.LOG.misfit(value, definition)
    if wrong is not None:
        raise ValueError(wrong.at(definition))
