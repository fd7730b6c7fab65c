"""The pages of a pool with their owners, iteration by iteration."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from slotproof.conformance import bounds
from slotproof.conformance.traces.runs import Run, count, joined, runs_in, text

SINGLY = 160
"""Up to so many pages each has a cell of its own; of more, neighbours with one history share."""

FREE, EVICTABLE, PROTECTED, HELD, UNCACHED = (
    "available",
    "evictable",
    "protected",
    "held",
    "uncached",
)
LOST, SHARED, STALE = "lost", "shared", "stale"
"""A page that nobody has; that two have; that is read and not kept for its reader."""
MARKS = {
    FREE: "free",
    EVICTABLE: "tree",
    PROTECTED: "lock",
    HELD: "slot",
    UNCACHED: "turn",
    LOST: "?",
    SHARED: "‼",
    STALE: "!",
}
"""What a cell says where no name fits."""


@dataclass(frozen=True)
class Cell:
    """A page, or neighbours with one history."""

    pages: str
    """``7`` or ``7-63``; empty for a page whose number nobody knows."""
    count: int
    kind: str
    """Which figure of the equation it counts for; or *lost*, *shared*, *stale*."""
    owners: tuple[str, ...]
    changed: bool
    """It had other owners in the iteration before."""
    before: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    """Of a page that is not kept for them: whose row points to it."""

    @property
    def mark(self) -> str:
        """A few letters: readable without colour."""
        if self.kind in (HELD, UNCACHED):
            return self.owners[0].removeprefix("slot of ")
        return MARKS[self.kind]

    @property
    def short(self) -> str:
        """What is wrong with it in a few letters."""
        if self.kind == STALE:
            return f"!{'+'.join(who.removeprefix('slot of ') for who in self.readers)}"
        if self.kind == LOST:
            return MARKS[LOST]
        names = {"the free list": "free", "the tree": "tree"}
        return "+".join(names.get(who, who.removeprefix("slot of ")) for who in self.owners)

    @property
    def words(self) -> str:
        """One line about it."""
        text = f"{self.what}: {self.state}"
        if self.changed:
            text += f" (before: {' and '.join(self.before) or 'nobody'})"
        return text

    @property
    def what(self) -> str:
        """``page 7``, ``pages 7-9``, ``3 pages`` where nobody knows which."""
        if not self.pages:
            return "a page" if self.count == 1 else f"{self.count} pages"
        return f"page {self.pages}" if self.count == 1 else f"pages {self.pages}"

    @property
    def state(self) -> str:
        """Whose it is."""
        return state_of(self, self.count)


def state_of(cell: Cell, count: int) -> str:
    """Whose so many pages like this one are."""
    owners = " and ".join(cell.owners) or "nobody"
    belong = "belongs" if count == 1 else "belong"
    it, they = ("it", "it") if count == 1 else ("them", "they")
    read = "read" if len(cell.readers) > 1 else "reads"
    readers = f"{' and '.join(cell.readers)} {read} {it}"
    if cell.kind == STALE:
        return f"{readers}, and {they} {belong} to {owners}"
    return f"{belong} to {owners}" + (f", and {readers}" if cell.readers else "")


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
class Picture:
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


Who = tuple[tuple[str, str], ...]
"""(owner, kind) of everyone who has a page."""


class _TooMany(Exception):
    """More than is drawn."""


@dataclass
class _Iteration:
    """Whose each stretch of pages is, and who reads it; stretches have numbers."""

    owned: dict[int, Who]
    read: dict[int, tuple[str, ...]]


def pictures(frames: Sequence[Any], pool: str, page_size: int) -> tuple[list[Picture | None], str]:
    """One picture per frame (``None``: it shows no pages), and why there are none, if so."""
    sizes = [frame.pools[pool]["total"] // page_size for frame in frames if pool in frame.pools]
    size = max(sizes, default=0)
    if not any(pool in frame.pages for frame in frames):
        why = "the trace has no pages: it is an older one or has no states, replay it"
        return [None] * len(frames), why
    if size > bounds.DRAWN_PAGES:
        return [None] * len(frames), f"the pool has {size} pages: too many to draw"
    try:
        return list(_drawn(frames, pool, page_size, size)), ""
    except _TooMany:
        return [None] * len(frames), "there is too much to draw: shrink the trace"


def _drawn(frames: Sequence[Any], pool: str, page_size: int, size: int) -> Iterator[Picture | None]:
    """The pictures. Pages that nothing tells apart are one stretch, however many they are."""
    shown = [frame.pages.get(pool) for frame in frames]
    visible = [holdings for holdings in shown if holdings is not None]
    whole = _whole(visible, size)
    stretches = _stretches(visible, whole)
    if len(stretches) * len(frames) > bounds.DRAWN_CELLS:
        raise _TooMany
    seen = [None if holdings is None else _iteration(holdings, stretches) for holdings in shown]
    groups = _groups(stretches, whole, [each for each in seen if each is not None])
    before: _Iteration | None = None
    for frame, holdings, now in zip(frames, shown, seen, strict=True):
        if now is None:
            yield None
            continue
        cells = [_cell(group, stretches, now, before) for group in groups]
        known = sum(count([stretches[index]]) for index in now.owned)
        lost = sum(cell.count for cell in cells if cell.kind == LOST)
        unknown = frame.pools.get(pool, {}).get("total", 0) // page_size - known - lost
        if unknown > 0:
            cells.append(Cell("", unknown, LOST, (), changed=False))
        yield Picture(cells, list(_lines(holdings, stretches, now)))
        before = now


def _runs(holding: dict[str, Any]) -> Iterator[Run]:
    """The runs that a holding speaks of."""
    yield from runs_in(holding["pages"])
    yield from runs_in(holding.get("reads", ""))


def _whole(shown: Iterable[Sequence[dict[str, Any]]], size: int) -> Run | None:
    """All pages of the pool: engines number them from 0 or from 1. Between those that were
    seen, if it can't be told; ``None`` if they are more than the pool has."""
    owned = [run for holdings in shown for each in holdings for run in runs_in(each["pages"])]
    if not owned:
        return None
    low, high = min(first for first, _ in owned), max(last for _, last in owned)
    fit = [first for first in (0, 1) if first <= low <= high < size + first]
    if len(fit) == 1:
        return fit[0], size + fit[0] - 1
    return (low, high) if high - low + 1 <= size else None


def _stretches(shown: Iterable[Sequence[dict[str, Any]]], whole: Run | None) -> list[Run]:
    """Runs of pages that no iteration tells apart, in order; of few pages, single pages."""
    runs = {run for holdings in shown for holding in holdings for run in _runs(holding)}
    if whole is not None:
        runs.add(whole)
    covered = list(_union(runs))
    if count(covered) <= SINGLY:
        return [(page, page) for first, last in covered for page in range(first, last + 1)]
    cuts = sorted({edge for first, last in runs for edge in (first, last + 1)})
    if len(cuts) > bounds.DRAWN_CELLS:
        raise _TooMany
    starts = [first for first, _ in covered]
    return [
        (first, end - 1)
        for first, end in pairwise(cuts)
        if first <= covered[bisect_right(starts, first) - 1][1]
    ]


def _union(runs: Iterable[Run]) -> Iterator[Run]:
    """Disjoint runs with the same pages, in order."""
    current: Run | None = None
    for first, last in sorted(runs):
        if current is not None and first <= current[1] + 1:
            current = current[0], max(last, current[1])
            continue
        if current is not None:
            yield current
        current = first, last
    if current is not None:
        yield current


def _iteration(holdings: Sequence[dict[str, Any]], stretches: list[Run]) -> _Iteration:
    """Who has and who reads each stretch."""
    owned: dict[int, Who] = {}
    read: dict[int, tuple[str, ...]] = {}
    budget = bounds.DRAWN_CELLS
    for holding in holdings:
        name, who = _name(holding), (_name(holding), _kind(holding))
        for index in _indices(runs_in(holding["pages"]), stretches):
            owned[index] = (*owned.get(index, ()), who)
            budget -= len(owned[index])
            if budget < 0:
                raise _TooMany
        for index in _indices(runs_in(holding.get("reads", "")), stretches):
            read[index] = (*read.get(index, ()), name)
            budget -= len(read[index])
            if budget < 0:
                raise _TooMany
    return _Iteration(owned, read)


def _indices(runs: Iterable[Run], stretches: list[Run]) -> Iterator[int]:
    """The numbers of the stretches that the runs consist of."""
    starts = [first for first, _ in stretches]
    for first, last in runs:
        yield from range(bisect_left(starts, first), bisect_right(starts, last))


def _name(holding: dict[str, Any]) -> str:
    kind = holding["kind"]
    if kind == "free":
        return "the free list"
    if kind == "tree":
        return "the tree"
    return f"slot of {holding.get('name', '?')}" if kind == "slot" else holding.get("name", "?")


def _kind(holding: dict[str, Any]) -> str:
    if holding["kind"] == "tree":
        return PROTECTED if holding.get("locks", 0) else EVICTABLE
    return {"free": FREE, "slot": HELD, "request": UNCACHED}[holding["kind"]]


def _lines(
    holdings: Sequence[dict[str, Any]], stretches: list[Run], now: _Iteration
) -> Iterator[Holding]:
    kept = {i for i, who in now.owned.items() if any(kind == PROTECTED for _, kind in who)}
    for holding in holdings:
        name, locks = _name(holding), holding.get("locks", 0)
        if holding["kind"] == "tree":
            name += f", locked {locks}×" if locks else ", not locked"
        pages = count(runs_in(holding["pages"]))
        reads = sorted(set(_indices(runs_in(holding.get("reads", "")), stretches)))
        if pages or reads:
            safe = joined(stretches[index] for index in reads if index in kept)
            strays = joined(stretches[index] for index in reads if index not in kept)
            yield Holding(name, holding["pages"], pages, text(safe), text(strays))


def _groups(stretches: list[Run], whole: Run | None, seen: Sequence[_Iteration]) -> list[list[int]]:
    """Stretches that are drawn, those together that are drawn as one: of a large pool,
    neighbours with one history. What is only read is no page of the pool."""
    owned = {index for each in seen for index in each.owned}
    low, high = whole or (1, 0)
    drawn = [i for i, (first, _) in enumerate(stretches) if low <= first <= high or i in owned]
    if count(stretches[index] for index in drawn) <= SINGLY:
        return [[index] for index in drawn]

    def history(index: int) -> tuple[Any, ...]:
        whose = (now.owned.get(index) for now in seen)
        return (*whose, *(now.read.get(index) for now in seen))

    groups: list[list[int]] = []
    for index in drawn:
        last = groups[-1][-1] if groups else -1
        beside = last >= 0 and stretches[index][0] == stretches[last][1] + 1
        if beside and history(index) == history(last):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _cell(
    group: list[int], stretches: list[Run], now: _Iteration, before: _Iteration | None
) -> Cell:
    owners = now.owned.get(group[0], ())
    then = before.owned.get(group[0], ()) if before is not None else ()
    locked = any(kind == PROTECTED for _, kind in owners)
    readers = () if locked else now.read.get(group[0], ())
    if not owners:
        kind = LOST
    elif len(owners) > 1:
        kind = SHARED
    else:
        kind = STALE if readers else owners[0][1]
    names, past = tuple(who for who, _ in owners), tuple(who for who, _ in then)
    changed = before is not None and owners != then
    runs = joined(stretches[index] for index in group)
    return Cell(text(runs), count(runs), kind, names, changed, past, readers)
