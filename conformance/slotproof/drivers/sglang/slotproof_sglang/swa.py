"""The second pool: the KV of the sliding-window layers, read from the build's objects.

SGLang allocates every token in both pools at once. `req_to_token` and the tree hold indices
of the full pool; `full_to_swa_index_mapping` says where the token lies in the other one, or
0 where its sliding-window KV was given back.

| protocol | where |
|---|---|
| total, free pages | `size_swa`, `swa_attn_allocator`, and what its frees are deferred in |
| evictable, protected | `swa_evictable_size()`, `swa_protected_size()` of the tree |
| pages of a row, of the tree | the mapping of their indices in the full pool |
| lock counts | the tree's `swa_lock_ref`, or the locks counted as they are taken (`SwaLocks`) |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .free_list import FreeList, in_group


class SwaPool:
    """The sliding-window pool of one scheduler."""

    def __init__(self, scheduler: Any) -> None:
        self.allocator = scheduler.token_to_kv_pool_allocator
        self.tree = scheduler.tree_cache
        self.page_size: int = scheduler.page_size
        self.free = FreeList(self.allocator.swa_attn_allocator, self.page_size)
        self.total = int(self.allocator.size_swa)
        self.window = int(self.tree.sliding_window_size)

    def indices(self, full: Iterable[int]) -> list[int]:
        """Where these tokens lie in this pool; -1 for what was given back."""
        mapping = self.allocator.full_to_swa_index_mapping
        wanted = list(full)
        return [int(x) if x > 0 else -1 for x in mapping[wanted].tolist()] if wanted else []

    def free_pages(self) -> list[int]:
        """The free list, with what is staged or deferred; duplicates stay visible."""
        return self.free.pages() + self._deferred_pages()

    def free_count(self) -> int:
        """How many pages `free_pages` has; a tensor is read only for what is `deferred`."""
        return self.free.count() + (len(self._deferred_pages()) if self.deferred() else 0)

    def deferred(self) -> bool:
        """Whether frees of this pool wait for the end of a group."""
        groups = ("free_group", "swa_free_group", "swa_page_ids_group")
        return in_group(self.allocator) and any(
            getattr(self.allocator, each, ()) for each in groups
        )

    def _deferred_pages(self) -> list[int]:
        allocator, size = self.allocator, self.page_size
        if not in_group(allocator):
            return []
        found = [page for each in allocator.free_group for page in self._whole_pages(each.tolist())]
        for tensor in getattr(allocator, "swa_page_ids_group", ()):
            found += [int(x) for x in tensor.tolist()]
        # From 0.5.19 on this group has indices of this pool, before of the full one.
        own = hasattr(allocator, "full_free_group") or hasattr(allocator, "swa_page_ids_group")
        for tensor in getattr(allocator, "swa_free_group", ()):
            if own:
                found += sorted({int(x) // size for x in tensor.tolist() if x > 0})
            else:
                found += self._whole_pages(tensor.tolist())
        return found

    def _whole_pages(self, full: list[int]) -> list[int]:
        """The pages that a free call of these tokens gives back: those it touches, once."""
        size = self.page_size
        touched = sorted({int(x) // size for x in full})
        whole = (page * size + offset for page in touched for offset in range(size))
        return sorted({index // size for index in self.indices(whole) if index > 0})

    def evictable(self) -> int:
        """Tokens of the tree that nobody locks here."""
        return int(self.tree.swa_evictable_size())

    def protected(self) -> int:
        """Tokens of the tree that somebody locks here."""
        return int(self.tree.swa_protected_size())


class FullSide:
    """The full pool of an allocator for both, under the names that an allocator for one has."""

    def __init__(self, allocator: Any) -> None:
        self._both = allocator
        self._full = allocator.full_attn_allocator
        # Newer builds defer frees in the allocator of each pool, older ones in that for both.
        self._defers = self._full if hasattr(allocator, "swa_page_ids_group") else allocator

    def __getattr__(self, name: str) -> Any:
        if name in ("alloc", "alloc_extend"):
            return getattr(self._both, name)
        if name in ("free_group", "full_free_group", "is_not_in_free_group"):
            return getattr(self._defers, name)
        return getattr(self._full, name)


class SwaLocks:
    """How far each lock of a tree reaches in this pool, for trees that do not show it.

    A lock covers whole nodes from its own upwards until they span the window, as they were
    cut when it was taken: kept as a length, since nodes may be split later.
    """

    def __init__(self, core: Any, window: int) -> None:
        self.core = core
        self.window = window
        #: Node, length it covers, and the engine's mark of the lock's upper end.
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
    """What tells two locks of one node apart: where each of them ends."""
    return dict(getattr(receipt, "component_lock_uuids", None) or {})
