"""The words that the page audit counts in, and what it can find."""

from __future__ import annotations

from enum import IntEnum

ROW = 1
"""One row owns the page: bits 0 to 11 of the page's 32-bit word."""
TREE = 1 << 12
"""The tree owns it: bits 12 to 21."""
FREE = 1 << 22
"""It is in the free list: bits 22 to 31."""
ROW_MASK, TREE_MASK, FREE_MASK = 0xFFF, 0x3FF, 0x3FF
TREE_SHIFT, FREE_SHIFT = 12, 22

NEVER = 1 << 62
"""The first offender of a kind of which there is none."""


class Kind(IntEnum):
    """What can be wrong, and where its figures are in the result."""

    LOST = 0
    """A page has no owner."""
    ROW_ROW = 1
    """Two rows, or one row twice, own a page."""
    ROW_FREE = 2
    """A row owns a page that is free."""
    ROW_TREE = 3
    """A row owns a page that is the tree's."""
    TREE_FREE = 4
    """The tree owns a page that is free."""
    FREE_FREE = 5
    """A page is in the free list more than once."""
    TREE_TREE = 6
    """A page is in the tree more than once."""
    NO_PAGE = 7
    """A page of a row that lies below A has no entry in the row table."""
    OUTSIDE = 8
    """An entry of a row lies outside the pool."""
    UNALIGNED = 9
    """An entry of a row where a page begins is not where a page of the pool begins."""
    NOT_IN_TREE = 10
    """A row's protected prefix has a page that the tree does not have."""
    STRAY = 11
    """The free list or the tree has something that is no page of the pool."""


KINDS = len(Kind)
PAGE_KINDS = 7
"""Kinds below this are about a page; the others, but for STRAY, about a place in a row."""
NAMED = 2 * KINDS
"""After count and first offender of each kind: how often an owner named a page."""
COUNTED = NAMED + 1
"""How often that is by the words; less than NAMED where a field of a word ran over."""
FOUND = 2 * KINDS + 2
"""int64 numbers in the result."""
