"""SessionSlot: the KV that a session keeps between its turns."""

from __future__ import annotations

from dataclasses import dataclass

from slotproof_engine.requests.req import KVRecord, Req


@dataclass(eq=False, kw_only=True)
class SessionSlot(KVRecord):
    """A turn restores the slot's KV and saves it back. Neither moves memory.

    While the slot is lent its fields stay as ``free_tail`` left them, so that a
    refused turn finds it unchanged; the KV is counted on the request.
    """

    is_active: bool = False
    """The KV is on loan to the session's turn (#22213)."""
    number: int = 0
    """Which slot it is, of all there ever were: what its pages are stamped with."""
    last_used: int = 0
    """When it was saved last: the least recently used one is discarded first."""

    def restore_to_req(self, req: Req) -> None:
        """Lend row, KV and lock to ``req``. The lock stays one lock, the slot's."""
        req.copy_kv(self)
        self.is_active = True

    def save_from_req(self, req: Req) -> None:
        """Take row, KV and lock of ``req``; it has nothing after that."""
        self.copy_kv(req)
        self.is_active = False
        req.clear_kv()

    def end_loan(self) -> None:
        """The turn goes back to waiting without having run (#22753)."""
        self.is_active = False
