"""Page audit in plain torch, the reference for ``triton_audit``."""

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
    words: Tensor, result: Tensor, own: Ownership, page_size: int, first_page: int
) -> None:
    """Count each page's owners into ``words``, and add violations to ``result``.

    ``words``: int32 ``[pages]``, all zero, for the pages from ``first_page`` on. ``result``: int64
    ``[FOUND]``, with counts 0 and first offenders ``NEVER``. The shape of each computed tensor
    depends only on the shapes of the inputs.
    """
    table, owners, device = own.req_to_token, len(own.allocated), words.device
    row_pages = table.shape[1] // page_size
    row = own.rows.long() if own.rows is not None else torch.arange(owners, device=device)
    start, q, a = (_lengths(tensor, own) for tensor in (own.evicted, own.protected, own.allocated))
    # One page more than a row has. An owner longer than its row then has a page without an entry.
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

    _add(words, result, page, private & inside, ROW)
    _add_list(words, result, own.tree_pages, own.tree_count, TREE, first_page)
    _add_list(words, result, own.free_pages, own.free_count, FREE, first_page)

    where = torch.arange(owners, device=device)[:, None] * (row_pages + 1) + number
    either = private | shared
    _report(result, Kind.NO_PAGE, either & (index < 0), where)
    _report(result, Kind.OUTSIDE, either & (index >= 0) & ~inside, where)
    _report(result, Kind.UNALIGNED, either & inside & (index % page_size != 0), where)
    in_tree = (words[page.clamp(0, len(words) - 1)] >> TREE_SHIFT) & TREE_MASK
    _report(result, Kind.NOT_IN_TREE, shared & inside & (in_tree == 0), where)
    _judge(words, result, first_page)


def _judge(words: Tensor, result: Tensor, first_page: int) -> None:
    row = words & ROW_MASK
    tree = (words >> TREE_SHIFT) & TREE_MASK
    free = (words >> FREE_SHIFT) & FREE_MASK
    page = torch.arange(len(words), device=words.device) + first_page
    _report(result, Kind.LOST, words == 0, page)
    _report(result, Kind.ROW_ROW, row > 1, page)
    _report(result, Kind.ROW_FREE, (row > 0) & (free > 0), page)
    _report(result, Kind.ROW_TREE, (row > 0) & (tree > 0), page)
    _report(result, Kind.TREE_FREE, (tree > 0) & (free > 0), page)
    _report(result, Kind.FREE_FREE, free > 1, page)
    _report(result, Kind.TREE_TREE, tree > 1, page)
    result[COUNTED] += (row + tree + free).sum()


def _lengths(given: Tensor | None, own: Ownership) -> Tensor:
    """Return the lengths of all owners as a column."""
    lengths = torch.zeros_like(own.allocated) if given is None else given
    return lengths.long().clamp(min=0)[:, None]


def _add(words: Tensor, result: Tensor, page: Tensor, good: Tensor, one: int) -> None:
    ones = (good * one).int().flatten()
    words.index_add_(0, page.clamp(0, len(words) - 1).flatten(), ones)
    result[NAMED] += good.sum()


def _add_list(
    words: Tensor, result: Tensor, pages: Tensor | None, count: Tensor | None, one: int, first: int
) -> None:
    if pages is None:
        return
    counts = pages >= 0
    if count is not None:
        counts = counts & (torch.arange(len(pages), device=pages.device) < count)
    page = pages.long() - first
    inside = (page >= 0) & (page < len(words))
    _report(result, Kind.STRAY, counts & ~inside, pages.long())
    _add(words, result, page, counts & inside, one)


def _report(result: Tensor, kind: Kind, bad: Tensor, where: Tensor) -> None:
    if bad.numel():
        result[kind] += bad.sum()
        first = torch.where(bad, where, NEVER).min()
        result[KINDS + kind] = torch.minimum(result[KINDS + kind], first)
