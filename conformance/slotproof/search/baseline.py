"""A baseline: accepted findings, grouped by bug, in a file for the team's repository.

A group stands for one bug and gives the reason for accepting the bug. The group lists the
identities of the bug's findings. The group also lists the bug's traces, stored beside the file.
``slotproof gate`` does not fail on accepted findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Shape, Text, quoted, shape
from slotproof.reports.trace import Trace, load_trace
from slotproof.search.findings import Mark
from slotproof.support import bounds, jsontext
from slotproof.support.files import slug, write_whole
from slotproof.support.terminal import json_text
from slotproof.traces import itf
from slotproof_model.spec.invariants import INVARIANTS

VERSION = 2
TO_EXPLAIN = "to be explained"
"""Placeholder for the reason in a group that a run added."""
_NAME_CHARS = 100

Identity = Annotated[str, Field(pattern=r"^INV-[A-Z-]+\.[a-z_]+@[A-Za-z_-]+(:[A-Za-z0-9_-]*)?$")]
Some = Annotated[Text, Field(min_length=1)]
_NAME = rf"^[A-Za-z0-9][A-Za-z0-9._@-]{{0,{_NAME_CHARS - 1}}}$"


class BadBaseline(ValueError):
    """Error for a file that is no baseline. Its one-line message names the wrong entry or line."""


@shape
class Grouped(TypedDict):
    """Fields of a group: reason, pattern of engine names, and the identities and traces seen."""

    name: Annotated[str, Field(pattern=_NAME)]
    reason: NotRequired[Text]
    engine: NotRequired[Some]
    seen_as: NotRequired[Annotated[list[Identity], FailFast()]]
    traces: NotRequired[Annotated[list[Some], FailFast()]]


@shape
class File(TypedDict):
    slotproof_baseline: Literal[2]
    groups: Annotated[list[Grouped], FailFast()]


BASELINE = Shape("the file", File)


@dataclass(frozen=True)
class Group:
    """Findings of one bug."""

    name: str
    reason: str = ""
    engine: str = "*"
    seen_as: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    """Paths of trace files, relative to the folder of the baseline."""

    def covers(self, engine: str) -> bool:
        """Return True if the group's pattern matches an engine, given as name and version. Only
        ``*`` is a wildcard, because an engine's name may contain any other character.

        >>> Group("noise", "#22213", "sglang 0.5.10*").covers("sglang 0.5.10.post1")
        True
        >>> Group("noise", "ours", "mine[a] 1").covers("mine[a] 1")
        True
        """
        pattern = ".*".join(map(re.escape, re.split(r"\*+", self.engine)))
        return re.fullmatch(pattern, engine, re.DOTALL) is not None

    def lists(self, mark: Mark) -> bool:
        """Return True if the group lists ``mark``, or a stall or crash with its message.

        >>> group = Group("idle", seen_as=("INV-PROGRESS.stalled@T-REFUSE:full-idle",))
        >>> stall = Mark("INV-PROGRESS.stalled", (), "step", "full-idle")
        >>> group.lists(stall), group.lists(replace(stall, what="full-waiting"))
        (True, False)
        """
        stops = [id_ for id_ in self.seen_as if mark.what and id_.endswith(f":{mark.what}")]
        return mark.id in self.seen_as or any(id_.startswith(mark.clause) for id_ in stops)

    @property
    def unexplained(self) -> bool:
        """True if the group still lacks a reason for accepting the bug."""
        return self.reason.strip() in ("", TO_EXPLAIN)

    def to_json(self) -> dict[str, Any]:
        names = ("name", "engine", "reason", "seen_as", "traces")
        return {name: value for name in names if (value := getattr(self, name))}


@dataclass(frozen=True)
class Baseline:
    """Groups for all engines, as read from a baseline file."""

    groups: tuple[Group, ...] = ()
    folder: Path = field(default=Path(), compare=False)
    """Folder of the baseline file, to which paths of traces are relative."""

    def check(self) -> None:
        """Raise ``BadTrace`` if a trace can't be read, or has no violation."""
        for group in self.groups:
            for file in group.traces:
                self.trace(file)

    def trace(self, file: str) -> Trace:
        """Return a trace of the baseline. Raises ``BadTrace``, as :meth:`check` does."""
        path = self.folder / file
        trace = load_trace(path)
        if not trace.violations:
            raise itf.BadTrace(f"{path} has no violation: a baseline needs traces of findings")
        return trace

    def of(self, engine: str) -> list[Group]:
        """Return the groups that match this engine.

        >>> both = Baseline((Group("a", engine="toy*"), Group("b", engine="other")))
        >>> [group.name for group in both.of("toy 1")]
        ['a']
        """
        return [group for group in self.groups if group.covers(engine)]

    def with_seen(self, name: str, ids: Iterable[str], traces: Iterable[str] = ()) -> Baseline:
        """Return a baseline with these identities and traces added to the group ``name``."""
        groups = [*self.groups]
        for index, group in enumerate(groups):
            if group.name == name:
                seen = tuple(dict.fromkeys((*group.seen_as, *ids)))
                files = tuple(dict.fromkeys((*group.traces, *traces)))
                groups[index] = replace(group, seen_as=seen, traces=files)
        return replace(self, groups=tuple(groups))

    def with_new(self, cause: str, engine: str) -> Baseline:
        """Return a baseline with an empty group added for a cause. The team adds the reason."""
        taken = {group.name for group in self.groups}
        stem = slug(cause, _NAME_CHARS - 10, also="@_")
        names = (stem if not n else f"{stem}-{n + 1}" for n in range(len(taken) + 1))
        name = next(candidate for candidate in names if candidate not in taken)
        return replace(self, groups=(*self.groups, Group(name, TO_EXPLAIN, engine)))


def load(path: Path) -> Baseline:
    """Read a file. Raises :class:`BadBaseline` with one line that names the file.

    >>> load(Path("nowhere.json"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    slotproof.search.baseline.BadBaseline: nowhere.json: No such file or directory; ...
    """
    if not path.exists():
        new = f"write a baseline with `slotproof gate {path} --engine ENGINE --update`"
        raise BadBaseline(f"{path}: No such file or directory; check the path, or {new}")
    try:
        data = jsontext.read(path, bounds.BASELINE_BYTES)
    except jsontext.BadJson as bad:
        raise BadBaseline(f"{path}: {bad}") from None
    if not (isinstance(data, dict) and "slotproof_baseline" in data):
        raise BadBaseline(f"{path} is not a baseline: create one with --update")
    if data["slotproof_baseline"] != VERSION:
        version = quoted(data["slotproof_baseline"])
        raise BadBaseline(f"{path}: the baseline has version {version}, slotproof reads {VERSION}")
    if (wrong := BASELINE.misfit(data)) is not None:
        raise BadBaseline(f"{path}{_where(wrong.path)}: {wrong.message}")
    groups: list[Group] = []
    for number, fields in enumerate(data["groups"], 1):
        where = f"{path}, entry {number}"
        names = tuple(fields.get("seen_as", ()))
        for name in names:
            if (clause := name.partition("@")[0]) not in clauses():
                raise BadBaseline(f"{where}: there is no clause {clause!r}")
        traces = tuple(fields.get("traces", ()))
        for trace in traces:
            if PurePosixPath(trace).is_absolute() or ".." in PurePosixPath(trace).parts:
                raise BadBaseline(f"{where}: the trace {trace!r} is outside the baseline's folder")
        group = Group(**{**fields, "seen_as": names, "traces": traces})
        if any((other.name, other.engine) == (group.name, group.engine) for other in groups):
            raise BadBaseline(f"{where}: the group {group.name} of {group.engine} is listed twice")
        groups.append(group)
    return Baseline(tuple(groups), path.parent)


def _where(path: tuple[str | int, ...]) -> str:
    if len(path) < 2:
        return ""
    field = "".join(f", {part}" for part in path[2:])
    return f", entry {int(path[1]) + 1}{field}"


def clauses() -> set[str]:
    """Return the names of all clauses, as used in identities."""
    return {
        f"{invariant.id}.{name}"
        for invariant in INVARIANTS.values()
        for name in (*invariant.conjuncts, *invariant.observed)
    }


def save(baseline: Baseline, path: Path) -> None:
    """Write the baseline. An old file stays until the new file is complete. Raises ``OSError``.

    >>> from tempfile import TemporaryDirectory
    >>> listed = Baseline((Group("noise", "#22213", seen_as=("INV-ONCE.reported@T-RESTORE",)),))
    >>> with TemporaryDirectory() as folder:
    ...     save(listed, Path(folder) / "listed.json")
    ...     load(Path(folder) / "listed.json") == listed
    True
    """
    groups = [group.to_json() for group in baseline.groups]
    write_whole(path, json_text({"slotproof_baseline": VERSION, "groups": groups}))
