"""The free list of an allocator for one pool, with the frees that wait for the end of a group.

| | where |
|---|---|
| free | `free_pages`, `release_pages`, and `staged_pages` where there are (0.5.20 and later) |
| a group is open | `is_not_in_free_group`; where that is gone, `free_group` is a list (0.5.19) |
| deferred as KV indices | `free_group`, `full_free_group` (0.5.19, with a sliding window) |
| deferred as pages | `free_page_ids_group` (0.5.20 and later) |
"""

from __future__ import annotations

from typing import Any

INDICES = ("free_group", "full_free_group")
PAGES = ("free_page_ids_group",)


class FreeList:
    """What is free in one pool; duplicates stay visible."""

    def __init__(self, allocator: Any, page_size: int) -> None:
        self.allocator = allocator
        self.page_size = page_size

    def pages(self) -> list[int]:
        """All of it; tensors are read."""
        return [int(x) for each in self._lists() for x in each.tolist()] + self._deferred()

    def count(self) -> int:
        """How many `pages` has; a tensor is read only for what is `deferred`."""
        count = sum(len(each) for each in (*self._lists(), *self._waiting(PAGES)))
        return count + len(tensor_pages(self._waiting(INDICES), self.page_size))

    def deferred(self) -> bool:
        """Whether KV indices wait for the end of a group: their tensors know what pages."""
        return bool(self._waiting(INDICES))

    def _lists(self) -> list[Any]:
        allocator = self.allocator
        staged = getattr(allocator, "staged_pages", ())
        lists = allocator.free_pages, allocator.release_pages, *staged
        return [each for each in lists if each is not None]

    def _waiting(self, names: tuple[str, ...]) -> list[Any]:
        """Tensors of the open group; a list of a group that is over may be left behind."""
        if not in_group(self.allocator):
            return []
        groups = (getattr(self.allocator, name, None) or () for name in names)
        return [tensor for group in groups for tensor in group]

    def _deferred(self) -> list[int]:
        found = tensor_pages(self._waiting(INDICES), self.page_size)
        return found + [int(x) for tensor in self._waiting(PAGES) for x in tensor.tolist()]


def in_group(allocator: Any) -> bool:
    """Whether frees are held back for now."""
    if hasattr(allocator, "is_not_in_free_group"):
        return not allocator.is_not_in_free_group
    return allocator.free_group is not None


def tensor_pages(tensors: list[Any], page_size: int) -> list[int]:
    """Pages of deferred KV indices; each tensor is one free call."""
    pages: list[int] = []
    for tensor in tensors:
        pages.extend(sorted({int(x) // page_size for x in tensor.tolist()}))
    return pages
