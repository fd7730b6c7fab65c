"""Second pool: the KV of the sliding-window layers, read from the build's objects.

SGLang allocates every token in both pools at once. `req_to_token` and the tree hold indices of the
full pool. `full_to_swa_index_mapping` gives the token's index in the second pool, or 0 if its
sliding-window KV is freed.

| protocol | where |
|---|---|
| total, free pages | `size_swa`, `swa_attn_allocator`, and the allocator's deferred frees |
| evictable, protected | `swa_evictable_size()`, `swa_protected_size()` of the tree |
| pages of a row, of the tree | the mapping of their indices in the full pool |
| lock counts | the tree's `swa_lock_ref`, or locks counted by `record.Locks` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .free_list import FreeList, in_group


class SwaPool(FreeList):
    """Sliding-window pool of one scheduler, with its free list."""

    def __init__(self, scheduler: Any) -> None:
        self.both = scheduler.token_to_kv_pool_allocator
        super().__init__(self.both.swa_attn_allocator, scheduler.page_size)
        self.total = int(self.both.size_swa)
        self.window = int(scheduler.tree_cache.sliding_window_size)

    def indices(self, full: Iterable[int]) -> list[int]:
        """Return the index of each token in this pool. The index of a freed token is -1."""
        mapping = self.both.full_to_swa_index_mapping
        wanted = list(full)
        return [int(x) if x > 0 else -1 for x in mapping[wanted].tolist()] if wanted else []

    def pages(self) -> list[int]:
        return super().pages() + self._deferred_pages()

    def count(self) -> int:
        return super().count() + len(self._deferred_pages())

    def deferred(self) -> bool:
        """Return True if frees of this pool wait for the end of a group."""
        groups = ("free_group", "swa_free_group", "swa_page_ids_group")
        return in_group(self.both) and any(getattr(self.both, name, ()) for name in groups)

    def _deferred_pages(self) -> list[int]:
        allocator, size = self.both, self.page_size
        if not in_group(allocator):
            return []
        pages = [page for free in allocator.free_group for page in self._whole_pages(free.tolist())]
        for tensor in getattr(allocator, "swa_page_ids_group", ()):
            pages += [int(x) for x in tensor.tolist()]
        # This group has indices of this pool since 0.5.19, of the full pool before.
        own = hasattr(allocator, "full_free_group") or hasattr(allocator, "swa_page_ids_group")
        for tensor in getattr(allocator, "swa_free_group", ()):
            if own:
                pages += sorted({int(x) // size for x in tensor.tolist() if x > 0})
            else:
                pages += self._whole_pages(tensor.tolist())
        return pages

    def _whole_pages(self, full: list[int]) -> list[int]:
        """Return the pages that one `free` call releases for the tokens. Each page counts once."""
        size = self.page_size
        touched = sorted({int(x) // size for x in full})
        whole = (page * size + offset for page in touched for offset in range(size))
        return sorted({index // size for index in self.indices(whole) if index > 0})


class FullSide:
    """Full pool of an allocator for two pools. It acts like a single pool's allocator."""

    def __init__(self, allocator: Any) -> None:
        self._both = allocator
        self._full = allocator.full_attn_allocator
        # Newer builds defer frees in the allocator of each pool, older builds in the common one.
        self._defers = self._full if hasattr(allocator, "swa_page_ids_group") else allocator

    def __getattr__(self, name: str) -> Any:
        if name in ("alloc", "alloc_extend"):
            return getattr(self._both, name)
        if name in ("free_group", "full_free_group", "is_not_in_free_group"):
            return getattr(self._defers, name)
        return getattr(self._full, name)
