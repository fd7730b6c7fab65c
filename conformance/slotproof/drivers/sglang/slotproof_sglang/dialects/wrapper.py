"""Layout of 0.5.11 to 0.5.20: a wrapper around the tree. A slot and its turn have equal lengths: up
to 0.5.18 two copies, later one shared `kv`.

Locations missing in `base.py`:

| spec | protocol | where |
|---|---|---|
| slot.holding | `slots` | entries of `StreamingSession.slots[sid]` with a row |
| slot.lent | `slots[s].lent`, `requests[r].loan` | no flag: on loan when a turn outside the queue \
has the same row |
| slot.row | `slots[s].row` | `req_pool_idx` of the slot, or of its `kv` |
| slot.C | `slots[s].C` | `kv_committed_len` of the slot, or of its `kv` |
| slot.A | `slots[s].A` | `kv_allocated_len` of the slot, or of its `kv` |
| slot.Q | `slots[s].Q` | `cache_protected_len` of the slot, or of its `kv` |
| slot.E | `slots[s].E` | `swa_evicted_seqlen`, from the `kv` if present |
| slot.locked | `slots[s].locks` | `slot.last_node`: the first turn's lock, stored in the slot |
| req.row, req.C, req.A, req.Q, req.E | `requests[r].row`, `C`, `A`, `Q`, `E` | the same \
names of the request, or of its `kv` |
| req.locked | `requests[r].locks` | `req.last_node`, unless it is a virtual node |
| session.inflight | `sessions[s].inflight` | `session._inflight`; which turn: the live request \
attached to the session |
| session.history | `sessions[s].history`, `hash` | the turn in `req_nodes`, cut at \
`committed_origin_len` if present |

The tree is `inner`, a `RadixCache`: nodes with `value` and `lock_ref`. Check: see `checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .base import NO_KV, Dialect, Kv, Slot


def is_tree(cache: Any) -> bool:
    """Return True for a prefix tree, and for the chunk cache that replaces a disabled tree."""
    return hasattr(cache, "root_node") or "ChunkCache" in type(cache).__name__


class WrapperDialect(Dialect):
    """Dialect for a `StreamingSession` around a radix tree."""

    layout = "StreamingSession (a wrapper)"

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.cache, self.tree = self.session_cache()

    def session_cache(self) -> tuple[Any, Any]:
        """Return two objects: the one that holds the slots, and the prefix tree."""
        cache = self.scheduler.tree_cache
        return cache, cache.inner

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        return (
            type(cache).__name__ == "StreamingSession"
            and hasattr(cache, "slots")
            and is_tree(cache.inner)
        )

    # The pool -----------------------------------------------------------------

    def root(self) -> Any:
        """Return the tree's root."""
        return self.tree.root_node

    def nodes(self) -> Iterator[Any]:
        """Yield the tree's nodes without the root."""
        if not self.has_tree:
            return
        stack = list(self.root().children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            yield node

    def node_state(self, node: Any) -> tuple[list[int], int]:
        """Return a node's KV indices and the number of its locks."""
        return [int(x) for x in node.value.tolist()], self.node_size(node)[1]

    def node_size(self, node: Any) -> tuple[int, int]:
        """Return the number of a node's KV indices, and the number of its locks."""
        locks = node.lock_ref if self.swa is None else node.full_lock_ref
        return len(node.value), int(locks)

    def swa_state(self, node: Any) -> tuple[list[int], int]:
        """Return a node's indices in the sliding-window pool, and the number of its locks there."""
        assert self.swa is not None
        indices = (int(x) for x in node.value.tolist())
        kept = [index for index in self.swa.indices(indices) if index >= 0]
        return kept, int(node.swa_lock_ref)

    def is_node(self, node: Any) -> bool:
        """Return True for a node of the tree, False for a slot's virtual node."""
        return hasattr(node, "children")

    def tree_pages(self) -> list[tuple[int, int]]:
        return list(self._pages(self.node_state))

    def swa_tree_pages(self) -> list[tuple[int, int]]:
        return list(self._pages(self.swa_state))

    def _pages(self, state: Callable[[Any], tuple[list[int], int]]) -> Iterator[tuple[int, int]]:
        for indices, locks in map(state, self.nodes()):
            yield from ((page, locks) for page in self.pages_of(indices))

    def path(self, node: Any) -> Iterator[tuple[Any, int, int]]:
        current = self.node_of(node) if self.is_node(node) else None
        while current is not None and current is not self.root():
            yield (id(current), *self.node_size(current))
            current = current.parent

    def node_of(self, node: Any) -> Any:
        """Return the tree node that a request or a slot refers to."""
        return node

    def locked_by(self, sid: str) -> Any:
        return self.cache.slots[sid].last_node

    # Records --------------------------------------------------------------------

    def _record(self, holder: Any) -> Kv:
        """Return the lengths of a slot or a request, from the object itself or from its `kv`."""
        kv = getattr(holder, "kv", holder)

        def figure(name: str) -> Any:
            return getattr(holder, name) if hasattr(holder, name) else getattr(kv, name)

        if kv is None or figure("req_pool_idx") is None:
            return NO_KV
        return Kv(
            int(figure("req_pool_idx")),
            int(figure("kv_committed_len")),
            int(figure("kv_allocated_len")),
            int(figure("cache_protected_len")),
            self.cursor(kv),
        )

    def cursor(self, kv: Any) -> int:
        """Return the cursor E of a KV record."""
        return int(kv.swa_evicted_seqlen)

    def record_of(self, req: Any) -> Kv:
        return self._record(req)

    def request_locks(self, req: Any) -> int:
        return int(req.last_node is not None and self.is_node(req.last_node))

    def borrows(self, req: Any) -> str | None:
        row = self.kv(req).row
        return next((sid for sid, slot in self.slots().items() if slot.kv.row == row), None)

    def grow(self, req: Any, allocated: int, committed: int) -> None:
        getattr(req, "kv", req).kv_allocated_len += allocated
        req.kv_committed_len += committed

    def matched(self, req: Any) -> int:
        return len(req.prefix_indices)

    def slots(self) -> dict[str, Slot]:
        slots = ((sid, slot, self._record(slot)) for sid, slot in self.cache.slots.items())
        return {
            sid: Slot(kv, int(slot.last_node is not None)) for sid, slot, kv in slots if kv.row >= 0
        }

    # Wrapped methods ----------------------------------------------------------------

    def eviction(self) -> tuple[Any, str]:
        return self.tree, "evict"

    def insertion(self) -> tuple[Any, str]:
        return self.tree, "cache_unfinished_req"

    def key_insertion(self) -> tuple[Any, str]:
        return self.tree, "insert"
