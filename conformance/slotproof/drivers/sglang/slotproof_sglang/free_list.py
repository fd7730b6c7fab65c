"""Free list of one pool's allocator, including frees that are deferred to the end of a group.

| | where |
|---|---|
| free | `free_pages`, `release_pages`, and `staged_pages` if present (0.5.20 and later) |
| a group is open | `is_not_in_free_group`; without it, `free_group` is a list (0.5.19) |
| deferred as KV indices | `free_group`, `full_free_group` (0.5.19, with a sliding window) |
| deferred as pages | `free_page_ids_group` (0.5.20 and later) |
"""

from __future__ import annotations

from typing import Any

INDICES = ("free_group", "full_free_group")
PAGES = ("free_page_ids_group",)


class FreeList:
    """Free pages of one pool. A page that was freed twice is listed twice."""

    def __init__(self, allocator: Any, page_size: int) -> None:
        self.allocator = allocator
        self.page_size = page_size

    def pages(self) -> list[int]:
        """Return all free pages. Reads tensors."""
        return [int(x) for pages in self._lists() for x in pages.tolist()] + self._deferred()

    def count(self) -> int:
        """Return the length of `pages`. A tensor is read only if KV indices are deferred."""
        count = sum(len(pages) for pages in (*self._lists(), *self._waiting(PAGES)))
        return count + len(tensor_pages(self._waiting(INDICES), self.page_size))

    def deferred(self) -> bool:
        """Return True if freed KV indices wait for a group's end: only tensors list their pages."""
        return bool(self._waiting(INDICES))

    def _lists(self) -> list[Any]:
        allocator = self.allocator
        staged = getattr(allocator, "staged_pages", ())
        lists = allocator.free_pages, allocator.release_pages, *staged
        return [pages for pages in lists if pages is not None]

    def _waiting(self, names: tuple[str, ...]) -> list[Any]:
        """Return the open group's tensors. A list left by a finished group is ignored."""
        if not in_group(self.allocator):
            return []
        groups = (getattr(self.allocator, name, None) or () for name in names)
        return [tensor for group in groups for tensor in group]

    def _deferred(self) -> list[int]:
        pages = tensor_pages(self._waiting(INDICES), self.page_size)
        return pages + [int(x) for tensor in self._waiting(PAGES) for x in tensor.tolist()]


def in_group(allocator: Any) -> bool:
    """Return True if the allocator defers frees at present."""
    if hasattr(allocator, "is_not_in_free_group"):
        return not allocator.is_not_in_free_group
    return allocator.free_group is not None


def tensor_pages(tensors: list[Any], page_size: int) -> list[int]:
    """Return the pages of deferred KV indices. Each tensor comes from one call of `free`."""
    pages: list[int] = []
    for tensor in tensors:
        pages.extend(sorted({int(x) // page_size for x in tensor.tolist()}))
    return pages
