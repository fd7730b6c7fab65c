"""A baseline: findings that a team knows of, in groups with a reason, in a file it can commit.

A group is what one bug does. It lists the identities under which it was seen, and traces that show
it, which lie beside the file. ``slotproof gate`` fails on nothing that belongs to a group.
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
"""The reason of a group that a run wrote."""
_NAME_CHARS = 100

Identity = Annotated[str, Field(pattern=r"^INV-[A-Z-]+\.[a-z_]+@[A-Za-z_-]+(:[A-Za-z0-9_-]*)?$")]
Some = Annotated[Text, Field(min_length=1)]
_NAME = rf"^[A-Za-z0-9][A-Za-z0-9._@-]{{0,{_NAME_CHARS - 1}}}$"


class BadBaseline(ValueError):
    """Not a baseline; one line that says which entry or line is wrong."""


@shape
class Grouped(TypedDict):
    """What one bug does: why it is accepted, the engines it is known of (a pattern), the
    identities and the traces that it was seen as."""

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
    """What one bug does."""

    name: str
    reason: str = ""
    engine: str = "*"
    seen_as: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    """Files, from the folder of the baseline."""

    def covers(self, engine: str) -> bool:
        """Whether it is about this engine, given as its name and version. Only ``*`` is special:
        names come from drivers, and a group that a run wrote has to be about that engine.

        >>> Group("noise", "#22213", "sglang 0.5.10*").covers("sglang 0.5.10.post1")
        True
        >>> Group("noise", "ours", "mine[a] 1").covers("mine[a] 1")
        True
        """
        pattern = ".*".join(map(re.escape, re.split(r"\*+", self.engine)))
        return re.fullmatch(pattern, engine, re.DOTALL) is not None

    def lists(self, mark: Mark) -> bool:
        """Return whether it has this identity, or one that stops with the same words.

        >>> group = Group("idle", seen_as=("INV-PROGRESS.stalled@T-REFUSE:full-idle",))
        >>> stall = Mark("INV-PROGRESS.stalled", (), "step", "full-idle")
        >>> group.lists(stall), group.lists(replace(stall, what="full-waiting"))
        (True, False)
        """
        stops = [each for each in self.seen_as if mark.what and each.endswith(f":{mark.what}")]
        return mark.id in self.seen_as or any(each.startswith(mark.clause) for each in stops)

    @property
    def unexplained(self) -> bool:
        """Nobody has said yet why it is accepted."""
        return self.reason.strip() in ("", TO_EXPLAIN)

    def to_json(self) -> dict[str, Any]:
        fields = {
            "name": self.name,
            "engine": self.engine,
            "reason": self.reason,
            "seen_as": list(self.seen_as),
            "traces": list(self.traces),
        }
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True)
class Baseline:
    """All groups, of whatever engine."""

    groups: tuple[Group, ...] = ()
    folder: Path = field(default=Path(), compare=False)
    """Where its traces are looked for."""

    def check(self) -> None:
        """Raises ``BadTrace`` where one of its traces can't be read, or is that of no finding."""
        for group in self.groups:
            for file in group.traces:
                self.trace(file)

    def trace(self, file: str) -> Trace:
        """One of its traces; see :meth:`check`."""
        path = self.folder / file
        trace = load_trace(path)
        if not trace.violations:
            raise itf.BadTrace(f"{path} violates nothing: it is the trace of no finding")
        return trace

    def of(self, engine: str) -> list[Group]:
        """The groups that are about this engine.

        >>> both = Baseline((Group("a", engine="toy*"), Group("b", engine="other")))
        >>> [each.name for each in both.of("toy 1")]
        ['a']
        """
        return [each for each in self.groups if each.covers(engine)]

    def with_seen(self, name: str, ids: Iterable[str], traces: Iterable[str] = ()) -> Baseline:
        """A group has been seen as these, too."""
        return replace(
            self,
            groups=tuple(
                replace(
                    each,
                    seen_as=tuple(dict.fromkeys((*each.seen_as, *ids))),
                    traces=tuple(dict.fromkeys((*each.traces, *traces))),
                )
                if each.name == name
                else each
                for each in self.groups
            ),
        )

    def with_new(self, cause: str, engine: str) -> Baseline:
        """An empty group for a new cause, which somebody has to explain."""
        there = {each.name for each in self.groups}
        stem = slug(cause, _NAME_CHARS - 10, also="@_")
        names = (stem if not n else f"{stem}-{n + 1}" for n in range(len(there) + 1))
        name = next(each for each in names if each not in there)
        return replace(self, groups=(*self.groups, Group(name, TO_EXPLAIN, engine)))


def load(path: Path) -> Baseline:
    """Read a file. Raises :class:`BadBaseline` with one line that names it.

    >>> load(Path("nowhere.json"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    slotproof.search.baseline.BadBaseline: nowhere.json: No such file or directory; ...
    """
    if not path.exists():
        raise BadBaseline(f"{path}: No such file or directory; --update makes one")
    try:
        data = jsontext.read(path, bounds.BASELINE_BYTES)
    except jsontext.BadJson as bad:
        raise BadBaseline(f"{path}: {bad}") from None
    if not (isinstance(data, dict) and "slotproof_baseline" in data):
        raise BadBaseline(f"{path}: is no baseline: --update makes one")
    if data["slotproof_baseline"] != VERSION:
        version = quoted(data["slotproof_baseline"])
        raise BadBaseline(f"{path}: the baseline is of version {version}, this is {VERSION}")
    if (wrong := BASELINE.misfit(data)) is not None:
        raise BadBaseline(f"{path}{_where(wrong.path)}: {wrong.message}")
    groups: list[Group] = []
    for number, fields in enumerate(data["groups"], 1):
        where = f"{path}, entry {number}"
        names = tuple(fields.get("seen_as", ()))
        for name in names:
            clause = name.partition("@")[0]
            if clause not in clauses():
                raise BadBaseline(f"{where}: there is no clause {clause!r}")
        traces = tuple(fields.get("traces", ()))
        for trace in traces:
            if PurePosixPath(trace).is_absolute() or ".." in PurePosixPath(trace).parts:
                raise BadBaseline(f"{where}: the trace {trace!r} does not lie beside the baseline")
        group = Group(**{**fields, "seen_as": names, "traces": traces})
        if any((each.name, each.engine) == (group.name, group.engine) for each in groups):
            raise BadBaseline(f"{where}: {group.name} of {group.engine} is there twice")
        groups.append(group)
    return Baseline(tuple(groups), path.parent)


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
    >>> known = Baseline((Group("noise", "#22213", seen_as=("INV-ONCE.reported@T-RESTORE",)),))
    >>> with TemporaryDirectory() as folder:
    ...     save(known, Path(folder) / "known.json")
    ...     load(Path(folder) / "known.json") == known
    True
    """
    groups = [group.to_json() for group in baseline.groups]
    write_whole(path, json_text({"slotproof_baseline": VERSION, "groups": groups}))
