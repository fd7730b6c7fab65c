"""The figures of a snapshot that must be right: each page, row and length in it.

What is not here says nothing by the protocol: a cursor up to Q, the sliding-window indices and
locks of positions that no later token reads, lengths of a slot on loan (its turn's count).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
FAR = (-7, 10**9)
"""Outside of every pool."""


class Change(NamedTuple):
    """Another value for one figure."""

    path: Path
    was: int
    value: int

    def __str__(self) -> str:
        return f"{'/'.join(map(str, self.path))}: {self.was} becomes {self.value}"

    def make(self, snapshot: Any) -> None:
        """Put it in."""
        for key in self.path[:-1]:
            snapshot = snapshot[key]
        assert snapshot[self.path[-1]] == self.was
        snapshot[self.path[-1]] = self.value


def changes(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Change]:
    """Every figure changed by one, and to where no pool reaches; none of them is right."""
    for path, value, near in _figures(snapshot, config):
        for other in {*(value + step for step in near), *FAR} - {value}:
            yield Change(path, value, other)


Figure = tuple[Path, int, tuple[int, ...]]
"""Where, what, and which steps from it are wrong for certain."""
_BOTH = (1, -1)


def _figures(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Figure]:
    for name, pool in snapshot.get("pools", {}).items():
        for figure in ("total", "available", "evictable", "protected"):
            yield ("pools", name, figure), pool[figure], _BOTH
        for index, page in enumerate(pool.get("free", ())):
            yield ("pools", name, "free", index), page, _BOTH
    for name, pages in snapshot.get("tree", {}).items():
        for index, (page, locks) in enumerate(pages):
            yield ("tree", name, index, 0), page, _BOTH
            # Of a prefix in the sliding window's pool only what the window reaches is locked.
            yield ("tree", name, index, 1), locks, _BOTH if name == "full" else (1,)
    for name, pool in snapshot.get("checker", {}).get("pools", {}).items():
        for figure, value in pool.items():
            yield ("checker", "pools", name, figure), value, _BOTH
    if "rows" in snapshot:
        yield from _rows(snapshot)
    for sid, session in snapshot.get("sessions", {}).items():
        yield ("sessions", sid, "history"), session["history"], _BOTH
    for kind in ("slots", "requests"):
        for key, view in snapshot.get(kind, {}).items():
            for field, value, near in _lengths(view, kind, config):
                yield (kind, key, field), value, near


def _rows(snapshot: Mapping[str, Any]) -> Iterator[Figure]:
    rows = snapshot["rows"]
    yield ("rows", "total"), rows["total"], _BOTH
    for index, row in enumerate(rows["free"]):
        yield ("rows", "free", index), row, _BOTH
    for row, used in rows.get("used", {}).items():
        owners = [each for each in _views(snapshot) if str(each["row"]) == row]
        given_back = max((each["E"] for each in owners), default=0)
        for pool, indices in used.items():
            for position, index in enumerate(indices):
                says_nothing = pool == "swa" and position < given_back
                # -1 where the tree gave it back: right wherever no later token looks
                steps = (1,) if pool == "swa" and index == 0 else _BOTH
                if index >= 0:
                    path = ("rows", "used", row, pool, position)
                    yield path, index, () if says_nothing else steps


def _views(snapshot: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in ("slots", "requests"):
        yield from snapshot[kind].values()


def _lengths(
    view: Mapping[str, Any], kind: str, config: Mapping[str, Any]
) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    stale = ("C", "A", "E") if view.get("lent") else ()
    fields = ("row", "C", "A", "Q", "prompt", "output")
    for field in fields if kind == "requests" else fields[:4]:
        if field not in stale:
            yield field, view[field], _BOTH
    if config.get("window") and view["E"] > view["Q"] and "E" not in stale:
        yield "E", view["E"], _BOTH
