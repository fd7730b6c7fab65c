"""Operations on rows and KV in plain torch, the reference for ``triton_memory``.

A *span* is (row, first position, end position), on the host. P is the page size. Page k of a row
has the positions [k * P, (k + 1) * P). Entry p of a page is the KV index P * page + p.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from slotproof_engine.kernels.device import upload

Span: TypeAlias = tuple[int, int, int]
NOT_THERE = -1
"""Table entry of a position without KV."""


def new_pages(spans: Sequence[Span], page_size: int) -> int:
    """Return the number of pages needed by ``alloc_extend``.

    >>> new_pages([(0, 3, 5), (1, 4, 5), (2, 1, 4), (3, 8, 2)], page_size=4)
    2
    """
    ends = ((-(-lo // page_size), -(-hi // page_size)) for _, lo, hi in spans)
    return sum(max(0, last - first) for first, last in ends)


def freed_pages(spans: Sequence[Span], page_size: int) -> int:
    """Return the number of pages freed by ``free_rows``."""
    return sum(max(0, -(-(hi - lo) // page_size)) for _, lo, hi in spans)


def alloc_extend(table: Tensor, spans: Sequence[Span], pages: Tensor, page_size: int) -> None:
    """Write ``pages``, in order, to positions [ceil(A), ceil(hi)) of each span (row, A, hi).

    ``pages`` has as many pages as ``new_pages`` returns. In decoding, hi is A + 1, and a row gets a
    page only if A is the end of a page.
    """
    rows: list[int] = []
    numbers: list[int] = []
    for row, lo, hi in spans:
        new = range(-(-lo // page_size), -(-hi // page_size))
        rows += [row] * len(new)
        numbers += new
    if rows:
        index = upload((rows, numbers), str(table.device))
        write_rows(table, index[0], index[1], pages, page_size)


def write_rows(table: Tensor, rows: Tensor, numbers: Tensor, pages: Tensor, page_size: int) -> None:
    """Write ``pages[i]`` as page number ``numbers[i]`` of row ``rows[i]``."""
    if page_size == 1:
        table[rows, numbers] = pages.to(table.dtype)
        return
    blocks = table.view(table.shape[0], -1, page_size)
    offsets = torch.arange(page_size, device=table.device, dtype=table.dtype)
    blocks[rows, numbers] = (pages[:, None] * page_size + offsets).to(table.dtype)


def free_rows(
    table: Tensor, spans: Sequence[Span], page_size: int, *, forget: bool = False
) -> Tensor:
    """Return the IDs of the pages at positions lo, lo + P, ... below hi of each span (row, lo, hi).

    ``forget``: the entries of [lo, hi) become ``NOT_THERE``.
    """
    freed = [table[row, lo:hi:page_size] // page_size for row, lo, hi in spans]
    if forget:
        for row, lo, hi in spans:
            table[row, lo:hi] = NOT_THERE
    return torch.cat(freed)


def write_kv(buffer: Tensor, loc: Tensor, kv: Tensor) -> None:
    """Write K and V to the KV indices ``loc`` (``[n]``), which must all be different.

    ``buffer``: ``[2, tokens, heads, dim]``, K first. ``kv``: ``[2, n, heads, dim]``. With several
    layers, the first dimension has 2 entries per layer.
    """
    buffer[:, loc] = kv
