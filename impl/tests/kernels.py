"""Shared parts of kernel tests: devices for Triton, and random pools with their owners."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

import torch

from slotproof_engine.kv.audit import Kind, Ownership

PAGE_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Pool:
    """Owners of pages, as plain lists."""

    page_size: int
    pages: int
    first_page: int
    table: list[list[int]]
    rows: list[int]
    allocated: list[int]
    protected: list[int]
    evicted: list[int]
    tree: list[int]
    free: list[int]

    def tensors(self, device: str, *, counts: bool, short: bool) -> Ownership:
        """``counts``: lists have entries past the count. ``short``: int32."""

        def tensor(values: object) -> torch.Tensor:
            kind = torch.int32 if short else torch.int64
            return torch.tensor(values, dtype=kind, device=device)

        more = [0, 0, 1] if counts else []
        return Ownership(
            req_to_token=tensor(self.table),
            rows=tensor(self.rows),
            allocated=tensor(self.allocated),
            protected=tensor(self.protected),
            evicted=tensor(self.evicted),
            tree_pages=tensor([*self.tree, -1, *more]),
            free_pages=tensor([-7, *self.free, *more]),
            tree_count=tensor([len(self.tree) + 1]) if counts else None,
            free_count=tensor([len(self.free) + 1]) if counts else None,
        )

    def by_hand(self) -> dict[Kind, tuple[int, int | tuple[int, int]]]:
        """Return count and first offender of each kind, page by page."""
        row_owners: Counter[int] = Counter()
        bad: dict[Kind, list[int | tuple[int, int]]] = {}
        ids = range(self.first_page, self.first_page + self.pages)
        size = self.page_size

        def report(kind: Kind, where: int | tuple[int, int]) -> None:
            bad.setdefault(kind, []).append(where)

        for page in (*self.tree, *self.free):
            if page >= 0 and page not in ids:
                report(Kind.STRAY, page)
        tree = Counter(page for page in self.tree if page in ids)
        free = Counter(page for page in self.free if page in ids)
        for owner, row in enumerate(self.rows):
            q, a, e = self.protected[owner], self.allocated[owner], self.evicted[owner]
            for position in range(0, len(self.table[0]) + size, size):
                private = position + size > max(q, e) and position < a
                protected = position >= e and position + size <= q
                if row < 0 or not (private or protected):
                    continue
                index = -1
                if row < len(self.table) and position < len(self.table[0]):
                    index = self.table[row][position]
                page = index // size
                if index < 0:
                    report(Kind.NO_PAGE, (owner, position))
                elif page not in ids:
                    report(Kind.OUTSIDE, (owner, position))
                else:
                    if index % size:
                        report(Kind.UNALIGNED, (owner, position))
                    if private:
                        row_owners[page] += 1
                    elif page not in tree:
                        report(Kind.NOT_IN_TREE, (owner, position))
        for page in ids:
            r, t, f = row_owners[page], tree[page], free[page]
            for kind, wrong in (
                (Kind.LOST, r + t + f == 0),
                (Kind.ROW_ROW, r > 1),
                (Kind.ROW_FREE, r and f),
                (Kind.ROW_TREE, r and t),
                (Kind.TREE_FREE, t and f),
                (Kind.FREE_FREE, f > 1),
                (Kind.TREE_TREE, t > 1),
            ):
                if wrong:
                    report(kind, page)
        return {kind: (len(where), min(where)) for kind, where in bad.items()}


def sound_pool(r: random.Random) -> Pool:
    """Return a pool with one owner per page, shared prefixes, cursors, and rows of all lengths."""
    size, first = r.choice(PAGE_SIZES), r.choice([0, 0, 1])
    width_pages = r.randint(1, 9)
    n_rows = r.randint(1, 6)
    pages = (n_rows + 1) * width_pages + r.randint(1, 9)
    ids = list(range(first, first + pages))
    r.shuffle(ids)
    tree = [ids.pop() for _ in range(r.randint(0, width_pages))]
    table = [[-1] * (width_pages * size) for _ in range(n_rows)]
    rows = r.sample(range(n_rows), r.randint(1, n_rows))
    allocated, protected, evicted = [], [], []
    for row in rows:
        q = r.randint(0, len(tree))
        used = r.randint(q, width_pages)
        e = r.choice([0, 0, r.randint(0, used)])
        for number in range(e, used):
            page = tree[number] if number < q else ids.pop()
            table[row][number * size : (number + 1) * size] = range(page * size, (page + 1) * size)
        short = r.randint(0, size - 1) if used > max(q, e) else 0
        allocated.append(used * size - short)
        protected.append(q * size)
        evicted.append(e * size)
    return Pool(size, pages, first, table, rows, allocated, protected, evicted, tree, ids)


def damaged(pool: Pool, r: random.Random) -> Pool:
    """Return the pool with a few errors, some of them large."""
    table = [list(row) for row in pool.table]
    lists: dict[str, list[int]] = {
        name: list(getattr(pool, name))
        for name in ("rows", "allocated", "protected", "evicted", "tree", "free")
    }
    top = (pool.first_page + pool.pages) * pool.page_size
    for _ in range(r.randint(1, 4)):
        match r.randint(0, 5):
            case 0:
                row = r.choice(table)
                row[r.randrange(len(row))] = r.choice([-1, 0, r.randrange(top), top, top * 9])
            case 1:
                lists["rows"][r.randrange(len(lists["rows"]))] = r.choice([-1, 0, len(table)])
            case 2:
                name = r.choice(["allocated", "protected", "evicted"])
                owner = r.randrange(len(lists[name]))
                lists[name][owner] = r.choice([0, -3, 1, len(table[0]), 10**6, r.randrange(99)])
            case 3:
                page = r.choice([0, pool.pages, r.randrange(pool.pages), 10**6])
                lists[r.choice(["tree", "free"])].append(page)
            case 4:
                pages = lists[r.choice(["tree", "free"])]
                del pages[: r.randint(0, 2)]
            case 5:
                one, other = r.choice(table), r.choice(table)
                one[: pool.page_size] = other[: pool.page_size]
    return replace(pool, table=table, **lists)  # type: ignore[arg-type]  # by field name
