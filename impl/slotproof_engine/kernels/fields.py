"""Counters of the page audit in 32-bit words, and the kinds of violations."""

from __future__ import annotations

from enum import IntEnum

ROW = 1
"""Increment of a page's 32-bit word for each owning row. Bits 0 to 11 count these rows."""
TREE = 1 << 12
"""Increment of a page's word for each node of the prefix tree that has the page: bits 12 to 21."""
FREE = 1 << 22
"""Increment of a page's word for each entry of the page in the free list: bits 22 to 31."""
ROW_MASK, TREE_MASK, FREE_MASK = 0xFFF, 0x3FF, 0x3FF
TREE_SHIFT, FREE_SHIFT = 12, 22

NEVER = 1 << 62
"""Value stored as the first offender of a violation kind that did not occur."""


class Kind(IntEnum):
    """Kind of violation. Its value is the index of the kind's count in the audit's result."""

    LOST = 0
    """A page has no owner."""
    ROW_ROW = 1
    """A page is owned by two rows, or twice by one row."""
    ROW_FREE = 2
    """A row owns a page that is free."""
    ROW_TREE = 3
    """A row owns a page of the tree."""
    TREE_FREE = 4
    """The tree owns a page that is free."""
    FREE_FREE = 5
    """A page is in the free list more than once."""
    TREE_TREE = 6
    """A page is in the tree more than once."""
    NO_PAGE = 7
    """A position below the owner's allocated length A has no entry in the row table."""
    OUTSIDE = 8
    """An entry of a row lies outside the pool."""
    UNALIGNED = 9
    """An entry at a page boundary of a row points into the middle of a page of the pool."""
    NOT_IN_TREE = 10
    """A page of a row's protected prefix is not in the tree."""
    STRAY = 11
    """The free list or the tree has an ID outside the pool."""


KINDS = len(Kind)
PAGE_KINDS = 7
"""Kinds below this number are about a page. Later kinds, except STRAY, are about a place in a row.
"""
NAMED = 2 * KINDS
"""Index in the result of the total number of page owners, counted while owners are read."""
COUNTED = NAMED + 1
"""Index in the result of the total number of page owners, summed from the pages' words. This total
is smaller than the total at NAMED if a bit field overflowed."""
FOUND = 2 * KINDS + 2
"""Number of int64 values in the result."""
