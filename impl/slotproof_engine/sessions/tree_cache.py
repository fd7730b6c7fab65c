"""Use of the prefix tree by a request: match, insert, finish, release.

``TreeCache`` serves requests without a slot to restore: plain requests and first turns.
``SessionCache`` wraps this class for turns.
"""

from __future__ import annotations

from slotproof_engine.base.events import Outbox
from slotproof_engine.kv.kv_cache import SWA, KVCache
from slotproof_engine.requests.req import Phase, Req


class TreeCache:
    """Transitions of requests that own their KV."""

    def __init__(self, kv: KVCache, outbox: Outbox) -> None:
        self.kv = kv
        self.outbox = outbox

    def both(self, name: str, tokens: int) -> dict[str, int]:
        """Return equal event parameters for both pools: a tree page is a page of every pool."""
        return {name: tokens, f"swa_{name}": tokens if SWA in self.kv.allocators else 0}

    def match_prefix(self, req: Req) -> None:
        """Match the request's tokens, except the last, in the tree, and lock the longest prefix.

        Changes the cache: [0, m) is protected until the lock is dropped. The last token must be
        computed for its logits.
        """
        tree = self.kv.tree
        node = tree.match_prefix(req.fill_ids[:-1])
        matched = len(node.path()) * self.kv.page_size
        locked = tree.lock(node)
        req.last_node = node
        req.kv_committed_len = req.kv_allocated_len = req.cache_protected_len = matched
        req.phase = Phase.MATCHED
        self.outbox.emit(
            "T-MATCH", req.session_id, req.rid, m=matched, **self.both("locked", locked)
        )

    def cache_unfinished_req(self, req: Req) -> None:
        """Publish the prefilled tokens: [Q, q) goes to the tree, in whole pages.

        Changes the cache and the row. Nothing is published if sliding-window KV past Q is gone: a
        page enters the tree only if it is whole in every pool.

        In [old Q, old Q + dup), own pages are freed and the row points to tree pages. The tree now
        owns [old Q + dup, q). The request locks all of [0, q). [q, A) stays private.
        """
        known = min(req.kv_committed_len, req.seqlen)
        lo, upto = req.cache_protected_len, self.kv.floor_page(known)
        if req.swa_evicted_seqlen > lo or upto == lo:
            return
        old = req.last_node
        assert old is not None
        node, dup = self.kv.insert(req, upto)
        self.kv.point_to(req, node, lo, lo + dup)
        locked = self.kv.tree.lock(node)
        self.kv.tree.unlock(old)  # the new lock covers the old prefix: nothing becomes evictable
        req.last_node, req.cache_protected_len = node, upto
        moved = {**self.both("dup", dup), **self.both("locked", locked)}
        self.outbox.emit("T-INSERT", req.session_id, req.rid, q=upto, swa_u=0, **moved)

    def cache_finished_req(self, req: Req, finished_len: int) -> None:
        """Finish a plain request: publish its whole pages and release all other memory.

        [Q, q) goes to the tree, unlocked. Duplicate pages and [q, ceil(A)) are freed.
        """
        del req.output_ids[finished_len:]
        lo = upto = req.cache_protected_len
        dup = 0
        if req.swa_evicted_seqlen <= lo:
            upto = self.kv.floor_page(min(req.kv_committed_len, req.seqlen))
            dup = self.kv.insert(req, upto)[1]
            req.cache_protected_len = upto
        moved = {**self.both("dup", dup), **self.both("u", self.kv.release(req))}
        self.outbox.emit("T-PLAIN-FINISH", None, req.rid, q=upto, **moved)

    def abort_req(self, req: Req) -> None:
        """Abort a plain request, waiting or running, and release its memory."""
        self.outbox.emit("T-PLAIN-ABORT", None, req.rid, **self.both("u", self.kv.release(req)))

    def retract_req(self, req: Req) -> None:
        """Retract a plain request: all its KV is released, and the request waits again."""
        both = self.both("u", self.kv.release(req))
        req.phase = Phase.WAITING
        self.outbox.emit("T-PLAIN-RETRACT", None, req.rid, **both)

    def evict(self, tokens: int) -> int:
        """Evict up to ``tokens`` unlocked tokens, rounded up to pages. Return the number freed."""
        evicted = self.kv.evict(tokens)
        if evicted:
            self.outbox.emit("T-EVICT", None, None, **self.both("n", evicted))
        return evicted
