"""Second pool: the KV of the sliding-window layers, read from the build's objects.

SGLang allocates every token in both pools at once. `req_to_token` and the tree hold indices of the
full pool. `full_to_swa_index_mapping` gives the token's index in the second pool, or 0 if its
sliding-window KV is freed.

| protocol | where |
|---|---|
| total, free pages | `size_swa`, `swa_attn_allocator`, and the allocator's deferred frees |
| evictable, protected | `swa_evictable_size()`, `swa_protected_size()` of the tree |
| pages of a row, of the tree | the mapping of their indices in the full pool |
| lock counts | the tree's `swa_lock_ref`, or locks counted by `SwaLocks` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .free_list import FreeList, in_group


class SwaPool:
    """Sliding-window pool of one scheduler."""

    def __init__(self, scheduler: Any) -> None:
        self.allocator = scheduler.token_to_kv_pool_allocator
        self.tree = scheduler.tree_cache
        self.page_size: int = scheduler.page_size
        self.free = FreeList(self.allocator.swa_attn_allocator, self.page_size)
        self.total = int(self.allocator.size_swa)
        self.window = int(self.tree.sliding_window_size)

    def indices(self, full: Iterable[int]) -> list[int]:
        """Return the index of each token in this pool. The index of a freed token is -1."""
        mapping = self.allocator.full_to_swa_index_mapping
        wanted = list(full)
        return [int(x) if x > 0 else -1 for x in mapping[wanted].tolist()] if wanted else []

    def free_pages(self) -> list[int]:
        """Return the free list's pages with duplicates. Includes staged and deferred pages."""
        return self.free.pages() + self._deferred_pages()

    def free_count(self) -> int:
        """Return the length of `free_pages`. Reads a tensor only if frees are deferred."""
        return self.free.count() + (len(self._deferred_pages()) if self.deferred() else 0)

    def deferred(self) -> bool:
        """Return True if frees of this pool wait for the end of a group."""
        groups = ("free_group", "swa_free_group", "swa_page_ids_group")
        return in_group(self.allocator) and any(
            getattr(self.allocator, name, ()) for name in groups
        )

    def _deferred_pages(self) -> list[int]:
        allocator, size = self.allocator, self.page_size
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

    def evictable(self) -> int:
        """Return how many of the tree's tokens in this pool are unlocked."""
        return int(self.tree.swa_evictable_size())

    def protected(self) -> int:
        """Return how many of the tree's tokens in this pool are locked."""
        return int(self.tree.swa_protected_size())


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


class SwaLocks:
    """Numbers of tokens covered by a tree's locks in this pool, if the tree hides its locks.

    A lock covers whole nodes: its own node and the nodes above, until they span the window. The
    length is recorded when the lock is taken, because nodes may be split later.
    """

    def __init__(self, core: Any, window: int) -> None:
        self.core = core
        self.window = window
        #: Each lock's node, covered length, and the engine's ID of the lock's upper end.
        self.taken: list[tuple[Any, int, Any]] = []
        self._watch()

    def _watch(self) -> None:
        take, give, reset = self.core.inc_lock_ref, self.core.dec_lock_ref, self.core.reset
        early = self.core.dec_swa_lock_only

        def inc_lock_ref(node: Any, *args: Any, **kwargs: Any) -> Any:
            result = take(node, *args, **kwargs)
            self.taken.append((node, self._reach(node), marks(result)))
            return result

        def dec_lock_ref(node: Any, params: Any, skip_swa: bool = False) -> Any:
            result = give(node, params, skip_swa)
            if not skip_swa:
                self._given(node, params)
            return result

        def dec_swa_lock_only(node: Any, params: Any) -> Any:
            result = early(node, params)
            self._given(node, params)
            return result

        def reset_all(*args: Any, **kwargs: Any) -> Any:
            self.taken.clear()
            return reset(*args, **kwargs)

        self.core.inc_lock_ref, self.core.dec_lock_ref = inc_lock_ref, dec_lock_ref
        self.core.dec_swa_lock_only, self.core.reset = dec_swa_lock_only, reset_all

    def _given(self, node: Any, params: Any) -> None:
        same = [lock for lock in self.taken if lock[0] == node]
        same.sort(key=lambda lock: lock[2] != marks(params))
        if same:
            self.taken.remove(same[0])

    def _reach(self, node: Any) -> int:
        covered = 0
        for part in reversed(self.core.collect_path_info([node])[0]):
            if covered >= self.window:
                break
            covered += int(part.path_end) - int(part.path_start)
        return covered


def marks(receipt: Any) -> Any:
    """Return the ends of a lock. Two locks of one node differ in their ends."""
    return dict(getattr(receipt, "component_lock_uuids", None) or {})
