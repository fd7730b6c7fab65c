"""Whose the pages of a pool are, iteration by iteration."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from slotproof.lockstep.observation import TERMS, Holder
from slotproof.support import bounds
from slotproof.traces.runs import Run, count, joined, runs_in, text

SINGLY = 160
"""Up to so many pages each has a cell of its own; of more, neighbours with one history share."""

FREE, EVICTABLE, PROTECTED, HELD, UNCACHED = TERMS
LOST, SHARED, STALE = "lost", "shared", "stale"
"""A page that nobody has; that two have; that is read and not kept for its reader."""
_LABELS = {EVICTABLE: "tree", PROTECTED: "lock", LOST: "?"}


def names(holders: Iterable[Holder]) -> str:
    """All of them, in a sentence.

    >>> names([Holder("slot", "s1"), Holder("free")]), names([])
    ('slot of s1 and the free list', 'nobody')
    """
    return " and ".join(map(str, holders)) or "nobody"


@dataclass(frozen=True)
class Cell:
    """A page, or neighbours with one history."""

    pages: str
    """``7`` or ``7-63``; empty for a page whose number nobody knows."""
    count: int
    kind: str
    """Which figure of the equation it counts for; or *lost*, *shared*, *stale*."""
    owners: tuple[Holder, ...]
    changed: bool
    """It had other owners in the iteration before."""
    before: tuple[Holder, ...] = ()
    readers: tuple[Holder, ...] = ()
    """Of a page that is not kept for them: whose row points to it."""

    @property
    def label(self) -> str:
        """A few letters: readable without colour."""
        if self.kind in _LABELS:
            return _LABELS[self.kind]
        mark, whose = ("!", self.readers) if self.kind == STALE else ("", self.owners)
        return mark + "+".join(who.name or who.kind for who in whose)

    @property
    def words(self) -> str:
        """One line about it."""
        what = "a page" if self.count == 1 else f"{self.count} pages"
        if self.pages:
            what = f"{'page' if self.count == 1 else 'pages'} {self.pages}"
        before = f" (before: {names(self.before)})" if self.changed else ""
        return f"{what}: {state_of(self, self.count)}{before}"


def state_of(cell: Cell, count: int) -> str:
    """Whose so many pages like this one are."""
    belong = "belongs" if count == 1 else "belong"
    it, they = ("it", "it") if count == 1 else ("them", "they")
    readers = f"{names(cell.readers)} {'read' if len(cell.readers) > 1 else 'reads'} {it}"
    if cell.kind == STALE:
        return f"{readers}, and {they} {belong} to {names(cell.owners)}"
    return f"{belong} to {names(cell.owners)}" + (f", and {readers}" if cell.readers else "")


@dataclass(frozen=True)
class Holding:
    """What one owner has. Pages are ``1 3-4``."""

    name: str
    pages: str
    count: int
    reads: str
    """Pages of the tree, kept for it by a lock."""
    strays: str
    """Pages that it reads and nobody keeps for it."""


@dataclass(frozen=True)
class PageMap:
    """One pool in one iteration."""

    cells: list[Cell]
    holdings: list[Holding]

    @property
    def moved(self) -> bool:
        """A page has other owners than in the iteration before."""
        return any(cell.changed for cell in self.cells)

    @property
    def wrong(self) -> list[Cell]:
        """Pages with two owners or none, and pages that are read and not kept."""
        return [cell for cell in self.cells if cell.kind in (LOST, SHARED, STALE)]


class _TooMany(Exception):
    """More than is drawn."""


_Owner = tuple[Holder, str]
"""A holder of pages, and which figure of the equation they count for."""


@dataclass
class _Iteration:
    """Whose each stretch of pages is, and who reads it; stretches have numbers."""

    owned: defaultdict[int, tuple[_Owner, ...]]
    read: defaultdict[int, tuple[Holder, ...]]


def page_maps(frames: Sequence[Any], pool: str, page_size: int) -> tuple[list[PageMap | None], str]:
    """One per frame (``None``: it shows no pages), and why there are none, if so."""
    sizes = [frame.pools[pool]["total"] // page_size for frame in frames if pool in frame.pools]
    size = max(sizes, default=0)
    nothing: list[PageMap | None] = [None] * len(frames)
    if not any(pool in frame.pages for frame in frames):
        return nothing, "the log has no pages (free list, tree, rows)"
    if size > bounds.DRAWN_PAGES:
        return nothing, f"the pool has {size} pages: too many to draw"
    try:
        return list(_drawn(frames, pool, page_size, size)), ""
    except _TooMany:
        return nothing, "there is too much to draw: shrink the trace"


def _drawn(frames: Sequence[Any], pool: str, page_size: int, size: int) -> Iterator[PageMap | None]:
    """The maps. Pages that nothing tells apart are one stretch, however many they are."""
    shown = [frame.pages.get(pool) for frame in frames]
    visible = [holding for holdings in shown for holding in holdings or ()]
    owned = {run for holding in visible for run in runs_in(holding["pages"])}
    whole = _whole(owned, size)
    # Runs of pages that no iteration tells apart, in order; some may be nobody's.
    runs = owned.union(
        *(runs_in(each.get("reads", "")) for each in visible), [whole] if whole is not None else ()
    )
    cuts = sorted({edge for first, last in runs for edge in (first, last + 1)})
    stretches = [(first, end - 1) for first, end in pairwise(cuts)]
    _few(len(stretches) * len(frames))
    seen = [None if holdings is None else _iteration(holdings, stretches) for holdings in shown]
    groups = _groups(stretches, whole, [each for each in seen if each is not None])
    _few(len(groups) * len(frames))
    before: _Iteration | None = None
    for frame, holdings, now in zip(frames, shown, seen, strict=True):
        if now is None:
            yield None
            continue
        cells = [_cell(runs, index, now, before) for runs, index in groups]
        known = count(stretches[index] for index in now.owned)
        lost = sum(cell.count for cell in cells if cell.kind == LOST)
        unknown = frame.pools.get(pool, {}).get("total", 0) // page_size - known - lost
        if unknown > 0:
            cells.append(Cell("", unknown, LOST, (), changed=False))
        yield PageMap(cells, list(_holdings(holdings, stretches, now)))
        before = now


def _few(cells: int) -> None:
    if cells > bounds.DRAWN_CELLS:
        raise _TooMany


def _whole(owned: Iterable[Run], size: int) -> Run | None:
    """All pages of the pool: engines number them from 0 or from 1. Between those that were
    seen, if it can't be told; ``None`` if they are more than the pool has."""
    if not owned:
        return None
    low, high = min(first for first, _ in owned), max(last for _, last in owned)
    fit = [first for first in (0, 1) if first <= low <= high < size + first]
    if len(fit) == 1:
        return fit[0], size + fit[0] - 1
    return (low, high) if high - low + 1 <= size else None


def _iteration(holdings: Sequence[dict[str, Any]], stretches: list[Run]) -> _Iteration:
    """Who has and who reads each stretch."""
    now = _Iteration(defaultdict(tuple), defaultdict(tuple))
    listed = 0
    for holding in holdings:
        owner = _owner(holding)
        whose: list[tuple[defaultdict[int, Any], list[Run], Any]] = [
            (now.owned, runs_in(holding["pages"]), owner),
            (now.read, runs_in(holding.get("reads", "")), owner[0]),
        ]
        for table, runs, each in whose:
            for index in _indices(runs, stretches):
                table[index] += (each,)
                listed += len(table[index])
                _few(listed)
    return now


def _indices(runs: Iterable[Run], stretches: list[Run]) -> Iterator[int]:
    """The numbers of the stretches that the runs consist of."""
    starts = [first for first, _ in stretches]
    for first, last in runs:
        yield from range(bisect_left(starts, first), bisect_right(starts, last))


def _owner(holding: dict[str, Any]) -> _Owner:
    match holding["kind"]:
        case "free":
            return Holder("free"), FREE
        case "tree":
            return Holder("tree"), PROTECTED if holding.get("locks", 0) else EVICTABLE
        case kind:
            return Holder(kind, holding.get("name", "?")), HELD if kind == "slot" else UNCACHED


def _holdings(
    holdings: Sequence[dict[str, Any]], stretches: list[Run], now: _Iteration
) -> Iterator[Holding]:
    kept = {i for i, who in now.owned.items() if any(kind == PROTECTED for _, kind in who)}
    for holding in holdings:
        name, locks = str(_owner(holding)[0]), holding.get("locks", 0)
        if holding["kind"] == "tree":
            name += f", locked {locks}×" if locks else ", not locked"
        pages = count(runs_in(holding["pages"]))
        reads = sorted(set(_indices(runs_in(holding.get("reads", "")), stretches)))
        if pages or reads:
            safe = joined(stretches[index] for index in reads if index in kept)
            strays = joined(stretches[index] for index in reads if index not in kept)
            yield Holding(name, holding["pages"], pages, text(safe), text(strays))


def _groups(
    stretches: list[Run], whole: Run | None, seen: Sequence[_Iteration]
) -> list[tuple[list[Run], int]]:
    """The pages of each cell, with the number of a stretch that has their history: of few pages
    each one, else neighbours together. What is only read is no page of the pool."""
    owned = {index for each in seen for index in each.owned}
    low, high = whole or (1, 0)
    drawn = [i for i, (first, _) in enumerate(stretches) if low <= first <= high or i in owned]
    if count(stretches[index] for index in drawn) <= SINGLY:
        pages = ((page, i) for i in drawn for page in range(stretches[i][0], stretches[i][1] + 1))
        return [([(page, page)], index) for page, index in pages]

    def history(index: int) -> list[Any]:
        return [(now.owned.get(index), now.read.get(index)) for now in seen]

    groups: list[tuple[list[Run], int]] = []
    for index in drawn:
        runs, like = groups[-1] if groups else ([], -1)
        run = stretches[index]
        if runs and run[0] == runs[-1][1] + 1 and history(index) == history(like):
            runs[-1] = runs[-1][0], run[1]
        else:
            groups.append(([run], index))
    return groups


def _cell(runs: list[Run], index: int, now: _Iteration, before: _Iteration | None) -> Cell:
    owners = now.owned.get(index, ())
    then = before.owned.get(index, ()) if before is not None else ()
    locked = any(kind == PROTECTED for _, kind in owners)
    readers = () if locked else now.read.get(index, ())
    if len(owners) == 1:
        ((_, own),) = owners
        kind = STALE if readers else own
    else:
        kind = SHARED if owners else LOST
    have, had = (tuple(holder for holder, _ in who) for who in (owners, then))
    changed = before is not None and owners != then
    return Cell(text(runs), count(runs), kind, have, changed, had, readers)
