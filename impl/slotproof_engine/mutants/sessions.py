"""Bugs of a session's life: abort, close, history, one turn at a time."""

from __future__ import annotations

from collections.abc import Iterable

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Req, Session
from slotproof_engine.sessions.session_cache import SessionCache
from slotproof_engine.sessions.session_controller import SessionController


class AbortDropsRow(SessionCache):
    def release_turn(self, req: Req) -> int:
        """Release the row and nothing else. The slot stays, and still has the row."""
        if self.lent_slot(req) is None:
            return super().release_turn(req)
        self.kv.req_to_token_pool.free(req.req_pool_idx)
        req.clear_kv()
        return 0


class FirstTurnAbort(SessionCache):
    def release_turn(self, req: Req) -> int:
        """Release KV only through a slot, although a first turn has no slot yet."""
        if self.lent_slot(req) is not None:
            return super().release_turn(req)
        req.clear_kv()
        return 0


class HistoryAtCreate(Session):
    def create_req(self, rid: str, prompt: list[int], max_new: int, stop: Iterable[int]) -> Req:
        """Remove the history when a turn begins: an aborted turn loses the history."""
        self.history = []
        return super().create_req(rid, prompt, max_new, stop)


class TwoInFlight(Session):
    @property
    def accepts_turn(self) -> bool:
        """True at any time, even while a turn is in flight."""
        return True


class CloseReleasesRunning(SessionController):
    def close(self, sid: str) -> None:
        """Close a session at once while a turn runs on its slot: memory in use is freed."""
        session = self.get(sid)
        slot = self.cache.slots.get(sid)
        if session is None or session.inflight is None or slot is None or not slot.is_active:
            super().close(sid)
            return
        slot.copy_kv(session.inflight)
        self._close(session, "T-CLOSE", "")


MUTANTS = (
    Mutant(
        "22790a-abort-drops-row",
        "sgl-project/sglang#22790",
        "an abort of a running turn gives back only the row",
        ("INV-OWNER", "INV-ROWS", "INV-SUM-FULL"),
        swap(cache=AbortDropsRow),
    ),
    Mutant(
        "22790b-first-turn-abort",
        "sgl-project/sglang#22790",
        "an abort of the first turn finds no slot and releases nothing",
        ("INV-SUM-FULL", "INV-LOCK"),
        swap(cache=FirstTurnAbort),
    ),
    Mutant(
        "22790c-history-at-create",
        "sgl-project/sglang#22790",
        "the history is removed when a turn is created, not when it finishes",
        ("INV-HISTORY",),
        swap(session=HistoryAtCreate),
    ),
    Mutant(
        "22790d-two-in-flight",
        "sgl-project/sglang#22790",
        "nothing prevents a second turn in flight",
        ("INV-INFLIGHT", "INV-OWNER"),
        swap(session=TwoInFlight),
    ),
    Mutant(
        "21875a-close-releases-running",
        "sgl-project/sglang#21875",
        "a close releases the slot while a turn runs on it",
        ("INV-OWNER",),
        swap(controller=CloseReleasesRunning),
    ),
)
