"""Reading an event log: line by line, and nothing in it is trusted.

Every number has a bound, every line a length; what does not fit is told in one
line that names the line of the file. See docs/reference/log.md.
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
"""Standard input, as a name on a command line."""
NO_LOG = (
    "a log is lines of JSON, as a recorder writes them; what an engine's own text says: "
    "docs/how-to/validate-a-log.md"
)
KINDS = ("slotproof-log", "command", "snapshot", "failed", "end")
"""What a line can be: its one key (a header has more than this one)."""
_BEGINNING = 100_000
"""Bytes in which a header says what it is."""


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
    continues: dict[str, Any] | None = field(repr=False, compare=False)
    """What went before it, where the file goes on where another ended."""

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
        name, version = data["engine"]["name"], data["engine"]["version"]
        seed, before = data.get("seed", 0), data.get("continues")
        return cls(name, version, config, seed, records, capabilities, before)


Line = tuple[str, Any]
"""What a line is, and what it says."""


@dataclass
class Log:
    """A log: its files in order, or standard input. A line is all of it that is in memory.

    Iterating over it raises :class:`BadLog` at the first bad line, and ``KeyboardInterrupt`` as
    soon as one arrives while it waits for a line.
    """

    files: list[Path]
    file: Path = field(init=False)
    """The file that is read."""
    number: int = field(default=0, init=False)
    """The last line of that file that was read whole, from 1 on."""
    cut: int | None = field(default=None, init=False)
    """The number of the last line, if it breaks off in the middle."""

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
            except (OSError, ValueError) as error:  # no such file; a null character in its name
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
                # A recorder may be killed within the header of its next file.
                header = begun and raw.startswith(b"{")
                if (number > 1 or header) and not raw.endswith(b"\n"):
                    self.cut = number
                    return
                raise self.bad(number, f"{bad}{'' if number > 1 else f': {NO_LOG}'}") from None
            except ValueError as error:
                raise self.bad(number, str(error)) from None
            self.number = number
            yield line

    def bad(self, number: int, text: str) -> BadLog:
        """The complaint about one line."""
        return BadLog(f"{shown(self.file)}: line {number}: {' '.join(text.split())[:300]}")


def _opened(path: Path) -> Any:
    """Open a file, or standard input, which is not closed."""
    if path != STDIN:
        return path.open("rb")
    if sys.stdin is None:
        raise ValueError("is closed")
    return nullcontext(sys.stdin.buffer)


def shown(path: Path) -> str:
    """Return what to call it.

    >>> shown(STDIN), shown(Path("log.jsonl"))
    ('standard input', 'log.jsonl')
    """
    return "standard input" if path == STDIN else str(path)


def is_log(path: Path) -> bool:
    """Return whether it is an event log, by its name or its first line.

    A trace is none, nor is a file that is not there.
    """
    if path == STDIN or path.suffix == ".jsonl":
        return True
    with suppress(OSError, ValueError):
        if path.is_file():  # what a pipe has can be read once
            with path.open("rb") as file:
                return b'"slotproof-log"' in file.readline(_BEGINNING)
    return False


def _parsed(data: Any) -> Line:
    """The line, checked. Raises :class:`ValueError` with what is wrong."""
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if len(kinds) != 1 or (len(data) > 1 and kinds != ["slotproof-log"]):
        raise ValueError(f"a line has one of {', '.join(KINDS)}, and nothing else")
    kind = kinds[0]
    value = data[kind]
    if kind == "slotproof-log":
        if value != VERSION:
            raise ValueError(f"the log is of version {quoted(value)}, this is {VERSION}")
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
