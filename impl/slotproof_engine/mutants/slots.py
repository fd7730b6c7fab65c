"""Bugs of the slot, and of its use when a turn starts or ends."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import KVRecord, Phase, Req
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.sessions.session_cache import SessionCache


class DoubleCount(SessionCache):
    def held_slots(self) -> Iterator[SessionSlot]:
        """Count slots on loan, too."""
        return iter(self.slots.values())


class RowsOnLoan(SessionCache):
    def session_held_req_count(self) -> int:
        """Count the rows of slots on loan, too."""
        return len(self.slots)


class StickyActive(SessionSlot):
    def end_loan(self) -> None:
        """Leave the slot on loan after the turn lost the KV."""


class UnalignedProtected(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Treat all committed KV of the turn as owned by the prefix tree."""
        super().restore_to_req(req)
        req.cache_protected_len = self.kv_committed_len


class RestoreEmptiesSlot(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Move the KV instead of lending it: a refused turn cannot return the KV."""
        super().restore_to_req(req)
        root = self.last_node
        while root is not None and root.parent is not None:
            root = root.parent
        self.copy_kv(KVRecord(last_node=root))


class EmptyKey(SessionCache):
    def free_tail(self, slot: SessionSlot, n: int) -> None:
        """Free nothing if no position is reusable, and write the row from 0 again."""
        if n == 0:
            self.kv.cap(slot, 0)
        else:
            super().free_tail(slot, n)


class DoomedRestores(SessionCache):
    def match_prefix(self, req: Req) -> None:
        """Leave a doomed turn in its session: its one token is written to the slot's row."""
        slot = self.slot_of(req)
        if slot is None or not req.doomed:
            super().match_prefix(req)
            return
        del req.origin_input_ids[1:]
        req.max_new_tokens = 0
        slot.restore_to_req(req)
        req.kv_committed_len = req.kv_allocated_len = req.swa_evicted_seqlen = 0
        req.phase = Phase.MATCHED
        self.outbox.emit("T-RESTORE", req.session_id, req.rid)


class NoFreeTail(SessionCache):
    def free_tail(self, slot: SessionSlot, n: int) -> None:
        """Leave the pages of [n, A) in the row, where the next extend overwrites them."""
        self.kv.cap(slot, self.kv.cut_point(slot, n))


class ExtraMinusOne(SessionCache):
    def reusable_len(self, slot: SessionSlot, req: Req) -> int:
        """Subtract a second time the token that is recomputed for its logits."""
        n = min(slot.kv_committed_len, max(req.seqlen - 2, 0))
        return self.kv.floor_page(n) if self.config.aligned_reuse else n


class AllOrNothing(SessionCache):
    def can_restore(self, slot: SessionSlot, n: int) -> bool:
        """Reject a slot with more KV than the prompt can use."""
        return n == slot.kv_committed_len and super().can_restore(slot, n)


class NoTrim(SessionCache):
    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Truncate the outputs, but not their KV."""
        del req.output_ids[finished_len:]


class TrimForgetsCursor(SessionCache):
    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Cap C and A, but not the cursor."""
        cursor = req.swa_evicted_seqlen
        super().trim_overshoot(req, finished_len)
        req.swa_evicted_seqlen = cursor


class UnalignedReuse(SessionCache):
    def reusable_len(self, slot: SessionSlot, req: Req) -> int:
        """Reuse part of a page although the hardware needs whole pages."""
        return min(slot.kv_committed_len, req.seqlen - 1)


class EmptySlotCrash(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Read the last committed position, which an empty slot does not have."""
        assert range(self.kv_committed_len)[-1] >= 0
        super().restore_to_req(req)


class RestoreDoesNothing(SessionSlot):
    def restore_to_req(self, req: Req) -> None:  # noqa: ARG002  # that is the bug
        """Report success and leave the turn without KV."""
        self.is_active = True


MUTANTS = (
    Mutant(
        "22213-double-count",
        "sgl-project/sglang#22213",
        "a lent slot is counted as held and as uncached",
        ("INV-ONCE", "INV-SUM-FULL", "INV-CHECKER"),
        swap(cache=DoubleCount),
    ),
    Mutant(
        "22213b-rows-on-loan",
        "sgl-project/sglang#22213",
        "the row of a lent slot is counted as the slot's, although the request has the row",
        ("INV-ROWS",),
        swap(cache=RowsOnLoan),
    ),
    Mutant(
        "22753-sticky-active",
        "sgl-project/sglang#22753",
        "is_active is set by restore and not cleared when the turn is refused",
        ("INV-ONCE", "INV-SUM-FULL"),
        swap(slot=StickyActive),
    ),
    Mutant(
        "20070-unaligned-protected",
        "sgl-project/sglang#20070",
        "a restore treats all committed KV as the tree's",
        ("INV-ALIGN", "INV-SUM-FULL"),
        swap(slot=UnalignedProtected),
        {"page_size": 4},
    ),
    Mutant(
        "20476-restore-empties-slot",
        "sgl-project/sglang#20476",
        "restore empties the slot: a refused turn loses the KV, and the KV's lock stays",
        ("INV-ONCE", "INV-SUM-FULL", "INV-LOCK"),
        swap(slot=RestoreEmptiesSlot),
    ),
    Mutant(
        "restore-all-or-nothing",
        "a plain fault",
        "a slot with more KV than its turn can use is discarded",
        ("INV-PROGRESS",),
        swap(cache=AllOrNothing),
    ),
    Mutant(
        "20557-empty-key",
        "sgl-project/sglang#20557",
        "if the match key is empty, nothing is freed and the row is written from 0",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(cache=EmptyKey),
    ),
    Mutant(
        "22273-doomed-restores",
        "sgl-project/sglang#22273",
        "a doomed turn restores the slot, then saves its one token over the slot's KV",
        ("INV-SUM-FULL", "INV-ORDER", "INV-HISTORY", "INV-BACKED"),
        swap(cache=DoomedRestores),
    ),
    Mutant(
        "22862-no-free-tail",
        "sgl-project/sglang#21875, #22862",
        "KV past the matched prefix is not freed before the extend overwrites it",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(cache=NoFreeTail),
    ),
    Mutant(
        "22862m-extra-minus-one",
        "sgl-project/sglang#22862",
        "the matched prefix is one token too short: the key already leaves out the last token",
        ("INV-STEP",),
        swap(cache=ExtraMinusOne),
    ),
    Mutant(
        "22897-no-trim",
        "sgl-project/sglang#22897",
        "when a speculative round finishes a request, KV past the finished length stays committed",
        ("INV-COVER", "INV-CONTENT"),
        swap(cache=NoTrim),
        {"draft": 1},
    ),
    Mutant(
        "22900-trim-forgets-cursor",
        "sgl-project/sglang#22900",
        "trim caps C and A but not the sliding-window cursor",
        ("INV-CURSOR", "INV-SUM-SWA"),
        swap(cache=TrimForgetsCursor),
        {"draft": 4, "window": 1},
    ),
    Mutant(
        "32163-unaligned-reuse",
        "sgl-project/sglang#32163",
        "a restore reuses part of a page although the profile requires whole pages",
        ("INV-STEP",),
        swap(cache=UnalignedReuse),
        {"aligned_reuse": True, "page_size": 2},
    ),
    Mutant(
        "9173-empty-slot-crash",
        "ggml-org/llama.cpp#9173, #14434",
        "restoring a slot without committed KV crashes",
        ("INV-ALIVE",),
        swap(slot=EmptySlotCrash),
    ),
    Mutant(
        "26676-restore-does-nothing",
        "ggml-org/llama.cpp#26676",
        "a restore reports success but gives the turn no KV",
        ("INV-ONCE", "INV-SUM-FULL", "INV-STEP", "INV-OWNER"),
        swap(slot=RestoreDoesNothing),
    ),
)
