"""Page audit in Triton: two launches, no sorting, no read-back.

The first launch, *count*, increments a bit field of every page that an owner names. The increment
is a 32-bit reduction in L2, without waiting. The second launch, *judge*, reads every page's word
and the rows' protected prefixes once. A block that meets no violation writes one number.

Costs: *count* loads the first entry of every page, then scatters increments over ``4 * pages``
bytes. At page sizes above 4, each load takes a whole 32-byte sector. *Judge* reads every word once.
Rows and lists are read once, with ``evict_first``, and leave the L2 cache to the scattered words.
Below 10^5 pages, the time of the two launches dominates.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from slotproof_engine.kernels import fields
from slotproof_engine.kernels.fields import Kind
from slotproof_engine.kernels.ownership import Ownership

KINDS = tl.constexpr(fields.KINDS)
NEVER = tl.constexpr(fields.NEVER)
NAMED = tl.constexpr(fields.NAMED)
COUNTED = tl.constexpr(fields.COUNTED)
ROW = tl.constexpr(fields.ROW)
TREE = tl.constexpr(fields.TREE)
FREE = tl.constexpr(fields.FREE)
ROW_MASK = tl.constexpr(fields.ROW_MASK)
TREE_MASK = tl.constexpr(fields.TREE_MASK)
FREE_MASK = tl.constexpr(fields.FREE_MASK)
TREE_SHIFT = tl.constexpr(fields.TREE_SHIFT)
FREE_SHIFT = tl.constexpr(fields.FREE_SHIFT)
LOST = tl.constexpr(Kind.LOST.value)
ROW_ROW = tl.constexpr(Kind.ROW_ROW.value)
ROW_FREE = tl.constexpr(Kind.ROW_FREE.value)
ROW_TREE = tl.constexpr(Kind.ROW_TREE.value)
TREE_FREE = tl.constexpr(Kind.TREE_FREE.value)
FREE_FREE = tl.constexpr(Kind.FREE_FREE.value)
TREE_TREE = tl.constexpr(Kind.TREE_TREE.value)
NO_PAGE = tl.constexpr(Kind.NO_PAGE.value)
OUTSIDE = tl.constexpr(Kind.OUTSIDE.value)
UNALIGNED = tl.constexpr(Kind.UNALIGNED.value)
NOT_IN_TREE = tl.constexpr(Kind.NOT_IN_TREE.value)
STRAY = tl.constexpr(Kind.STRAY.value)

PROGRAMS = 2048
"""Minimum number of blocks that read rows. If there are fewer owners, several blocks share a row.
"""
COUNT_BLOCK = 512
JUDGE_BLOCK = 2048
VARYING = ["free_size", "tree_size", "row_programs", "free_programs", "splits"]
"""Arguments that vary between launches: compiling a kernel for each value would not pay off."""


@triton.jit
def _report(result, kind, bad, where):
    n = tl.sum(bad.to(tl.int32), 0)
    if n > 0:
        tl.atomic_add(result + kind, n.to(tl.int64), sem="relaxed")
        first = tl.min(tl.where(bad, where.to(tl.int64), NEVER), 0)
        tl.atomic_min(result + KINDS + kind, first, sem="relaxed")


@triton.jit
def _length(lengths, owner, HAS: tl.constexpr):
    value = tl.zeros((), tl.int64)
    if HAS:
        value = tl.maximum(tl.load(lengths + owner).to(tl.int64), 0)
    return value


@triton.jit
def _row(rows, owner, HAS: tl.constexpr):
    row = owner
    if HAS:
        row = tl.load(rows + owner).to(tl.int64)
    return row


@triton.jit
def _entries(table, row, stride, table_rows, row_pages, number, wanted, P: tl.constexpr):
    """Load the KV index at the first position of each page in a row, or -1 for a missing entry."""
    # The interpreter makes no mask of a block and a scalar: no `wanted & (row < table_rows)`.
    present = wanted & (number < tl.where(row < table_rows, row_pages, 0))
    return tl.load(
        table + row * stride + number * P, mask=present, other=-1, eviction_policy="evict_first"
    ).to(tl.int64)


@triton.jit
def _places(result, index, page, wanted, pages, where, P: tl.constexpr):
    """Report entries that name no page of the pool. Return a mask of all other entries."""
    inside = wanted & (index >= 0) & (page >= 0) & (page < pages)
    bad = wanted & ((inside == 0) | (index % P != 0))
    if tl.sum(bad.to(tl.int32), 0) > 0:
        _report(result, NO_PAGE, wanted & (index < 0), where)
        _report(result, OUTSIDE, wanted & (index >= 0) & (inside == 0), where)
        _report(result, UNALIGNED, inside & (index % P != 0), where)
    return inside


@triton.jit
def _count_list(
    words,
    result,
    ids,
    size,
    count,
    block,
    pages,
    first_page,
    ONE: tl.constexpr,
    HAS_COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    counts = at < size
    if HAS_COUNT:
        counts = counts & (at < tl.load(count).to(tl.int64))
    given = tl.load(ids + at, mask=counts, other=-1, eviction_policy="evict_first").to(tl.int64)
    counts = counts & (given >= 0)
    page = given - first_page
    inside = counts & (page >= 0) & (page < pages)
    _report(result, STRAY, counts & (inside == 0), given)
    tl.atomic_add(words + page, tl.full((BLOCK,), ONE, tl.int32), mask=inside, sem="relaxed")
    tl.atomic_add(result + NAMED, tl.sum(inside.to(tl.int64), 0), sem="relaxed")


@triton.jit(do_not_specialize=VARYING)
def _count(
    words,
    result,
    table,
    stride,
    table_rows,
    row_pages,
    rows,
    allocated,
    protected,
    evicted,
    free,
    free_size,
    free_count,
    tree,
    tree_size,
    tree_count,
    pages,
    first_page,
    row_programs,
    free_programs,
    splits,
    P: tl.constexpr,
    HAS_ROWS: tl.constexpr,
    HAS_Q: tl.constexpr,
    HAS_E: tl.constexpr,
    HAS_FREE_COUNT: tl.constexpr,
    HAS_TREE_COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    if program < row_programs:
        owner = (program // splits).to(tl.int64)
        split = (program % splits).to(tl.int64)
        row = _row(rows, owner, HAS_ROWS)
        lo = tl.maximum(_length(protected, owner, HAS_Q), _length(evicted, owner, HAS_E)) // P
        hi = (_length(allocated, owner, True) + P - 1) // P
        hi = tl.where(row >= 0, tl.minimum(hi, row_pages + 1), 0)
        named = tl.zeros((BLOCK,), tl.int64)
        start = lo + split * BLOCK
        while start < hi:  # not range: interpreters before 3.9 take no tensor for a bound
            number = start + tl.arange(0, BLOCK).to(tl.int64)
            wanted = number < hi
            index = _entries(table, row, stride, table_rows, row_pages, number, wanted, P)
            page = index // P - first_page
            where = owner * (row_pages + 1) + number
            inside = _places(result, index, page, wanted, pages, where, P)
            one = tl.full((BLOCK,), ROW, tl.int32)
            tl.atomic_add(words + page, one, mask=inside, sem="relaxed")
            named += inside.to(tl.int64)
            start += splits * BLOCK
        total = tl.sum(named, 0)
        if total > 0:
            tl.atomic_add(result + NAMED, total, sem="relaxed")
    elif program < row_programs + free_programs:
        _count_list(
            words,
            result,
            free,
            free_size,
            free_count,
            program - row_programs,
            pages,
            first_page,
            FREE,
            HAS_FREE_COUNT,
            BLOCK,
        )
    else:
        block = program - row_programs - free_programs
        _count_list(
            words,
            result,
            tree,
            tree_size,
            tree_count,
            block,
            pages,
            first_page,
            TREE,
            HAS_TREE_COUNT,
            BLOCK,
        )


@triton.jit
def _judge_pages(words, result, block, pages, first_page, BLOCK: tl.constexpr):
    at = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    present = at < pages
    word = tl.load(words + at, mask=present, other=ROW)
    row = word & ROW_MASK
    tree = (word >> TREE_SHIFT) & TREE_MASK
    free = (word >> FREE_SHIFT) & FREE_MASK
    counted = tl.where(present, row + tree + free, 0)
    tl.atomic_add(result + COUNTED, tl.sum(counted.to(tl.int64), 0), sem="relaxed")
    bad = (word != ROW) & (word != TREE) & (word != FREE)
    if tl.sum(bad.to(tl.int32), 0) > 0:
        page = at + first_page
        _report(result, LOST, word == 0, page)
        _report(result, ROW_ROW, row > 1, page)
        _report(result, ROW_FREE, (row > 0) & (free > 0), page)
        _report(result, ROW_TREE, (row > 0) & (tree > 0), page)
        _report(result, TREE_FREE, (tree > 0) & (free > 0), page)
        _report(result, FREE_FREE, free > 1, page)
        _report(result, TREE_TREE, tree > 1, page)


@triton.jit(do_not_specialize=["splits"])
def _judge(
    words,
    result,
    table,
    stride,
    table_rows,
    row_pages,
    rows,
    protected,
    evicted,
    pages,
    first_page,
    page_programs,
    splits,
    P: tl.constexpr,
    HAS_ROWS: tl.constexpr,
    HAS_E: tl.constexpr,
    BLOCK: tl.constexpr,
    ROW_BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    if program < page_programs:
        _judge_pages(words, result, program, pages, first_page, BLOCK)
    else:
        owner = ((program - page_programs) // splits).to(tl.int64)
        split = ((program - page_programs) % splits).to(tl.int64)
        row = _row(rows, owner, HAS_ROWS)
        lo = (_length(evicted, owner, HAS_E) + P - 1) // P
        hi = _length(protected, owner, True) // P
        hi = tl.where(row >= 0, tl.minimum(hi, row_pages + 1), 0)
        start = lo + split * ROW_BLOCK
        while start < hi:  # not range: interpreters before 3.9 take no tensor for a bound
            number = start + tl.arange(0, ROW_BLOCK).to(tl.int64)
            wanted = number < hi
            index = _entries(table, row, stride, table_rows, row_pages, number, wanted, P)
            page = index // P - first_page
            where = owner * (row_pages + 1) + number
            inside = _places(result, index, page, wanted, pages, where, P)
            word = tl.load(words + page, mask=inside, other=TREE)
            in_tree = (word >> TREE_SHIFT) & TREE_MASK
            _report(result, NOT_IN_TREE, inside & (in_tree == 0), where)
            start += splits * ROW_BLOCK


def audit_pages(
    words: Tensor, result: Tensor, own: Ownership, page_size: int, first_page: int
) -> None:
    """Audit as ``plain_audit`` does, in two launches on the current stream or in a CUDA graph."""
    table, owners, pages = own.req_to_token, len(own.allocated), len(words)
    row_pages = table.shape[1] // page_size
    splits = max(1, min(PROGRAMS // max(owners, 1), triton.cdiv(row_pages + 1, COUNT_BLOCK)))
    free, tree = own.free_pages, _or(own.tree_pages, words[:0])
    row_programs = owners * splits
    free_programs = triton.cdiv(len(free), COUNT_BLOCK)
    programs = row_programs + free_programs + triton.cdiv(len(tree), COUNT_BLOCK)
    # The kernels never read an absent tensor, so any other tensor can be passed in its place.
    rows, protected, evicted = (
        _or(tensor, own.allocated) for tensor in (own.rows, own.protected, own.evicted)
    )
    if programs:
        _count[(programs,)](
            words,
            result,
            table,
            table.stride(0),
            len(table),
            row_pages,
            rows,
            own.allocated,
            protected,
            evicted,
            free,
            len(free),
            _or(own.free_count, words),
            tree,
            len(tree),
            _or(own.tree_count, words),
            pages,
            first_page,
            row_programs,
            free_programs,
            splits,
            P=page_size,
            HAS_ROWS=own.rows is not None,
            HAS_Q=own.protected is not None,
            HAS_E=own.evicted is not None,
            HAS_FREE_COUNT=own.free_count is not None,
            HAS_TREE_COUNT=own.tree_count is not None,
            BLOCK=COUNT_BLOCK,
        )
    page_programs = triton.cdiv(pages, JUDGE_BLOCK)
    prefix_programs = row_programs if own.protected is not None else 0
    _judge[(page_programs + prefix_programs,)](
        words,
        result,
        table,
        table.stride(0),
        len(table),
        row_pages,
        rows,
        protected,
        evicted,
        pages,
        first_page,
        page_programs,
        splits,
        P=page_size,
        HAS_ROWS=own.rows is not None,
        HAS_E=own.evicted is not None,
        BLOCK=JUDGE_BLOCK,
        ROW_BLOCK=COUNT_BLOCK,
    )


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    return other if tensor is None else tensor
