"""Operations on rows and KV in Triton: each is one launch, and the host does not wait."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from slotproof_engine.kernels.device import upload
from slotproof_engine.kernels.plain_memory import NOT_THERE, Span, freed_pages, new_pages

ENTRIES = 1024
"""Number of row entries that a block writes at once."""
GIVEN_BACK = tl.constexpr(NOT_THERE)
VARYING = ["requests", "entries", "numbers"]
"""Arguments that vary between launches: compiling a kernel for each value would not pay off."""


@triton.jit
def _pages_before(spans, request, requests, P: tl.constexpr, BLOCK: tl.constexpr):
    """Return the number of pages taken by earlier requests."""
    i = tl.arange(0, BLOCK)
    before = i < tl.minimum(request, requests)
    lo = tl.load(spans + i * 3 + 1, mask=before, other=0)
    hi = tl.load(spans + i * 3 + 2, mask=before, other=0)
    return tl.sum(tl.maximum((hi + P - 1) // P - (lo + P - 1) // P, 0), 0)


@triton.jit(do_not_specialize=VARYING)
def _alloc_extend(
    table, stride, spans, requests, pages, P: tl.constexpr, PAGES: tl.constexpr, BLOCK: tl.constexpr
):
    request = tl.program_id(0)
    row = tl.load(spans + request * 3)
    first = (tl.load(spans + request * 3 + 1) + P - 1) // P
    count = (tl.load(spans + request * 3 + 2) + P - 1) // P - first
    taken = _pages_before(spans, request, requests, P, BLOCK)
    start = tl.zeros((), tl.int64)
    while start < count:
        k = start + tl.arange(0, PAGES).to(tl.int64)
        page = tl.load(pages + taken + k, mask=k < count, other=0)
        offset = tl.arange(0, P)[None, :]
        entry = (row * stride + (first + k) * P)[:, None] + offset
        index = (page * P)[:, None] + offset
        mask = (k < count)[:, None] & (offset >= 0)
        tl.store(table + entry, index.to(table.dtype.element_ty), mask=mask)
        start += PAGES


@triton.jit(do_not_specialize=VARYING)
def _write_rows(table, stride, rows, numbers, pages, entries, P: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < entries
    row = tl.load(rows + at // P, mask=mask, other=0).to(tl.int64)
    number = tl.load(numbers + at // P, mask=mask, other=0).to(tl.int64)
    page = tl.load(pages + at // P, mask=mask, other=0).to(tl.int64)
    index = page * P + at % P
    target = table + row * stride + number * P + at % P
    tl.store(target, index.to(table.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=VARYING)
def _free_rows(
    table,
    stride,
    spans,
    requests,
    out,
    P: tl.constexpr,
    FORGET: tl.constexpr,
    PAGES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    request = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    before = i < tl.minimum(request, requests)
    lows = tl.load(spans + i * 3 + 1, mask=before, other=0)
    highs = tl.load(spans + i * 3 + 2, mask=before, other=0)
    done = tl.sum(tl.maximum((tl.maximum(highs - lows, 0) + P - 1) // P, 0), 0)
    row = tl.load(spans + request * 3)
    lo = tl.load(spans + request * 3 + 1)
    hi = tl.load(spans + request * 3 + 2)
    count = (tl.maximum(hi - lo, 0) + P - 1) // P
    start = tl.zeros((), tl.int64)
    while start < count:
        k = start + tl.arange(0, PAGES).to(tl.int64)
        mask = k < count
        index = tl.load(table + row * stride + lo + k * P, mask=mask, other=0).to(tl.int64)
        page = tl.where(index < 0, -1, index // P)  # rounds down, as torch does
        tl.store(out + done + k, page.to(out.dtype.element_ty), mask=mask)
        if FORGET:
            position = (lo + k * P)[:, None] + tl.arange(0, P)[None, :]
            gone = tl.full((PAGES, P), GIVEN_BACK, tl.int32).to(table.dtype.element_ty)
            tl.store(table + row * stride + position, gone, mask=position < hi)
        start += PAGES


@triton.jit(do_not_specialize=VARYING)
def _write_kv(buffer, v_offset, loc, kv, numbers, width, tokens, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < numbers
    index = tl.load(loc + at // width, mask=mask, other=0).to(tl.int64)
    # negative indices count from the end, as in torch
    index = tl.where(index < 0, index + tokens, index)
    half = tl.program_id(1).to(tl.int64)
    value = tl.load(kv + half * numbers + at, mask=mask)
    target = buffer + half * v_offset + index * width + at % width
    tl.store(target, value, mask=mask & (index >= 0) & (index < tokens))


def _checked(spans: Sequence[Span], table: Tensor) -> list[Span]:
    """Return the spans with nonnegative row numbers. ``IndexError`` if a span exceeds the table."""
    rows, width = table.shape
    for row, _, hi in spans:
        if not -rows <= row < rows or hi > width:
            raise IndexError(f"row {row} up to {hi} is outside the table of {rows} x {width}")
    return [(row % rows, lo, hi) for row, lo, hi in spans]


def alloc_extend(table: Tensor, spans: Sequence[Span], pages: Tensor, page_size: int) -> None:
    """Allocate as ``plain_memory`` does. One block per row counts the pages of earlier rows."""
    if not new_pages(spans, page_size):
        return
    given = upload(_checked(spans, table), str(table.device))
    _alloc_extend[(len(spans),)](
        table,
        table.stride(0),
        given,
        len(spans),
        pages,
        P=page_size,
        PAGES=max(1, ENTRIES // page_size),
        BLOCK=triton.next_power_of_2(len(spans)),
    )


def write_rows(table: Tensor, rows: Tensor, numbers: Tensor, pages: Tensor, page_size: int) -> None:
    """Write as in ``plain_memory``."""
    entries = len(pages) * page_size
    if entries:
        _write_rows[(triton.cdiv(entries, ENTRIES),)](
            table, table.stride(0), rows, numbers, pages, entries, P=page_size, BLOCK=ENTRIES
        )


def free_rows(
    table: Tensor, spans: Sequence[Span], page_size: int, *, forget: bool = False
) -> Tensor:
    """Free as in ``plain_memory``, with one block per row."""
    count = freed_pages(spans, page_size)
    out = torch.empty(count, dtype=table.dtype, device=table.device)
    if count:
        given = upload(_checked(spans, table), str(table.device))
        _free_rows[(len(spans),)](
            table,
            table.stride(0),
            given,
            len(spans),
            out,
            P=page_size,
            FORGET=forget,
            PAGES=max(1, ENTRIES // page_size),
            BLOCK=triton.next_power_of_2(len(spans)),
        )
    return out


def write_kv(buffer: Tensor, loc: Tensor, kv: Tensor) -> None:
    """Write as in ``plain_memory``, but never outside the buffer."""
    numbers, width = kv[0].numel(), buffer[0, 0].numel()
    if numbers:
        _write_kv[(triton.cdiv(numbers, ENTRIES), buffer.shape[0])](
            buffer,
            buffer.stride(0),
            loc,
            kv.contiguous(),
            numbers,
            width,
            buffer.shape[1],
            BLOCK=ENTRIES,
        )
