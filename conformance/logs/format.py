"""Reading an event log: line by line, and nothing in it is trusted.

Every number has a bound, every line a length; what does not fit is told in one
line that names the line of the file. See docs/reference/log.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from slotproof.conformance import bounds, jsontext
from slotproof.conformance.engines.base import Capabilities
from slotproof.conformance.logs.lines import (
    END,
    FAILED,
    HEADER,
    READ,
    SNAPSHOT,
    VERSION,
    apart,
    drop_old_fields,
)
from slotproof.conformance.protocol.commands import FIELDS, check
from slotproof.conformance.protocol.config import BadConfig, EngineConfig
from slotproof.conformance.protocol.shapes import Shape, quoted
from slotproof.model.profiles import PROFILES
from slotproof.model.transitions import TRANSITIONS

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
    records: frozenset[str]
    capabilities: Capabilities

    @classmethod
    def of(cls, data: dict[str, Any]) -> Header:
        """The header of a line that fits the schema. Raises :class:`ValueError`, one line."""
        profile = data["profile"] or "reference"
        if profile not in PROFILES:
            raise ValueError(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
        config = EngineConfig.from_json(data["config"])
        records = frozenset(data.get("records", ("commands", "messages", "events")))
        capabilities = Capabilities(
            commands=frozenset(FIELDS),
            pools=("full", "swa") if config.window else ("full",),
            page_sizes=(config.page_size,),
            events="events" in records,
            transitions=frozenset(data.get("transitions", ())),
            profile=profile,
            not_observed=dict(data.get("not_observed", {})),
        )
        engine, seed = data["engine"], data.get("seed", 0)
        return cls(engine["name"], engine["version"], config, seed, records, capabilities)


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
    _version: int = field(default=VERSION, init=False)
    """That of the last header."""

    def __iter__(self) -> Iterator[Line]:
        try:
            with self.path.open("rb") as file:
                yield from self._read(file)
        except OSError as error:
            raise BadLog(f"{self.path}: {error.strerror}") from None

    def _read(self, file: BinaryIO) -> Iterator[Line]:
        while raw := file.readline(bounds.LINE_BYTES + 1):
            number = self.lines + 1
            if len(raw) > bounds.LINE_BYTES:
                raise self.bad(number, f"longer than {bounds.LINE_BYTES} bytes")
            try:
                data = jsontext.parse(raw)
            except jsontext.BadJson as bad:
                if not raw.endswith(b"\n") and number > 1:
                    self.cut = number
                    return
                raise self.bad(number, str(bad)) from None
            self.lines = number
            try:
                yield self._parsed(number, data)
            except ValueError as error:
                raise self.bad(number, str(error)) from None
        if self.lines == 0:
            raise BadLog(f"{self.path}: the log is empty")

    def bad(self, number: int, text: str) -> BadLog:
        """The complaint about one line."""
        return BadLog(f"{self.path}: line {number}: {' '.join(text.split())[:300]}")

    def _parsed(self, number: int, data: Any) -> Line:
        """The line, checked. Raises :class:`ValueError` with what is wrong."""
        kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
        if len(kinds) != 1 or (len(data) > 1 and kinds != ["slotproof-log"]):
            raise ValueError(f"a line has one of {', '.join(KINDS)}, and nothing else")
        kind = kinds[0]
        value = data[kind]
        if kind == "slotproof-log":
            if value not in READ:
                raise ValueError(f"the log is of version {quoted(value)}, this is {VERSION}")
            _fit(HEADER, data)
            self._version = value
            try:
                return Line(number, "header", Header.of(data))
            except BadConfig as bad:
                raise ValueError(f"config: {bad}") from None
        if kind == "command":
            return Line(number, kind, check(value, least_token=0))
        if kind == "snapshot" and self._version == 1:
            drop_old_fields(value)
        _fit(_SHAPES[kind], value)
        if kind == "snapshot":
            parts = apart(value)
            if parts is not None:
                raise ValueError(f"snapshot: {parts}")
            for event in value.get("events", ()):
                if event[0] not in TRANSITIONS:
                    raise ValueError(f"events: there is no transition {quoted(event[0])}")
        return Line(number, kind, value)


_SHAPES = {"snapshot": SNAPSHOT, "failed": FAILED, "end": END}


def _fit(shape: Shape, value: Any) -> None:
    wrong = shape.line(value)
    if wrong is not None:
        raise ValueError(wrong)
