"""Reader of event logs, line by line. A log may come from anywhere.

Numbers in a line, and the length of a line, are limited. An error is reported in one line with the
line's number in the file. See docs/reference/log.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from slotproof.engines.base import Capabilities
from slotproof.logs.lines import END, FAILED, HEADER, SNAPSHOT, VERSION, apart
from slotproof.protocol.commands import FIELDS, check_recorded, hashed
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.shapes import quoted
from slotproof.support import bounds, interrupts, jsontext
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

STDIN = Path("-")
"""Name of standard input on a command line."""
NO_LOG = (
    "a log has one JSON object per line, written by a recorder; for an engine's text log see "
    "docs/how-to/validate-a-log.md"
)
KINDS = ("slotproof-log", "command", "snapshot", "failed", "end")
"""Kinds of lines. A line has its kind as its only key. Only a header has further keys."""
_BEGINNING = 100_000
"""Number of bytes to read in search of a header."""


class BadLog(ValueError):
    """An invalid log, or lines in a wrong order. The message is one line with place and reason."""


@dataclass(frozen=True)
class Header:
    """First line of an engine's recording. A file may have recordings of several engines."""

    engine: str
    version: str
    config: EngineConfig
    seed: int
    records: frozenset[str]
    capabilities: Capabilities
    continues: dict[str, Any] | None = field(repr=False, compare=False)
    """State at the end of the previous file, if this file continues one."""

    @classmethod
    def of(cls, data: dict[str, Any]) -> Header:
        """Return the header in a validated line. Raises :class:`ValueError` with a brief reason."""
        if (profile := data["profile"] or "reference") not in PROFILES:
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
        name, version = data["engine"]["name"], data["engine"]["version"]
        seed, before = data.get("seed", 0), data.get("continues")
        return cls(name, version, config, seed, records, capabilities, before)


Line = tuple[str, Any]
"""Kind and content of a line."""


@dataclass
class Log:
    """A log: its files in order, or standard input. Only one line is in memory at a time.

    Iterating raises :class:`BadLog` at the first bad line, and ``KeyboardInterrupt`` on an
    interrupt while waiting for a line.
    """

    files: list[Path]
    file: Path = field(init=False)
    """File that is being read."""
    number: int = field(default=0, init=False)
    """Number of the last complete line read from the file. Lines count from 1."""
    cut: int | None = field(default=None, init=False)
    """Number of the last line if the line is incomplete. Otherwise None."""

    def __str__(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{shown(self.files[0])}{more}"

    def __iter__(self) -> Iterator[Line]:
        begun = False
        for file in self.files:
            self.file, self.number = file, 0
            try:
                with _opened(file) as stream:
                    for line in self._read(stream, begun):
                        begun = True
                        yield line
            except BadLog:
                raise
            except (OSError, ValueError) as error:  # no such file, or a null character in its name
                why = getattr(error, "strerror", None) or error
                raise BadLog(f"{shown(file)}: {why}") from None
        if not begun:
            raise BadLog(f"{shown(self.file)}: the log is empty")

    def _read(self, stream: BinaryIO, begun: bool) -> Iterator[Line]:
        while True:
            with interrupts.released():
                raw = stream.readline(bounds.LINE_BYTES + 1)
            if not raw:
                return
            number = self.number + 1
            if len(raw) > bounds.LINE_BYTES:
                raise self.bad(number, f"longer than {bounds.LINE_BYTES} bytes")
            try:
                line = _parsed(jsontext.parse(raw))
            except jsontext.BadJson as bad:
                # A recorder may have been killed while it wrote the header of its next file.
                header = begun and raw.startswith(b"{")
                if (number > 1 or header) and not raw.endswith(b"\n"):
                    self.cut = number
                    return
                why = str(bad).removeprefix("not JSON: ").replace(" line 1 column", " column")
                why = f"not JSON ({why}){'' if number > 1 else f'; {NO_LOG}'}"
                raise self.bad(number, why) from None
            except ValueError as error:
                raise self.bad(number, str(error)) from None
            self.number = number
            yield line

    def bad(self, number: int, text: str) -> BadLog:
        """Return the error for a line."""
        return BadLog(f"{shown(self.file)}: line {number}: {' '.join(text.split())[:300]}")


def _opened(path: Path) -> Any:
    """Open a file, or standard input. Standard input is not closed afterwards."""
    if path != STDIN:
        return path.open("rb")
    if sys.stdin is None:
        raise ValueError("is closed")
    return nullcontext(sys.stdin.buffer)


def shown(path: Path) -> str:
    """Return a path in the form used in messages.

    >>> shown(STDIN), shown(Path("log.jsonl"))
    ('standard input', 'log.jsonl')
    """
    return "standard input" if path == STDIN else str(path)


def is_log(path: Path) -> bool:
    """Return True if the file is an event log, by its name or its first line.

    False for a trace and for a missing file.
    """
    if path == STDIN or path.suffix == ".jsonl":
        return True
    with suppress(OSError, ValueError):
        if path.is_file():  # a pipe can be read only once
            with path.open("rb") as file:
                return b'"slotproof-log"' in file.readline(_BEGINNING)
    return False


def _parsed(data: Any) -> Line:
    """Return the kind and content of a line. Raises :class:`ValueError` for an invalid line."""
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if len(kinds) != 1 or (len(data) > 1 and kinds != ["slotproof-log"]):
        raise ValueError(f"a line has one of the keys {', '.join(KINDS)}, and nothing else")
    kind = kinds[0]
    value = data[kind]
    if kind == "slotproof-log":
        if value != VERSION:
            raise ValueError(f"the log has version {quoted(value)}, expected {VERSION}")
        HEADER.demand(data, ValueError)
        try:
            return "header", Header.of(data)
        except BadConfig as bad:
            raise ValueError(f"config: {bad}") from None
    if kind == "command":
        return kind, check_recorded(value)
    {"snapshot": SNAPSHOT, "failed": FAILED, "end": END}[kind].demand(value, ValueError)
    if kind == "snapshot":
        if parts := apart(value):
            raise ValueError(f"snapshot: {parts}")
        for event in value.get("events", ()):
            if event[0] not in TRANSITIONS:
                raise ValueError(f"events: there is no transition {quoted(event[0])}")
        for message in value.get("messages", ()):
            if "tokens" in message:
                message["tokens"] = hashed(message["tokens"])
    return kind, value
