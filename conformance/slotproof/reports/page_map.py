"""Owners of each page of a KV pool, iteration by iteration."""

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
"""Largest pool drawn page by page. In larger pools, neighbors with equal histories share a cell."""

FREE, EVICTABLE, PROTECTED, HELD, UNCACHED = TERMS
LOST, SHARED, STALE = "lost", "shared", "stale"
"""Kinds of wrong page: without an owner, with two owners, or read by a row without a lock."""
_LABELS = {EVICTABLE: "tree", PROTECTED: "lock", LOST: "?"}


def names(holders: Iterable[Holder]) -> str:
    """Return the holders in a phrase.

    >>> names([Holder("slot", "s1"), Holder("free")]), names([])
    ('slot of s1 and the free list', 'nobody')
    """
    return " and ".join(map(str, holders)) or "nobody"


@dataclass(frozen=True)
class Cell:
    """A page, or adjacent pages with the same history."""

    pages: str
    """Page numbers, as ``7`` or ``7-63``. Empty if the numbers are unknown."""
    count: int
    kind: str
    """Term of the equation that counts the page, or one of *lost*, *shared* and *stale*."""
    owners: tuple[Holder, ...]
    changed: bool
    """True if the owners changed in this iteration."""
    before: tuple[Holder, ...] = ()
    readers: tuple[Holder, ...] = ()
    """Slots and requests whose row reads the page although no lock protects the page."""

    @property
    def label(self) -> str:
        """Owners or readers in a few letters, readable without color."""
        if self.kind in _LABELS:
            return _LABELS[self.kind]
        mark, whose = ("!", self.readers) if self.kind == STALE else ("", self.owners)
        return mark + "+".join(who.name or who.kind for who in whose)

    @property
    def words(self) -> str:
        """Pages, owners and readers, in one line."""
        what = "a page" if self.count == 1 else f"{self.count} pages"
        if self.pages:
            what = f"{'page' if self.count == 1 else 'pages'} {self.pages}"
        before = f" (before: {names(self.before)})" if self.changed else ""
        return f"{what}: {state_of(self, self.count)}{before}"


def state_of(cell: Cell, count: int) -> str:
    """Return the end of a sentence about ``count`` pages: the owners and readers of ``cell``."""
    belong = "belongs" if count == 1 else "belong"
    it, they = ("it", "it") if count == 1 else ("them", "they")
    readers = f"{names(cell.readers)} {'read' if len(cell.readers) > 1 else 'reads'} {it}"
    if cell.kind == STALE:
        return f"{readers}, and {they} {belong} to {names(cell.owners)}"
    return f"{belong} to {names(cell.owners)}" + (f", and {readers}" if cell.readers else "")


@dataclass(frozen=True)
class Holding:
    """Pages of one owner. ``pages`` is like ``1 3-4``."""

    name: str
    pages: str
    count: int
    reads: str
    """Pages of the prefix tree that the owner's row reads and a lock protects."""
    strays: str
    """Pages that the owner's row reads although no lock protects the pages."""


@dataclass(frozen=True)
class PageMap:
    """One pool after one iteration."""

    cells: list[Cell]
    holdings: list[Holding]

    @property
    def moved(self) -> bool:
        """True if any page changed its owners in this iteration."""
        return any(cell.changed for cell in self.cells)

    @property
    def wrong(self) -> list[Cell]:
        """Pages that have two owners or none, or that are read without protection."""
        return [cell for cell in self.cells if cell.kind in (LOST, SHARED, STALE)]


class _TooMany(Exception):
    """Signal that the page maps have more cells than slotproof draws."""


_Owner = tuple[Holder, str]
"""An owner of pages, and the equation's term that counts the owner's pages."""


@dataclass
class _Iteration:
    """Owners and readers of each stretch of pages. The keys are indices of stretches."""

    owned: defaultdict[int, tuple[_Owner, ...]]
    read: defaultdict[int, tuple[Holder, ...]]


def page_maps(frames: Sequence[Any], pool: str, page_size: int) -> tuple[list[PageMap | None], str]:
    """Return a page map, or None, for each frame. Also return the reason if no map is drawn."""
    sizes = [frame.pools[pool]["total"] // page_size for frame in frames if pool in frame.pools]
    size = max(sizes, default=0)
    nothing: list[PageMap | None] = [None] * len(frames)
    if not any(pool in frame.pages for frame in frames):
        return nothing, "the log does not have the pages of the free list, the tree and the rows"
    if size > bounds.DRAWN_PAGES:
        return nothing, f"the pool has {size} pages, which are too many to draw"
    try:
        return list(_drawn(frames, pool, page_size, size)), ""
    except _TooMany:
        return nothing, "the trace has too many pages and iterations to draw: shrink the trace"


def _drawn(frames: Sequence[Any], pool: str, page_size: int, size: int) -> Iterator[PageMap | None]:
    """Yield a map per frame. Adjacent pages that have the same history form one stretch."""
    shown = [frame.pages.get(pool) for frame in frames]
    visible = [holding for holdings in shown for holding in holdings or ()]
    owned = {run for holding in visible for run in runs_in(holding["pages"])}
    whole = _whole(owned, size)
    # Adjacent pages with the same history are one run, with or without an owner.
    runs = owned.union(
        *(runs_in(row.get("reads", "")) for row in visible), [whole] if whole is not None else ()
    )
    cuts = sorted({edge for first, last in runs for edge in (first, last + 1)})
    stretches = [(first, end - 1) for first, end in pairwise(cuts)]
    _few(len(stretches) * len(frames))
    seen = [None if holdings is None else _iteration(holdings, stretches) for holdings in shown]
    groups = _groups(stretches, whole, [iteration for iteration in seen if iteration is not None])
    _few(len(groups) * len(frames))
    before: _Iteration | None = None
    for frame, holdings, now in zip(frames, shown, seen, strict=True):
        if now is None:
            yield None
            continue
        cells = [_cell(runs, index, now, before) for runs, index in groups]
        known = count(stretches[index] for index in now.owned)
        lost = sum(cell.count for cell in cells if cell.kind == LOST)
        if (unknown := frame.pools.get(pool, {}).get("total", 0) // page_size - known - lost) > 0:
            cells.append(Cell("", unknown, LOST, (), changed=False))
        yield PageMap(cells, list(_holdings(holdings, stretches, now)))
        before = now


def _few(cells: int) -> None:
    if cells > bounds.DRAWN_CELLS:
        raise _TooMany


def _whole(owned: Iterable[Run], size: int) -> Run | None:
    """Return the first and last page of the pool. Engines number pages from 0 or 1. If the owned
    pages do not decide, return their range, or None if the range exceeds the pool."""
    if not owned:
        return None
    low, high = min(first for first, _ in owned), max(last for _, last in owned)
    fit = [first for first in (0, 1) if first <= low <= high < size + first]
    if len(fit) == 1:
        return fit[0], size + fit[0] - 1
    return (low, high) if high - low + 1 <= size else None


def _iteration(holdings: Sequence[dict[str, Any]], stretches: list[Run]) -> _Iteration:
    """Return the owners and readers of each stretch in one iteration."""
    now = _Iteration(defaultdict(tuple), defaultdict(tuple))
    listed = 0
    for holding in holdings:
        owner = _owner(holding)
        whose: list[tuple[defaultdict[int, Any], list[Run], Any]] = [
            (now.owned, runs_in(holding["pages"]), owner),
            (now.read, runs_in(holding.get("reads", "")), owner[0]),
        ]
        for table, runs, entry in whose:
            for index in _indices(runs, stretches):
                table[index] += (entry,)
                listed += len(table[index])
                _few(listed)
    return now


def _indices(runs: Iterable[Run], stretches: list[Run]) -> Iterator[int]:
    """Yield the indices of the stretches covered by ``runs``."""
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
    """Return each cell's page runs, and a stretch index that gives the cell's history. A cell is a
    page in a small pool, a history in a large pool. Unowned pages outside a pool are left out."""
    owned = {index for iteration in seen for index in iteration.owned}
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
    readers = () if any(kind == PROTECTED for _, kind in owners) else now.read.get(index, ())
    if len(owners) == 1:
        ((_, own),) = owners
        kind = STALE if readers else own
    else:
        kind = SHARED if owners else LOST
    have, had = (tuple(holder for holder, _ in who) for who in (owners, then))
    changed = before is not None and owners != then
    return Cell(text(runs), count(runs), kind, have, changed, had, readers)
