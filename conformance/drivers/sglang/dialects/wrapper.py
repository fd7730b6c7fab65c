"""The layout of 0.5.11 to 0.5.18: a wrapper around the tree, the slot's figures copied.

| protocol | where |
|---|---|
| slots | `StreamingSession.slots[sid]`, those that hold KV |
| slot row, C, Q | `req_pool_idx`, `kv_committed_len`, `cache_protected_len` |
| slot A, E | `kv_allocated_len`, `swa_evicted_seqlen`; in 0.5.18 inside `slot.kv` |
| slot locks | one where `last_node` is set: the first turn's lock, kept while the slot lives |
| slot lent | no flag: on loan when a turn out of the queue has the same row |
| request row, C, A, Q, E | the same names on the request; copied to and from the slot |
| request locks | one where it runs and its `last_node` is no virtual node |
| session in flight | `session._inflight`, and which turn: the live one attached to it |
| history | the turn in `req_nodes`, cut at `committed_origin_len` where there is one |
| tree | `inner`, a `RadixCache`: nodes with `value` and `lock_ref` |
| check | see `checks.py` |
"""

from __future__ import annotations

from typing import Any

from dialects.base import NO_KV, Dialect, Kv, Slot, tensor_pages


class WrapperDialect(Dialect):
    """`StreamingSession` around a radix tree."""

    layout = "StreamingSession (a wrapper, figures copied)"

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.cache = scheduler.tree_cache
        self.tree = self.cache.inner

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        return (
            type(cache).__name__ == "StreamingSession"
            and hasattr(cache, "slots")
            and hasattr(cache.inner, "root_node")
        )

    # The pool -----------------------------------------------------------------

    def free_pages(self) -> list[int]:
        allocator = self.allocator
        pages = [int(x) for x in allocator.free_pages.tolist()]
        pages += [int(x) for x in allocator.release_pages.tolist()]
        if not allocator.is_not_in_free_group:
            pages += tensor_pages(allocator.free_group, self.page_size)
        return pages

    def free_count(self) -> int:
        allocator = self.allocator
        count = len(allocator.free_pages) + len(allocator.release_pages)
        if not allocator.is_not_in_free_group:
            count += len(tensor_pages(allocator.free_group, self.page_size))
        return count

    def tree_pages(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        stack = list(self.tree.root_node.children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            pages = self.pages_of(int(x) for x in node.value.tolist())
            found.extend((page, int(node.lock_ref)) for page in pages)
        return found

    def unlocked_on(self, node: Any) -> int:
        tokens = 0
        while node is not None and node is not self.tree.root_node:
            if not hasattr(node, "lock_ref"):  # a slot's virtual node
                return 0
            tokens += len(node.key) if node.lock_ref == 0 else 0
            node = node.parent
        return tokens

    # Records --------------------------------------------------------------------

    @staticmethod
    def _record(holder: Any) -> Kv:
        """The figures of a slot or a request; flat, or partly in its `kv`."""
        inner = getattr(holder, "kv", holder)
        if holder.req_pool_idx is None or inner is None:
            return NO_KV
        return Kv(
            int(holder.req_pool_idx),
            int(holder.kv_committed_len),
            int(inner.kv_allocated_len),
            int(holder.cache_protected_len),
            int(inner.swa_evicted_seqlen),
        )

    def kv(self, req: Any) -> Kv:
        return self._record(req)

    def request_locks(self, req: Any) -> int:
        return int(req.last_node is not None and hasattr(req.last_node, "lock_ref"))

    def borrows(self, req: Any) -> str | None:
        row = self.kv(req).row
        if row < 0:
            return None
        for sid, slot in self.slots().items():
            if slot.kv.row == row:
                return sid
        return None

    def grow(self, req: Any, allocated: int, committed: int) -> None:
        getattr(req, "kv", req).kv_allocated_len += allocated
        req.kv_committed_len += committed

    def matched(self, req: Any) -> int:
        return len(req.prefix_indices)

    def slots(self) -> dict[str, Slot]:
        held: dict[str, Slot] = {}
        for sid, slot in self.cache.slots.items():
            kv = self._record(slot)
            if kv.row >= 0:
                held[sid] = Slot(kv, int(slot.last_node is not None), None)
        return held

    # What is wrapped ----------------------------------------------------------------

    def eviction(self) -> tuple[Any, str]:
        return self.tree, "evict"

    def insertion(self) -> tuple[Any, str]:
        return self.tree, "cache_unfinished_req"

    def key_insertion(self) -> tuple[Any, str]:
        return self.tree, "insert"
