"""The layout of 0.5.18 where the model has a sliding window: the wrapper inside the tree.

| protocol | where it differs from `wrapper.py` |
|---|---|
| slots | `UnifiedRadixCache.session.slots[sid]` |
| slot, request | as there, figures copied; `last_node` is a node's number |
| tree | `tree_core`: nodes with `component_data[FULL]` and `[SWA]`, each with its `lock_ref` |
"""

from __future__ import annotations

import importlib
from typing import Any

from .wrapper import WrapperDialect


class EmbeddedDialect(WrapperDialect):
    """`UnifiedRadixCache` with a `StreamingSession` inside, figures copied."""

    layout = "UnifiedRadixCache.session (figures copied)"

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.core = self.tree.tree_core
        kinds = importlib.import_module("sglang.srt.mem_cache.unified_cache.component_type")
        self.full_kind, self.swa_kind = kinds.ComponentType.FULL, kinds.ComponentType.SWA

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        session = getattr(cache, "session", None)
        return (
            hasattr(getattr(cache, "tree_core", None), "root_node")
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
        # The tree's own word, not the mapping's: the two may differ, and then a page is lost.
        return self._component(node, self.swa_kind)

    @staticmethod
    def _component(node: Any, kind: Any) -> tuple[list[int], int]:
        data = node.component_data[kind]
        indices = [] if data.value is None else [int(x) for x in data.value.tolist()]
        return indices, int(data.lock_ref)

    def is_node(self, node: Any) -> bool:
        return isinstance(node, int)

    def node_of(self, node: Any) -> Any:
        return self.core.node_by_id(node)

    def node_size(self, node: Any) -> tuple[int, int]:
        data = node.component_data[self.full_kind]
        return 0 if data.value is None else len(data.value), int(data.lock_ref)
