"""SessionSlot: the KV held by a session between its turns."""

from __future__ import annotations

from dataclasses import dataclass

from slotproof_engine.requests.req import KVRecord, Req


@dataclass(eq=False, kw_only=True)
class SessionSlot(KVRecord):
    """A session's slot. Restoring the slot to a turn and saving a turn to the slot move no memory.

    While the slot is on loan, its fields stay as ``free_tail`` left them. Refusing the turn
    therefore leaves the slot unchanged. KV on loan is counted as KV of the request.
    """

    is_active: bool = False
    """True while the KV is on loan to the session's turn (#22213)."""
    number: int = 0
    """Serial number of the slot, unique in a run, stamped on the slot's pages."""
    last_used: int = 0
    """Clock value at the last save. The least recently used slot is discarded first."""

    def restore_to_req(self, req: Req) -> None:
        """Lend the row, the KV and the lock to ``req``. The slot still owns the lock."""
        req.copy_kv(self)
        self.is_active = True

    def save_from_req(self, req: Req) -> None:
        """Take the row, the KV and the lock from ``req``, which then has no KV."""
        self.copy_kv(req)
        self.is_active = False
        req.clear_kv()

    def end_loan(self) -> None:
        """End the loan: the turn waits again without having run (#22753)."""
        self.is_active = False
