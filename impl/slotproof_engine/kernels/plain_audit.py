"""The page audit in plain torch: what ``triton_audit`` has to agree with."""

from __future__ import annotations

import torch
from torch import Tensor

from slotproof_engine.kernels.fields import (
    COUNTED,
    FREE,
    FREE_MASK,
    FREE_SHIFT,
    KINDS,
    NAMED,
    NEVER,
    ROW,
    ROW_MASK,
    TREE,
    TREE_MASK,
    TREE_SHIFT,
    Kind,
)
from slotproof_engine.kernels.ownership import Ownership


def audit_pages(
    words: Tensor, found: Tensor, own: Ownership, page_size: int, first_page: int
) -> None:
    """Count the owners of each page in ``words`` and add what is wrong to ``found``.

    ``words``: int32 ``[pages]``, all zero, for the pages from ``first_page`` on.
    ``found``: int64 ``[FOUND]``, counts zero and first offenders ``NEVER``. Shapes
    depend on nothing but the shapes of what is given.
    """
    table, owners, device = own.req_to_token, len(own.allocated), words.device
    row_pages = table.shape[1] // page_size
    row = own.rows.long() if own.rows is not None else torch.arange(owners, device=device)
    start, q, a = (_lengths(each, own) for each in (own.evicted, own.protected, own.allocated))
    # One page more than a row has room for: a longer row has that one without an entry.
    number = torch.arange(row_pages + 1, device=device)
    used = (row >= 0)[:, None]
    private = used & (number >= start.maximum(q) // page_size)
    private &= number < (a + page_size - 1) // page_size
    shared = used & (number >= (start + page_size - 1) // page_size) & (number < q // page_size)

    entries = table[row.clamp(0, len(table) - 1), ::page_size][:, :row_pages].long()
    index = torch.nn.functional.pad(entries, (0, 1), value=-1)
    index = torch.where((row < len(table))[:, None], index, -1)
    page = index // page_size - first_page
    inside = (index >= 0) & (page >= 0) & (page < len(words))

    _add(words, found, page, private & inside, ROW)
    _add_list(words, found, own.tree_pages, own.tree_count, TREE, first_page)
    _add_list(words, found, own.free_pages, own.free_count, FREE, first_page)

    where = torch.arange(owners, device=device)[:, None] * (row_pages + 1) + number
    either = private | shared
    _report(found, Kind.NO_PAGE, either & (index < 0), where)
    _report(found, Kind.OUTSIDE, either & (index >= 0) & ~inside, where)
    _report(found, Kind.UNALIGNED, either & inside & (index % page_size != 0), where)
    in_tree = (words[page.clamp(0, len(words) - 1)] >> TREE_SHIFT) & TREE_MASK
    _report(found, Kind.NOT_IN_TREE, shared & inside & (in_tree == 0), where)
    _judge(words, found, first_page)


def _judge(words: Tensor, found: Tensor, first_page: int) -> None:
    row = words & ROW_MASK
    tree = (words >> TREE_SHIFT) & TREE_MASK
    free = (words >> FREE_SHIFT) & FREE_MASK
    page = torch.arange(len(words), device=words.device) + first_page
    _report(found, Kind.LOST, words == 0, page)
    _report(found, Kind.ROW_ROW, row > 1, page)
    _report(found, Kind.ROW_FREE, (row > 0) & (free > 0), page)
    _report(found, Kind.ROW_TREE, (row > 0) & (tree > 0), page)
    _report(found, Kind.TREE_FREE, (tree > 0) & (free > 0), page)
    _report(found, Kind.FREE_FREE, free > 1, page)
    _report(found, Kind.TREE_TREE, tree > 1, page)
    found[COUNTED] += (row + tree + free).sum()


def _lengths(given: Tensor | None, own: Ownership) -> Tensor:
    """One column: a length of each owner."""
    lengths = torch.zeros_like(own.allocated) if given is None else given
    return lengths.long().clamp(min=0)[:, None]


def _add(words: Tensor, found: Tensor, page: Tensor, good: Tensor, one: int) -> None:
    ones = (good * one).int().flatten()
    words.index_add_(0, page.clamp(0, len(words) - 1).flatten(), ones)
    found[NAMED] += good.sum()


def _add_list(
    words: Tensor, found: Tensor, pages: Tensor | None, count: Tensor | None, one: int, first: int
) -> None:
    if pages is None:
        return
    counts = pages >= 0
    if count is not None:
        counts = counts & (torch.arange(len(pages), device=pages.device) < count)
    page = pages.long() - first
    inside = (page >= 0) & (page < len(words))
    _report(found, Kind.STRAY, counts & ~inside, pages.long())
    _add(words, found, page, counts & inside, one)


def _report(found: Tensor, kind: Kind, bad: Tensor, where: Tensor) -> None:
    if bad.numel():
        found[kind] += bad.sum()
        first = torch.where(bad, where, NEVER).min()
        found[KINDS + kind] = torch.minimum(found[KINDS + kind], first)
