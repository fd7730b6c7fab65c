"""A baseline: findings that a team knows of, with the reason, in a file it can commit.

A run with a baseline fails only on what is not in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.conformance import bounds, jsontext
from slotproof.conformance.files import write_whole
from slotproof.conformance.protocol.shapes import Shape, Text, shape
from slotproof.conformance.terminal import json_text
from slotproof.conformance.traces import older
from slotproof.model.invariants import INVARIANTS

TO_EXPLAIN = "to be explained"
"""The reason of an entry that a run wrote."""


class BadBaseline(ValueError):
    """Not a baseline; one line that says which entry or line is wrong."""


@shape
class Accepted(TypedDict):
    """A finding as a run names it, the engines it is known of (a pattern), and why."""

    id: Annotated[str, Field(pattern=r"^INV-[A-Z-]+\.[a-z_]+@[A-Za-z_-]+(:[A-Za-z0-9_-]*)?$")]
    reason: Annotated[Text, Field(min_length=1)]
    engine: NotRequired[Annotated[Text, Field(min_length=1)]]
    trace: NotRequired[Text]


@shape
class File(TypedDict):
    slotproof_baseline: Literal[1]
    findings: Annotated[list[Accepted], FailFast()]


BASELINE = Shape("the file", File)


@dataclass(frozen=True)
class Entry:
    """A finding that is accepted."""

    id: str
    reason: str
    engine: str = "*"
    trace: str | None = None

    def covers(self, engine: str) -> bool:
        """Whether it is about this engine, given as its name and version. Only ``*`` is special:
        names come from drivers, and an entry that a run wrote has to be about that engine.

        >>> Entry("INV-ONCE.reported@T-RESTORE", "#22213", "sglang 0.5.10*").covers(
        ...     "sglang 0.5.10.post1")
        True
        >>> Entry("INV-ONCE.reported@T-RESTORE", "ours", "mine[a] 1").covers("mine[a] 1")
        True
        """
        pattern = ".*".join(map(re.escape, re.split(r"\*+", self.engine)))
        return re.fullmatch(pattern, engine, re.DOTALL) is not None

    def to_json(self) -> dict[str, str]:
        fields = {"id": self.id, "engine": self.engine, "reason": self.reason}
        return {**fields, "trace": self.trace} if self.trace else fields


@dataclass(frozen=True)
class Baseline:
    """All entries, of whatever engine."""

    entries: tuple[Entry, ...] = ()

    def accepted(self, engine: str) -> dict[str, Entry]:
        """By identity: what is accepted of this engine; the first entry that says so."""
        result: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.covers(engine):
                result.setdefault(entry.id, entry)
        return result

    def updated(self, engine: str, found: Mapping[str, str | None]) -> Baseline:
        """With an entry for everything found (identity to trace); what is there stays as it is.

        An entry that was not seen stays, too: a shorter run may have missed it.
        """
        there = self.accepted(engine)
        new = [
            Entry(name, TO_EXPLAIN, engine, trace)
            for name, trace in found.items()
            if name not in there
        ]
        return Baseline((*self.entries, *sorted(new, key=lambda entry: entry.id)))


def load(path: Path) -> Baseline:
    """Read a file. Raises :class:`BadBaseline` with one line that names it.

    >>> load(Path("nowhere.json"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    slotproof.conformance.search.baseline.BadBaseline: nowhere.json: No such file or directory; ...
    """
    if not path.exists():
        raise BadBaseline(f"{path}: No such file or directory; --update-baseline makes one")
    try:
        data = jsontext.read(path, bounds.BASELINE_BYTES)
    except jsontext.BadJson as bad:
        raise BadBaseline(f"{path}: {bad}") from None
    wrong = BASELINE.misfit(data)
    if wrong is not None:
        raise BadBaseline(f"{path}{_where(wrong.path)}: {wrong.message}")
    entries: list[Entry] = []
    for number, fields in enumerate(data["findings"], 1):
        clause, at, where = fields["id"].partition("@")
        clause = older.clause(clause)
        if clause not in clauses():
            raise BadBaseline(f"{path}, entry {number}: there is no clause {clause!r}")
        entry = Entry(**{**fields, "id": clause + at + where})
        if any((each.id, each.engine) == (entry.id, entry.engine) for each in entries):
            raise BadBaseline(
                f"{path}, entry {number}: {entry.id} of {entry.engine} is there twice"
            )
        entries.append(entry)
    return Baseline(tuple(entries))


def _where(path: tuple[str | int, ...]) -> str:
    if len(path) < 2:
        return ""
    field = "".join(f", {part}" for part in path[2:])
    return f", entry {int(path[1]) + 1}{field}"


def clauses() -> set[str]:
    """All that there are, by the names that findings are told by."""
    return {
        f"{each.id}.{name}"
        for each in INVARIANTS.values()
        for name in (*each.conjuncts, *each.observed)
    }


def save(baseline: Baseline, path: Path) -> None:
    """Write the file; the old one stays until the new one is whole. Raises ``OSError``.

    >>> from tempfile import TemporaryDirectory
    >>> known = Baseline((Entry("INV-ONCE.reported@T-RESTORE", "#22213", "sglang 0.5.10*"),))
    >>> with TemporaryDirectory() as folder:
    ...     save(known, Path(folder) / "known.json")
    ...     load(Path(folder) / "known.json") == known
    True
    """
    entries = [entry.to_json() for entry in baseline.entries]
    write_whole(path, json_text({"slotproof_baseline": 1, "findings": entries}))
