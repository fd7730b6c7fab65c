"""The pages of a pool with their owners, iteration by iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from slotproof.conformance.traces.frames import pages_in, spans

SINGLY = 160
"""Up to so many pages each has a cell of its own; of more, neighbours with one history share."""
MOST = 100_000
"""Larger pools are not drawn."""

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


Owners = dict[int, tuple[tuple[str, str], ...]]
"""By page, (owner, kind) of everyone who has it."""


def pictures(frames: Sequence[Any], pool: str, page_size: int) -> tuple[list[Picture | None], str]:
    """One picture per frame (``None``: it shows no pages), and why there are none, if so."""
    sizes = [frame.pools[pool]["total"] // page_size for frame in frames if pool in frame.pools]
    if not any(pool in frame.pages for frame in frames):
        return [None] * len(frames), "the trace has no pages: it is an older one, replay it"
    if max(sizes, default=0) > MOST:
        return [None] * len(frames), f"the pool has {max(sizes)} pages: too many to draw"
    owned = [_owners(frame.pages[pool]) if pool in frame.pages else None for frame in frames]
    known = {page for each in owned if each is not None for page in each}
    known = _numbers(known, max(sizes, default=0))
    readers = [_readers(frame.pages.get(pool, ())) for frame in frames]
    groups = _groups(sorted(known), owned, readers)
    result: list[Picture | None] = []
    before: Owners | None = None
    for frame, now, read in zip(frames, owned, readers, strict=True):
        if now is None:
            result.append(None)
            continue
        cells = [_cell(group, now, before, read) for group in groups]
        total = frame.pools.get(pool, {}).get("total", 0) // page_size
        unknown = total - len(now) - sum(cell.count for cell in cells if cell.kind == LOST)
        if unknown > 0:
            cells.append(Cell("", unknown, LOST, (), changed=False))
        result.append(Picture(cells, list(_lines(frame.pages[pool], now))))
        before = now
    return result, ""


def _numbers(known: set[int], total: int) -> set[int]:
    """All pages of the pool: engines number them from 0 or from 1. Those that were seen, if it
    can't be told."""
    fit = [first for first in (0, 1) if known and first <= min(known) <= max(known) < total + first]
    if len(fit) == 1:
        return set(range(fit[0], total + fit[0]))
    if known and max(known) - min(known) + 1 <= total:
        return set(range(min(known), max(known) + 1))
    return known


def _owners(holdings: Sequence[dict[str, Any]]) -> Owners:
    owners: dict[int, list[tuple[str, str]]] = {}
    for holding in holdings:
        who = (_name(holding), _kind(holding))
        for page in pages_in(holding["pages"]):
            owners.setdefault(page, []).append(who)
    return {page: tuple(each) for page, each in owners.items()}


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


def _lines(holdings: Sequence[dict[str, Any]], owners: Owners) -> Iterator[Holding]:
    kept = {page for page, each in owners.items() if any(kind == PROTECTED for _, kind in each)}
    for holding in holdings:
        name, locks = _name(holding), holding.get("locks", 0)
        if holding["kind"] == "tree":
            name += f", locked {locks}×" if locks else ", not locked"
        count = len(pages_in(holding["pages"]))
        reads = pages_in(holding.get("reads", ""))
        if count or reads:
            safe, strays = sorted(set(reads) & kept), sorted(set(reads) - kept)
            yield Holding(name, holding["pages"], count, spans(safe), spans(strays))


def _readers(holdings: Sequence[dict[str, Any]]) -> dict[int, tuple[str, ...]]:
    """By page, whose row points to it without owning it."""
    readers: dict[int, tuple[str, ...]] = {}
    for holding in holdings:
        for page in pages_in(holding.get("reads", "")):
            readers[page] = (*readers.get(page, ()), _name(holding))
    return readers


def _groups(
    pages: list[int], owned: Sequence[Owners | None], readers: Sequence[dict[int, tuple[str, ...]]]
) -> list[list[int]]:
    if len(pages) <= SINGLY:
        return [[page] for page in pages]

    def history(page: int) -> tuple[Any, ...]:
        whose = (now.get(page) for now in owned if now is not None)
        return (*whose, *(read.get(page) for read in readers))

    return [
        [page for _, page in group]
        for _, group in groupby(
            enumerate(pages), key=lambda pair: (history(pair[1]), pair[1] - pair[0])
        )
    ]


def _cell(
    group: list[int], now: Owners, before: Owners | None, read: dict[int, tuple[str, ...]]
) -> Cell:
    page = group[0]
    owners, then = now.get(page, ()), (before or {}).get(page, ())
    readers = () if any(kind == PROTECTED for _, kind in owners) else read.get(page, ())
    if not owners:
        kind = LOST
    elif len(owners) > 1:
        kind = SHARED
    else:
        kind = STALE if readers else owners[0][1]
    names, past = tuple(who for who, _ in owners), tuple(who for who, _ in then)
    changed = before is not None and owners != then
    return Cell(spans(group), len(group), kind, names, changed, past, readers)
