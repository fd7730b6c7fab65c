"""Figures of a snapshot with a value fixed by the protocol: every page, row and length.

Left out, as the protocol does not define them: a cursor up to Q, sliding-window indices and locks
of positions read by no later token, lengths of a slot on loan (its turn's count).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
FAR = (-7, 10**9)
"""Values outside of every pool."""


class Change(NamedTuple):
    """A replacement of one figure."""

    path: Path
    was: int
    value: int

    def __str__(self) -> str:
        return f"{'/'.join(map(str, self.path))}: {self.was} becomes {self.value}"

    def make(self, snapshot: Any) -> None:
        """Apply the change to the snapshot."""
        for key in self.path[:-1]:
            snapshot = snapshot[key]
        assert snapshot[self.path[-1]] == self.was
        snapshot[self.path[-1]] = self.value


def changes(snapshot: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Change]:
    """Yield wrong values of every figure: off by one, and outside of every pool."""
    for path, value, near in _figures(snapshot, config):
        for other in {*(value + step for step in near), *FAR} - {value}:
            yield Change(path, value, other)


Figure = tuple[Path, int, tuple[int, ...]]
"""Path, value, and the steps from the value that are certainly wrong."""
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
            # In the sliding window's pool only the part of a prefix within the window is locked.
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
        owners = [view for view in _views(snapshot) if str(view["row"]) == row]
        given_back = max((view["E"] for view in owners), default=0)
        for pool, indices in used.items():
            for position, index in enumerate(indices):
                says_nothing = pool == "swa" and position < given_back
                # -1 where the tree freed it, which is right if no later token reads it.
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
