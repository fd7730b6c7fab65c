"""INV-OWNER, INV-BACKED, INV-ALIGN.positions, INV-CURSOR.given_back: the pages themselves.

Counts are blind to a page with two owners while another has none; here every
page of every pool is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from slotproof.conformance.lockstep.observation import Observation, Owner, Violation
from slotproof.conformance.protocol.snapshot import POOL_NAMES, Snapshot


def judge(seen: Observation) -> Iterator[Violation]:
    for pool in POOL_NAMES:
        if pool in seen.snapshot["pools"]:
            yield from _ownership(seen, pool)
    seen.coverage.checked["INV-OWNER"] += 1
    seen.coverage.checked["INV-BACKED"] += 1


def _ownership(seen: Observation, pool: str) -> Iterator[Violation]:
    size = seen.config.page_size
    view = seen.snapshot["pools"][pool]
    tree = dict(seen.snapshot["tree"].get(pool, ()))
    owners: dict[int, list[str]] = {}
    for page in view["free"]:
        owners.setdefault(page, []).append("the free list")
    for page, _ in seen.snapshot["tree"].get(pool, ()):
        owners.setdefault(page, []).append("the tree")
    for owner in seen.owners:
        yield from _row(seen, pool, owner, tree)
        for page in own_pages(seen.snapshot, owner, pool, size):
            owners.setdefault(page, []).append(owner.name)
    stray = outside(owners, view["total"] // size)
    if stray is not None:
        text = f"{pool}: page {stray} belongs to {all_of(owners[stray])}"
        count = view["total"] // size
        yield Violation("INV-OWNER", "range", f"{text}, and the pool has {count} pages")
    twice = len(view["free"]) - len(set(view["free"]))
    if twice:
        yield Violation(
            "INV-OWNER", "free_twice", f"{pool}: {twice} page(s) are in the free list twice"
        )
    shared = {
        page: names
        for page, names in owners.items()
        if len(names) > 1 and set(names) != {"the free list"}
    }
    if shared:
        page, names = min(shared.items())
        text = f"{pool}: page {page} belongs to {all_of(names)}"
        yield Violation("INV-OWNER", "shared", _more(text, len(shared)))
    missing = view["total"] // size - len(owners)
    if missing < 0:
        text = f"{pool}: {-missing} page(s) more than the pool has"
        yield Violation("INV-OWNER", "shared", text)
    if missing > 0:
        yield Violation(
            "INV-OWNER",
            "lost",
            f"{pool}: {missing} of {view['total'] // size} pages belong to nobody "
            f"({missing * size} tokens)",
        )


def outside(numbers: Collection[int], count: int) -> int | None:
    """A number that is none of so many pages or rows; engines count them from 0 or from 1.

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
    """The pages of an owner's row that are its own, in the order of positions."""
    start = owner.Q if pool == "full" else max(owner.Q, owner.E)
    firsts = row_indices(snapshot, owner, pool)[start - start % size :: size]
    return [index // size for index in firsts if index >= 0]


def row_indices(snapshot: Snapshot, owner: Owner, pool: str) -> list[int]:
    """KV indices of the positions that the owner has allocated."""
    used = snapshot["rows"]["used"].get(str(owner.row))
    if used is None:
        return []
    indices: list[int] = used.get(pool, [])  # type: ignore[assignment]
    return indices[: owner.A]


def _row(seen: Observation, pool: str, owner: Owner, tree: dict[int, int]) -> Iterator[Violation]:
    """What the row says about each position, page by page."""
    size = seen.config.page_size
    indices = row_indices(seen.snapshot, owner, pool)
    if len(indices) < owner.A:
        text = (
            f"{pool}: row {owner.row} of {owner.name} shows {len(indices)} of {owner.A} positions"
        )
        yield Violation("INV-BACKED", "private", text)
    pages = seen.snapshot["pools"][pool]["total"] // size
    cursor = owner.E if pool == "swa" else 0
    for position, index in enumerate(indices):
        where = f"{pool}: position {position} of {owner.name}"
        if index < -1 or index // size > pages:
            text = f"{where} lies at index {index}, and the pool has {pages} pages"
            yield Violation("INV-OWNER", "range", text)
            return
        if position < cursor:
            if pool == "swa" and index >= 0 and position >= owner.Q:
                text = f"{where} lies below the cursor {cursor} and still has index {index}"
                yield Violation("INV-CURSOR", "given_back", text)
                return
            continue
        tree_s = position < owner.Q
        unread = pool == "swa" and position < owner.C - seen.config.window
        if tree_s and unread and index < 0:
            continue  # the tree may have given it back: no later token looks there
        if index < 0:
            yield Violation("INV-BACKED", "private", f"{where} has no page")
            return
        if index % size != position % size or (
            position % size and index != indices[position - 1] + 1
        ):
            yield Violation("INV-ALIGN", "positions", f"{where} lies at index {index}")
            return
        if tree_s and not unread and tree.get(index // size, 0) < 1:
            text = f"{where} is in page {index // size}, which the tree does not hold locked"
            yield Violation("INV-BACKED", "protected", text)
            return


def all_of(names: list[str]) -> str:
    """Some names in a sentence.

    >>> all_of(["s1", "s2"]), all_of(["a", "b", "c", "d", "e"])
    ('s1 and s2', 'a and b and c and 2 more')
    """
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return " and ".join(shown)


def _more(text: str, count: int) -> str:
    return text if count == 1 else f"{text} (and {count - 1} more)"
