"""Layout of 0.5.23: one KV record, owned by the session and borrowed by its turns.

Locations missing in `base.py`:

| spec | protocol | where |
|---|---|---|
| slot.holding | `slots` | entries of `UnifiedRadixCache.session.slots[sid]` with `kv.holds_kv` |
| slot.lent | `slots[s].lent`, `requests[r].loan` | no flag: on loan when a turn outside the queue \
has the *same* `kv` object |
| slot.row | `slots[s].row` | `slot.kv.req_pool_idx` |
| slot.C | `slots[s].C` | `slot.kv.kv_committed_len` |
| slot.A | `slots[s].A` | `slot.kv.kv_allocated_len` |
| slot.Q | `slots[s].Q` | `slot.kv.cache_protected_len` |
| slot.E | `slots[s].E` | `slot.kv.get_evicted_seqlen(SWA)` |
| slot.locked | `slots[s].locks` | `slot.lock` |
| req.row, req.C, req.A, req.Q, req.E | `requests[r].row`, `C`, `A`, `Q`, `E` | the same \
names in `req.kv` |
| req.locked | `requests[r].locks` | `req.lock`; on a first turn `slot.lock` |
| session.inflight | `sessions[s].inflight` | `session._inflight`; which turn: the live request \
attached to the session |
| session.history | `sessions[s].history`, `hash` | `req_nodes`: the prompt, cut at \
`committed_origin_len`, and the output |

The tree is `tree_core` (Rust or Python), read by `all_values_flatten()`. The Rust core shows no
locks, so the driver counts them at its `inc_lock_ref` and `dec_lock_ref`. `checks.py` lists the
memory checks.

SGLang creates a slot with its first turn's row (`StreamingSession.take`). The slot is flagged
`publishes_prompt` until the turn's end. In the spec, the slot begins to exist at the turn's end.
During the first turn, snapshots therefore show the record as the request's own.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from .base import NO_KV, Dialect, Kv, Slot, rounds_ahead


class Locks:
    """Locks of a tree that does not show them, counted at the methods of its core.

    A lock covers whole nodes: its own node and all nodes above. In the second pool it covers them
    only until they span the window. That length is recorded when the lock is taken, because nodes
    may be split later.
    """

    def __init__(self, core: Any, window: int) -> None:
        """``window``: size of the sliding window, or 0 without a second pool."""
        self.core, self.window = core, window
        #: Locked nodes. A node is listed once per lock.
        self.taken: list[Any] = []
        #: Each lock in the second pool: node, covered length, and the lock's ends.
        self.swa_taken: list[tuple[Any, int, Any]] = []
        self._watch()

    def _watch(self) -> None:
        take, give, reset = self.core.inc_lock_ref, self.core.dec_lock_ref, self.core.reset
        early = self.core.dec_swa_lock_only

        def inc_lock_ref(node: Any, *args: Any, **kwargs: Any) -> Any:
            result = take(node, *args, **kwargs)
            self.taken.append(node)
            if self.window:
                self.swa_taken.append((node, self._reach(node), ends(result)))
            return result

        def dec_lock_ref(node: Any, params: Any = None, skip_swa: bool = False) -> Any:
            result = give(node, params, skip_swa)
            if node in self.taken:
                self.taken.remove(node)
            if not skip_swa:
                self._given(node, params)
            return result

        def dec_swa_lock_only(node: Any, params: Any) -> Any:
            result = early(node, params)
            self._given(node, params)
            return result

        def reset_all(*args: Any, **kwargs: Any) -> Any:
            self.taken.clear()
            self.swa_taken.clear()
            return reset(*args, **kwargs)

        self.core.inc_lock_ref, self.core.dec_lock_ref = inc_lock_ref, dec_lock_ref
        self.core.dec_swa_lock_only, self.core.reset = dec_swa_lock_only, reset_all

    def _given(self, node: Any, params: Any) -> None:
        same = [lock for lock in self.swa_taken if lock[0] == node]
        same.sort(key=lambda lock: lock[2] != ends(params))
        if same:
            self.swa_taken.remove(same[0])

    def _reach(self, node: Any) -> int:
        covered = 0
        for part in reversed(self.core.collect_path_info([node])[0]):
            if covered >= self.window:
                break
            covered += int(part.path_end) - int(part.path_start)
        return covered


def ends(receipt: Any) -> Any:
    """Return the ends of a lock. Two locks of one node differ in their ends."""
    return dict(getattr(receipt, "component_lock_uuids", None) or {})


class RecordDialect(Dialect):
    """Dialect for a `UnifiedRadixCache` that stores the KV records of sessions."""

    layout = "UnifiedRadixCache.session (one KV record)"
    profile = "sglang-records"

    def __init__(self, scheduler: Any) -> None:
        super().__init__(scheduler)
        self.cache = scheduler.tree_cache
        self.streaming = self.cache.session
        self.core = self.cache.tree_core
        component = importlib.import_module("sglang.srt.mem_cache.unified_cache.component_type")
        self.swa_kind = component.ComponentType.SWA
        self.locks = Locks(self.core, 0 if self.swa is None else self.swa.window)

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        session = getattr(cache, "session", None)
        return hasattr(cache, "session_records") and hasattr(session, "slots")

    def _path(self, node: Any) -> list[int]:
        return [int(x) for x in self.cache.path_device_indices(node).tolist()]

    def _flat(self) -> list[int]:
        return [int(x) for x in self.core.all_values_flatten().tolist()]

    def tree_pages(self) -> list[tuple[int, int]]:
        paths = (self.pages_of(self._path(node)) for node in self.locks.taken)
        locks = Counter(page for path in paths for page in path)
        return [(page, locks[page]) for page in self.pages_of(self._flat())]

    def swa_tree_pages(self) -> list[tuple[int, int]]:
        locks = Counter[int]()
        for node, reach, _ in self.locks.swa_taken:
            path = self._path(node)
            locks.update(self._swa_pages(path[len(path) - reach :]))
        return [(page, locks[page]) for page in self._swa_pages(self._flat())]

    def _swa_pages(self, full: Iterable[int]) -> list[int]:
        assert self.swa is not None
        return self.pages_of(index for index in self.swa.indices(full) if index >= 0)

    def path(self, node: Any) -> list[tuple[Any, int, int]]:
        if not isinstance(node, int):  # a slot's virtual node
            return []
        *others, path = self.core.collect_path_info([*self.locks.taken, node])
        locks = Counter(part.node_id for path in others for part in path)
        return [(n.node_id, int(n.path_end) - int(n.path_start), locks[n.node_id]) for n in path]

    def locked_by(self, sid: str) -> Any:
        lock = self.streaming.slots[sid].lock
        return None if lock is None else lock.node

    def _kv(self, kv: Any) -> Kv:
        if not kv.holds_kv:
            return NO_KV
        return Kv(
            int(kv.req_pool_idx),
            int(kv.kv_committed_len),
            int(kv.kv_allocated_len),
            int(kv.cache_protected_len),
            0 if self.swa is None else int(kv.get_evicted_seqlen(self.swa_kind)),
        )

    def record_of(self, req: Any) -> Kv:
        return self._kv(req.kv)

    def lengths(self, req: Any) -> tuple[int, int]:
        kv = req.kv
        return int(kv.kv_committed_len) + rounds_ahead(req), int(kv.kv_allocated_len)

    def request_locks(self, req: Any) -> int:
        own = int(req.lock is not None)
        _, slot = self._slot_of(req)
        if slot is not None and slot.publishes_prompt:
            own += int(slot.lock is not None)
        return own

    def _slot_of(self, req: Any) -> tuple[str | None, Any]:
        slots = self.streaming.slots.items()
        return next(((sid, slot) for sid, slot in slots if slot.kv is req.kv), (None, None))

    def _is_first_turn(self, slot: Any) -> bool:
        return bool(slot.publishes_prompt) and any(
            req.kv is slot.kv and phase != "waiting" for req, phase in self.live()
        )

    def borrows(self, req: Any) -> str | None:
        sid, slot = self._slot_of(req)
        return sid if slot is not None and slot.kv.holds_kv and not slot.publishes_prompt else None

    def grow(self, req: Any, allocated: int, committed: int) -> None:
        req.kv.kv_allocated_len += allocated
        req.kv.kv_committed_len += committed

    def matched(self, req: Any) -> int:
        return int(req.prefix_len)

    def eviction(self) -> tuple[Any, str]:
        return self.cache, "_evict"

    def insertion(self) -> tuple[Any, str]:
        return self.cache, "checkpoint_into_tree"

    def key_insertion(self) -> tuple[Any, str]:
        return self.cache, "insert"

    def slots(self) -> dict[str, Slot]:
        return {
            sid: Slot(self._kv(slot.kv), int(slot.lock is not None))
            for sid, slot in self.streaming.slots.items()
            if slot.kv.holds_kv and not self._is_first_turn(slot)
        }
