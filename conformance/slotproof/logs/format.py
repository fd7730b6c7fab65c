"""Reading an event log: line by line, and nothing in it is trusted.

Every number has a bound, every line a length; what does not fit is told in one
line that names the line of the file. See docs/reference/log.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from gzip import GzipFile
from pathlib import Path
from typing import Any, BinaryIO

from slotproof.engines.base import Capabilities
from slotproof.logs.files import UNREADABLE, NoFiles, files_of, number, opened, shown, why
from slotproof.logs.lines import END, FAILED, HEADER, SNAPSHOT, VERSION, apart
from slotproof.protocol.commands import FIELDS
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.hidden import check_recorded, hashed
from slotproof.protocol.shapes import Shape, quoted
from slotproof.support import bounds, jsontext
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

NO_LOG = (
    "a log is lines of JSON, as a recorder writes them; what an engine's own text says: "
    "docs/how-to/validate-a-log.md"
)
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
    raw: dict[str, Any] = field(repr=False, compare=False)
    """As it is in the log."""

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
        return cls(engine["name"], engine["version"], config, seed, records, capabilities, data)

    @property
    def continues(self) -> dict[str, Any] | None:
        """What went before it, where its file goes on with an engine of another."""
        found: dict[str, Any] | None = self.raw.get("continues")
        return found


@dataclass(frozen=True)
class Line:
    """One line: its number in the file, from 1 on, what it is, and what it says."""

    number: int
    kind: str
    value: Any


@dataclass(frozen=True)
class Place:
    """After a line of a file."""

    file: str
    head: int
    """CRC-32 of the file's first line: which file it is."""
    offset: int
    line: int


@dataclass
class Log:
    """A log. Iterating over it raises :class:`BadLog` at the first bad line."""

    named: list[Path]
    wait: Callable[[], bool] = lambda: False
    """Asked at the end of what is there: whether to look once more."""
    start: Place | None = None
    """Where to go on."""
    lines: int = field(default=0, init=False)
    """Whole lines read so far."""
    cut: int | None = field(default=None, init=False)
    """The number of the last line, if it breaks off in the middle."""
    place: Place | None = field(default=None, init=False)
    """After the last line that was read."""
    file: Path = field(init=False)
    """The one that is read."""

    def __post_init__(self) -> None:
        self.file = self.named[0]

    def __str__(self) -> str:
        more = f" and {len(self.named) - 1} more" if len(self.named) > 1 else ""
        return f"{shown(self.named[0])}{more}"

    def __iter__(self) -> Iterator[Line]:
        try:
            file = self._first()
            while file is not None:
                self.file = file
                with opened(file) as stream:
                    yield from self._read(stream)
                file = self._next()
        except NoFiles as bad:
            raise BadLog(str(bad)) from None
        except UNREADABLE as error:
            if isinstance(error, BadLog):
                raise
            raise BadLog(f"{shown(self.file)}: {why(error)}") from None
        if self.lines == 0 and self.start is None:
            raise BadLog(f"{shown(self.file)}: the log is empty")

    def _first(self) -> Path | None:
        if self.start is None:
            return files_of(self.named)[0]
        self.file = Path(self.start.file)
        return self.file if self.file.exists() else self._next()

    def _next(self) -> Path | None:
        """The file after this one; where that is gone, the next that is there."""
        files = files_of(self.named)
        if self.file in files:
            return next(iter(files[files.index(self.file) + 1 :]), None)
        return next((each for each in files if number(each) > number(self.file)), None)

    def _begun(self, stream: BinaryIO) -> tuple[int, int]:
        """Lines and bytes of the file that were read before."""
        start, self.start = self.start, None
        if start is None or Path(start.file) != self.file:
            self.place = None
            return 0, 0
        if zlib.crc32(stream.readline(bounds.LINE_BYTES)) != start.head:
            raise BadLog(
                f"{self.file}: another file than the one that was judged up to line {start.line}"
            )
        self.place = start
        stream.seek(start.offset)  # a last line was whole, and its end was not there yet
        return start.line, start.offset + (stream.read(1) == b"\n")

    def _read(self, stream: BinaryIO) -> Iterator[Line]:
        read, offset = self._begun(stream)
        last = False
        """The next file was there before this one was last read: there comes nothing more."""
        grows = stream.seekable() and not isinstance(stream, GzipFile)
        if stream.seekable():
            stream.seek(offset)
        while True:
            raw = stream.readline(bounds.LINE_BYTES + 1)
            if grows and not last and not raw.endswith(b"\n") and len(raw) <= bounds.LINE_BYTES:
                last = self._next() is not None
                if last or self.wait():
                    stream.seek(offset)
                    continue
            if not raw:
                return
            if len(raw) > bounds.LINE_BYTES:
                raise self.bad(read + 1, f"longer than {bounds.LINE_BYTES} bytes")
            try:
                data = jsontext.parse(raw)
            except jsontext.BadJson as bad:
                if not raw.endswith(b"\n") and self.lines:
                    self.cut = read + 1
                    return
                hint = "" if self.lines else f": {NO_LOG}"
                raise self.bad(read + 1, f"{bad}{hint}") from None
            read, offset = read + 1, offset + len(raw)
            self.lines += 1
            head = self.place.head if self.place else zlib.crc32(raw)
            try:
                line = parsed(read, data)
            except ValueError as error:
                raise self.bad(read, str(error)) from None
            self.place = Place(str(self.file), head, offset, read)
            yield line

    def bad(self, number: int, text: str) -> BadLog:
        """The complaint about one line."""
        return BadLog(f"{shown(self.file)}: line {number}: {' '.join(text.split())[:300]}")


def parsed(number: int, data: Any) -> Line:
    """Return the line, checked. Raises :class:`ValueError` with what is wrong."""
    kinds = [kind for kind in KINDS if isinstance(data, dict) and kind in data]
    if len(kinds) != 1 or (len(data) > 1 and kinds != ["slotproof-log"]):
        raise ValueError(f"a line has one of {', '.join(KINDS)}, and nothing else")
    kind = kinds[0]
    value = data[kind]
    if kind == "slotproof-log":
        if value != VERSION:
            raise ValueError(f"the log is of version {quoted(value)}, this is {VERSION}")
        _fit(HEADER, data)
        try:
            return Line(number, "header", Header.of(data))
        except BadConfig as bad:
            raise ValueError(f"config: {bad}") from None
    if kind == "command":
        return Line(number, kind, check_recorded(value))
    _fit(_SHAPES[kind], value)
    if kind == "snapshot":
        parts = apart(value)
        if parts is not None:
            raise ValueError(f"snapshot: {parts}")
        for event in value.get("events", ()):
            if event[0] not in TRANSITIONS:
                raise ValueError(f"events: there is no transition {quoted(event[0])}")
        for message in value.get("messages", ()):
            if "tokens" in message:
                message["tokens"] = hashed(message["tokens"])
    return Line(number, kind, value)


_SHAPES = {"snapshot": SNAPSHOT, "failed": FAILED, "end": END}


def _fit(shape: Shape, value: Any) -> None:
    wrong = shape.line(value)
    if wrong is not None:
        raise ValueError(wrong)
