"""Layout with the wrapper inside the tree: 0.5.16 to 0.5.20 with a sliding window, and 0.5.21.

| protocol | difference from `wrapper.py` |
|---|---|
| slots | `UnifiedRadixCache.session.slots[sid]` |
| slot, request | as in `wrapper.py`, but from 0.5.17 on `last_node` is a node's number |
| slot.E, req.E | `kv.get_evicted_seqlen(SWA)` from 0.5.21 on |
| tree | `tree_core`, or the cache itself: nodes with `component_data[FULL]` and `[SWA]`, each \
with its `lock_ref` |

A tree in Rust shows its nodes only from 0.5.22 on (`record.py`). Builds before 0.5.22 also have a
tree in Python, which the driver selects.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

from .wrapper import WrapperDialect

RUST = "sglang.srt.mem_cache.rust_tree_core"


def readable_tree() -> None:
    """Choose the build's Python tree if the build has a Rust tree that does not show its nodes."""
    if importlib.util.find_spec(RUST) is None:
        return
    core: Any = importlib.import_module(f"{RUST}.adapter").RustUnifiedTreeCore
    if not hasattr(core, "collect_path_info"):
        os.environ["SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND"] = "python"


def core_of(tree: Any) -> Any:
    """Return the object that holds the tree's nodes. Up to 0.5.16 this is the cache itself."""
    return getattr(tree, "tree_core", tree)


class EmbeddedDialect(WrapperDialect):
    """Dialect for a `UnifiedRadixCache` with a `StreamingSession` inside."""

    layout = "UnifiedRadixCache.session"

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.core = core_of(self.tree)
        kinds = sys.modules[type(self.tree).__module__].ComponentType
        self.full_kind, self.swa_kind = kinds.FULL, kinds.SWA

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        session = getattr(cache, "session", None)
        return (
            hasattr(core_of(cache), "root_node")
            and hasattr(session, "slots")
            and not hasattr(cache, "session_records")
        )

    def session_cache(self) -> tuple[Any, Any]:
        cache = self.scheduler.tree_cache
        return cache.session, cache

    def root(self) -> Any:
        return self.core.root_node

    def node_state(self, node: Any) -> tuple[list[int], int]:
        return self._component(node, self.full_kind)

    def swa_state(self, node: Any) -> tuple[list[int], int]:
        # The tree's own record is the truth, not the mapping. If the two differ, a page is lost.
        return self._component(node, self.swa_kind)

    @staticmethod
    def _component(node: Any, kind: Any) -> tuple[list[int], int]:
        data = node.component_data[kind]
        indices = [] if data.value is None else [int(x) for x in data.value.tolist()]
        return indices, int(data.lock_ref)

    def is_node(self, node: Any) -> bool:
        return isinstance(node, int) or hasattr(node, "component_data")

    def node_of(self, node: Any) -> Any:
        return self.core.node_by_id(node) if isinstance(node, int) else node

    def node_size(self, node: Any) -> tuple[int, int]:
        data = node.component_data[self.full_kind]
        return 0 if data.value is None else len(data.value), int(data.lock_ref)

    def eviction(self) -> tuple[Any, str]:
        # In builds with `_evict`, both `evict` and `evict_for_alloc` call it.
        return self.tree, "_evict" if hasattr(self.tree, "_evict") else "evict"

    def cursor(self, kv: Any) -> int:
        if not hasattr(kv, "get_evicted_seqlen"):
            return super().cursor(kv)
        return 0 if self.swa is None else int(kv.get_evicted_seqlen(self.swa_kind))
