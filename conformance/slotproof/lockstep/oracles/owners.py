"""INV-OWNER, INV-BACKED, INV-ALIGN.positions and INV-CURSOR.given_back, checked page by page.

If one page has two owners and another page has none, all totals still match. The oracle therefore
checks every page of every pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

from slotproof.lockstep.observation import Holder, Observation, Owner, Violation, violated
from slotproof.protocol.snapshot import POOL_NAMES, Snapshot

_FREE, _TREE = Holder("free"), Holder("tree")
_BELONGS = "{pool}: page {page} belongs to {owners}"


def judge(seen: Observation) -> Iterator[Violation]:
    for pool in POOL_NAMES if judge not in seen.quiet else ():
        if pool in seen.snapshot["pools"]:
            yield from _ownership(seen, pool)
    seen.coverage.checked["INV-OWNER"] += 1
    seen.coverage.checked["INV-BACKED"] += 1


def _ownership(seen: Observation, pool: str) -> Iterator[Violation]:
    size = seen.config.page_size
    view = seen.snapshot["pools"][pool]
    shown = seen.snapshot["tree"].get(pool, ())
    tree = dict(shown)
    held = [(_FREE, view["free"]), (_TREE, [page for page, _ in shown])]
    for owner in seen.owners:
        yield from _row(seen, pool, owner, tree)
        held.append((owner.holder, own_pages(seen.snapshot, owner, pool, size)))
    count = view["total"] // size
    every = {page for _, pages in held for page in pages}
    if sum(len(own) for _, own in held) == len(every) == count and outside(every, count) is None:
        return  # Each page of the pool is in exactly one list, so no check below can fail.
    owners: dict[int, list[Holder]] = {}
    for holder, pages in held:
        for page in pages:
            owners.setdefault(page, []).append(holder)
    if (stray := outside(owners, count)) is not None:
        words, holders = _BELONGS + ", but the pool has {n} pages", tuple(owners[stray])
        yield violated("INV-OWNER.range", words, pool=pool, page=stray, owners=holders, n=count)
    if twice := [page for page, times in Counter(view["free"]).items() if times > 1]:
        words, page = "{pool}: {twice} page(s) are in the free list twice: page {page}", twice[0]
        yield violated("INV-OWNER.free_twice", words, pool=pool, twice=len(twice), page=page)
    if shared := {
        page: tuple(holders)
        for page, holders in owners.items()
        if len(holders) > 1 and set(holders) != {_FREE}
    }:
        page, holders = min(shared.items())
        words = _BELONGS + (f" (and {len(shared) - 1} more)" if len(shared) > 1 else "")
        yield violated("INV-OWNER.shared", words, pool=pool, page=page, owners=holders)
    if (owned := len(owners)) > count:
        words = "{pool}: {engine} pages have an owner, {more} more than the {spec} of the pool"
        yield violated(
            "INV-OWNER.shared", words, pool=pool, spec=count, engine=owned, more=owned - count
        )
    if owned < count:
        words = "{pool}: {lost} of {spec} pages have no owner ({tokens} tokens): {which}"
        yield violated(
            "INV-OWNER.lost",
            words,
            pool=pool,
            spec=count,
            engine=owned,
            lost=count - owned,
            tokens=(count - owned) * size,
            which=_pages(owners, count),
        )


def _pages(owned: Collection[int], count: int) -> str:
    """Return the names of the pool's pages outside ``owned``. Engines number pages from 0 or 1.

    >>> _pages([0, 2], 3), _pages([1, 3, 4, 5, 6], 6), _pages([], 9)
    ('page 1', 'page 2', 'pages 0, 1, 2, 3, …')
    """
    first = int(count in owned)
    every = range(first, count + first)  # A driver may report a pool of any size.
    lost = list(islice((page for page in every if page not in owned), 5))
    shown = ", ".join(map(str, lost[:4])) + (", …" if len(lost) > 4 else "")
    return f"page{'s' if len(lost) > 1 else ''} {shown}"


def outside(numbers: Collection[int], count: int) -> int | None:
    """Return a number that can't be one of ``count`` pages or rows. Engines number from 0 or 1.

    >>> outside([0, 1, 2], 3), outside([1, 2, 3], 3), outside([0, 1, 3], 3), outside([-7], 3)
    (None, None, 3, -7)
    """
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    if low < 0:
        return low
    return high if high >= count + (low > 0) else None


def own_pages(snapshot: Snapshot, owner: Owner, pool: str, size: int) -> list[int]:
    """Return the pages of an owner's row that are not in the tree, in the order of positions."""
    start = owner.Q if pool == "full" else max(owner.Q, owner.E)
    firsts = row_indices(snapshot, owner, pool)[start - start % size :: size]
    return [index // size for index in firsts if index >= 0]


def row_indices(snapshot: Snapshot, owner: Owner, pool: str) -> list[int]:
    """Return the KV index of each position that the owner has allocated."""
    used: Any = snapshot["rows"]["used"].get(str(owner.row), {})
    indices: list[int] = used.get(pool, [])
    return indices[: owner.A]


def _row(seen: Observation, pool: str, owner: Owner, tree: dict[int, int]) -> Iterator[Violation]:
    """Check the positions of a row. Yield a violation for the first wrong position."""
    size = seen.config.page_size
    indices = row_indices(seen.snapshot, owner, pool)
    pages = seen.snapshot["pools"][pool]["total"] // size
    if len(indices) < owner.A:
        words = "{pool}: row {row} of {owners} has {engine} of {spec} positions"
        yield violated(
            "INV-BACKED.private",
            words,
            pool=pool,
            owners=(owner.holder,),
            row=owner.row,
            spec=owner.A,
            engine=len(indices),
        )
    for position, clause in _wrong(seen, pool, owner, indices, tree):
        index = indices[position]
        words = "{pool}: position {position} of {owners} " + _WORDS[clause]
        yield violated(
            clause,
            words,
            pool=pool,
            owners=(owner.holder,),
            position=position,
            index=index,
            page=index // size if index >= 0 else None,
            pages=pages,
            cursor=owner.E,
        )
        return


_WORDS = {
    "INV-OWNER.range": "is at index {index}, but the pool has {pages} pages",
    "INV-CURSOR.given_back": "is below the cursor {cursor} but still has index {index}",
    "INV-BACKED.private": "has no page",
    "INV-ALIGN.positions": "is at index {index}, which does not fit its place in a page",
    "INV-BACKED.protected": "is in page {page}, which is not locked in the tree",
}


def _wrong(
    seen: Observation, pool: str, owner: Owner, indices: list[int], tree: dict[int, int]
) -> Iterator[tuple[int, str]]:
    """Yield each wrong position of the row with the clause that it breaks."""
    size = seen.config.page_size
    pages = seen.snapshot["pools"][pool]["total"] // size
    cursor = owner.E if pool == "swa" else 0
    for position, index in enumerate(indices):
        if index < -1 or index // size > pages:
            yield position, "INV-OWNER.range"
        if position < cursor:
            if pool == "swa" and index >= 0 and position >= owner.Q:
                yield position, "INV-CURSOR.given_back"
            continue
        tree_s = position < owner.Q
        unread = pool == "swa" and position < owner.C - seen.config.window
        if tree_s and unread and index < 0:
            continue  # The tree may have freed this page, as no later token reads it.
        if index < 0:
            yield position, "INV-BACKED.private"
        if index % size != position % size or (
            position % size and index != indices[position - 1] + 1
        ):
            yield position, "INV-ALIGN.positions"
        if tree_s and not unread and tree.get(index // size, 0) < 1:
            yield position, "INV-BACKED.protected"
