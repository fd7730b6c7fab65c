"""SessionCache: life cycle of session slots. It wraps the cache of requests without a session.

Methods are named as in ``TreeCache``. They handle a turn's slot, and leave requests without a
session to ``TreeCache``.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.base.events import Outbox
from slotproof_engine.kv.kv_cache import FULL, SWA, KVCache
from slotproof_engine.requests.req import Phase, Req, Session
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.sessions.tree_cache import TreeCache


class SessionCache:
    """Slots by session ID. A slot exists exactly while its session holds KV."""

    def __init__(
        self, config: EngineConfig, slot: type[SessionSlot], kv: KVCache, outbox: Outbox
    ) -> None:
        self.config = config
        self.kv = kv
        self.inner = TreeCache(kv, outbox)
        self.outbox = outbox
        self.slots: dict[str, SessionSlot] = {}
        self._new_slot = slot
        self._clock = 0

    # A turn gets KV --------------------------------------------------------------

    def match_prefix(self, req: Req) -> None:
        """Give ``req`` the KV available for its tokens, from its slot or else from the prefix tree.

        Changes the cache. The slot is discarded if no prefix is reusable, or if a cut would lose
        the sliding window. ``refuse`` undoes the match.
        """
        if req.session is not None and req.doomed:
            self.detach(req)
        slot = self.slot_of(req)
        if slot is not None and req.session is not None:
            n = self.reusable_len(slot, req)
            if self.can_restore(slot, n):
                self.free_tail(slot, n)
                self.kv.verify_pages(slot, slot.number)
                slot.restore_to_req(req)
                req.phase = Phase.MATCHED
                self.outbox.emit(
                    "T-RESTORE",
                    req.session_id,
                    req.rid,
                    C=req.kv_committed_len,
                    A=req.kv_allocated_len,
                    Q=req.cache_protected_len,
                )
                return
            self.discard(req.session.session_id)
        self.inner.match_prefix(req)

    def slot_of(self, req: Req) -> SessionSlot | None:
        return self.slots.get(req.session.session_id) if req.session is not None else None

    def lent_slot(self, req: Req) -> SessionSlot | None:
        """Return the slot whose KV is on loan to ``req``, if any."""
        slot = self.slot_of(req)
        return slot if slot is not None and slot.is_active else None

    def reusable_len(self, slot: SessionSlot, req: Req) -> int:
        """Return the number of positions that a restore reuses. The last token is recomputed for
        its logits."""
        n = min(slot.kv_committed_len, req.seqlen - 1)
        return self.kv.floor_page(n) if self.config.aligned_reuse else n

    def can_restore(self, slot: SessionSlot, n: int) -> bool:
        """Return True if a cut to ``n`` preserves the protected prefix and the sliding window."""
        m = self.kv.cut_point(slot, n)
        window_from = max(0, m - self.kv.window)
        return n >= slot.cache_protected_len and min(slot.swa_evicted_seqlen, m) <= window_from

    def free_tail(self, slot: SessionSlot, n: int) -> None:
        """Free KV past the matched prefix before the next extend overwrites it (#22862).

        Changes the cache: [ceil(n), ceil(A)) is freed and the slot ends at n.
        """
        self.kv.cut(slot, n)

    def detach(self, req: Req) -> None:
        """Detach a doomed turn from its session, and cut its prompt to one token (#22790).

        The request continues without a session and ends after a prefill. The slot is untouched.
        """
        session = req.session
        assert session is not None
        session.abort_req()
        req.session, req.kind = None, "doomed"
        del req.origin_input_ids[1:]
        req.max_new_tokens = 0
        self.outbox.emit("T-DOOM", session.session_id, req.rid, prompt=req.seqlen)

    def refuse(self, req: Req) -> None:
        """Undo ``match_prefix``, except for the freed tail: the request waits again.

        Changes the cache: if no slot is on loan, the request's lock is dropped.
        """
        slot = self.lent_slot(req)
        unlocked = 0
        if slot is not None:
            slot.end_loan()
        else:
            unlocked = self.kv.unlock(req)
        req.clear_kv()
        req.phase = Phase.WAITING
        self.outbox.emit("T-REFUSE", req.session_id, req.rid, **self.inner.both("u", unlocked))

    def cache_unfinished_req(self, req: Req) -> None:
        """Handle the end of a prefill as in ``TreeCache``. KV on loan is published only if
        ``loan_publishes`` is set. The slot then describes the turn's present KV."""
        slot = self.lent_slot(req)
        if slot is None or self.config.loan_publishes:
            self.inner.cache_unfinished_req(req)
        if slot is not None and self.config.loan_publishes:
            self.follow(slot, req)

    def follow(self, slot: SessionSlot, req: Req) -> None:
        """Replace the slot's lock with the lock on the turn's longer prefix."""
        slot.copy_kv(req)

    # A turn ends -------------------------------------------------------------------

    def cache_finished_req(self, req: Req, finished_len: int) -> None:
        """Save in the slot the KV of a turn that finished with ``finished_len`` outputs.

        Changes the cache: KV left past the end by speculation is freed.
        """
        kept = self.kept_len(finished_len)
        if req.phase is Phase.WAITING:
            self._finish_late(req, finished_len)
            return
        if req.session is None:
            self.inner.cache_finished_req(req, finished_len)
            return
        self.trim_overshoot(req, finished_len)
        self._save(req, req.session)
        req.session.finish_req(req, kept)
        self.outbox.emit("T-SAVE", req.session_id, req.rid)

    def _finish_late(self, req: Req, finished_len: int) -> None:
        """Finish a request that a retraction wiped: its last result arrived while it waited."""
        del req.output_ids[finished_len:]
        if req.session is not None:
            req.session.finish_req(req, self.kept_len(finished_len))
        self.outbox.emit("T-LATE-FINISH", req.session_id, req.rid)

    def kept_len(self, finished_len: int) -> int:
        """Return how many outputs enter the history. ``drops_last`` leaves out the last output."""
        return max(0, finished_len - 1) if self.config.drops_last else finished_len

    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Cap the outputs at the finished length, and cut the KV to the history. The next turn can
        reuse no more KV than the history (#22897).

        Changes the cache: [ceil(H), ceil(A)) is freed, where H is the history's length. C, A and
        the cursor end at H (#22900).
        """
        self.kv.cut(req, len(req.origin_input_ids) + self.kept_len(finished_len))
        del req.output_ids[finished_len:]

    def _save(self, req: Req, session: Session) -> None:
        slot = self.slots.get(session.session_id)
        self._clock += 1
        if slot is None:
            slot = self.slots[session.session_id] = self._new_slot(number=self._clock)
        slot.save_from_req(req)
        slot.last_used = self._clock
        self.kv.stamp_pages(slot, slot.number)

    def abort_req(self, req: Req, *, out_of_memory: bool = False) -> None:
        """Abort a request. The session's history stays as before.

        Changes the cache. If the request is matched, parked or running, its KV, row and lock are
        released and the slot disappears. If the request waits, KV left in the slot by a retract is
        cut to the history or discarded.
        """
        session = req.session
        if session is None:
            self.inner.abort_req(req)
            return
        if req.phase is Phase.WAITING:
            self._abort_waiting(req, session)
        else:
            both = self.inner.both("u", self.release_turn(req))
            transition = "T-OOM" if out_of_memory else "T-ABORT"
            self.outbox.emit(transition, session.session_id, req.rid, **both)
        session.abort_req()

    def _abort_waiting(self, req: Req, session: Session) -> None:
        sid, history = session.session_id, len(session.history)
        slot = self.slots.get(sid)
        if slot is not None and slot.kv_committed_len > history >= slot.cache_protected_len:
            self.kv.cut(slot, history)
            self.outbox.emit("T-ABORT-PARTIAL", sid, req.rid)
            return
        if slot is not None and slot.kv_committed_len > history:
            self.discard(sid)
        self.outbox.emit("T-ABORT-WAITING", sid, req.rid)

    def release_turn(self, req: Req) -> int:
        """Release all KV of a turn, whether owned or on loan. The slot disappears."""
        if self.lent_slot(req) is not None and req.session is not None:
            del self.slots[req.session.session_id]
        return self.kv.release(req)

    def retract_req(self, req: Req) -> None:
        """Take a turn out of the batch. The turn waits and stays in flight.

        ``keep``: moves no memory. The slot, created if absent, holds the KV of known tokens until
        the turn resumes or the slot is discarded. ``wipe``: releases everything.
        """
        session = req.session
        if session is None:
            self.inner.retract_req(req)
        elif self.config.retract == "keep":
            req.kv_committed_len = min(req.kv_committed_len, req.seqlen)
            self._save(req, session)
            req.phase = Phase.WAITING
            self.outbox.emit("T-RETRACT", session.session_id, req.rid)
        else:
            both = self.inner.both("u", self.release_turn(req))
            req.phase = Phase.WAITING
            self.outbox.emit("T-RETRACT-WIPE", session.session_id, req.rid, **both)

    # Slots between turns ---------------------------------------------------------------

    def release_session(self, sid: str) -> int:
        """Release all KV of the session's slot, its row and its lock. Return the tokens unlocked.

        The lock is dropped on the slot's own node. The tree changes, so a new match of the same
        tokens could end at another node.
        """
        slot = self.slots.pop(sid, None)
        return self.kv.release(slot) if slot is not None else 0

    def discard(self, sid: str) -> None:
        """Release the slot of a session that stays open."""
        self.outbox.emit("T-DISCARD", sid, None, **self.inner.both("u", self.release_session(sid)))

    def discard_one(self) -> bool:
        """Discard the least recently used slot not on loan. Return False if there is none."""
        idle = [(slot.last_used, sid) for sid, slot in self.slots.items() if not slot.is_active]
        if not idle:
            return False
        self.discard(min(idle)[1])
        return True

    # Token counts. No state changes. -----------------------------------------------------

    def held_slots(self) -> Iterator[SessionSlot]:
        """Return the slots whose KV counts as held. KV on loan counts as the request's (#22213)."""
        return (slot for slot in self.slots.values() if not slot.is_active)

    def session_held_tokens(self) -> int:
        return sum(self.kv.private_size(slot, FULL) for slot in self.held_slots())

    def session_held_swa_tokens(self) -> int:
        return sum(self.kv.private_size(slot, SWA) for slot in self.held_slots())

    def session_held_req_count(self) -> int:
        """Return the number of rows held by slots. A row on loan is the request's (#22213)."""
        return sum(not slot.is_active for slot in self.slots.values())
