"""Bugs of the slot itself and of what a turn does with it at the start and at the end."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import KVRecord, Phase, Req
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.sessions.session_cache import SessionCache


class DoubleCount(SessionCache):
    def held_slots(self) -> Iterator[SessionSlot]:
        """Counts a slot on loan here, too."""
        return iter(self.slots.values())


class RowsOnLoan(SessionCache):
    def session_held_req_count(self) -> int:
        """Counts the row of a slot on loan here, too."""
        return len(self.slots)


class StickyActive(SessionSlot):
    def end_loan(self) -> None:
        """Forgets that the turn has not got the KV any more."""


class UnalignedProtected(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Says that all of the prefix is the tree's."""
        super().restore_to_req(req)
        req.cache_protected_len = self.kv_committed_len


class RestoreEmptiesSlot(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Moves the KV instead of lending it: a refused turn can't find it again."""
        super().restore_to_req(req)
        root = self.last_node
        while root is not None and root.parent is not None:
            root = root.parent
        self.copy_kv(KVRecord(last_node=root))


class EmptyKey(SessionCache):
    def free_tail(self, slot: SessionSlot, n: int) -> None:
        """Takes an empty match for nothing to do: the row is written from 0 again."""
        if n == 0:
            self.kv.cap(slot, 0)
        else:
            super().free_tail(slot, n)


class DoomedRestores(SessionCache):
    def match_prefix(self, req: Req) -> None:
        """A doomed turn stays the session's: its one token lands on the slot's row."""
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
        """Leaves [n, A) to be overwritten by the next extend."""
        self.kv.cap(slot, self.kv.cut_point(slot, n))


class ExtraMinusOne(SessionCache):
    def reusable_len(self, slot: SessionSlot, req: Req) -> int:
        """Takes one off for the logits where that was done already."""
        n = min(slot.kv_committed_len, max(req.seqlen - 2, 0))
        return self.kv.floor_page(n) if self.config.aligned_reuse else n


class AllOrNothing(SessionCache):
    def can_restore(self, slot: SessionSlot, n: int) -> bool:
        """A slot of which the prompt can't use all is no good."""
        return n == slot.kv_committed_len and super().can_restore(slot, n)


class NoTrim(SessionCache):
    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Truncates the outputs and leaves the KV past them."""
        del req.output_ids[finished_len:]


class TrimForgetsCursor(SessionCache):
    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Caps C and A, but not the cursor."""
        cursor = req.swa_evicted_seqlen
        super().trim_overshoot(req, finished_len)
        req.swa_evicted_seqlen = cursor


class UnalignedReuse(SessionCache):
    def reusable_len(self, slot: SessionSlot, req: Req) -> int:
        """Reuses part of a page although the hardware needs whole ones."""
        return min(slot.kv_committed_len, req.seqlen - 1)


class EmptySlotCrash(SessionSlot):
    def restore_to_req(self, req: Req) -> None:
        """Asks for the last position of a slot that has none."""
        assert range(self.kv_committed_len)[-1] >= 0
        super().restore_to_req(req)


class RestoreDoesNothing(SessionSlot):
    def restore_to_req(self, req: Req) -> None:  # noqa: ARG002  # that is the bug
        """Reports success; the turn begins without KV."""
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
        "the row of a lent slot is counted as the slot's, and is the request's",
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
        "a restore takes all committed KV for the tree's",
        ("INV-ALIGN", "INV-SUM-FULL"),
        swap(slot=UnalignedProtected),
        {"page_size": 4},
    ),
    Mutant(
        "20476-restore-empties-slot",
        "sgl-project/sglang#20476",
        "restore empties the slot: a refused turn loses the KV, and its lock stays",
        ("INV-ONCE", "INV-SUM-FULL", "INV-LOCK"),
        swap(slot=RestoreEmptiesSlot),
    ),
    Mutant(
        "restore-all-or-nothing",
        "a plain fault",
        "a slot that has more KV than its turn can use is discarded",
        ("INV-PROGRESS",),
        swap(cache=AllOrNothing),
    ),
    Mutant(
        "20557-empty-key",
        "sgl-project/sglang#20557",
        "with an empty match key nothing is freed and the row is written from 0",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(cache=EmptyKey),
    ),
    Mutant(
        "22273-doomed-restores",
        "sgl-project/sglang#22273",
        "a doomed turn restores the slot, then saves its one token over it",
        ("INV-SUM-FULL", "INV-ORDER", "INV-HISTORY", "INV-BACKED"),
        swap(cache=DoomedRestores),
    ),
    Mutant(
        "22862-no-free-tail",
        "sgl-project/sglang#21875, #22862",
        "what lies past the matched prefix is not freed before the extend overwrites it",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(cache=NoFreeTail),
    ),
    Mutant(
        "22862m-extra-minus-one",
        "sgl-project/sglang#22862",
        "the matched prefix is one less than the key, which leaves the last token out already",
        ("INV-STEP",),
        swap(cache=ExtraMinusOne),
    ),
    Mutant(
        "22897-no-trim",
        "sgl-project/sglang#22897",
        "a finishing speculative round leaves KV committed past the finished length",
        ("INV-COVER", "INV-CONTENT"),
        swap(cache=NoTrim),
        {"draft": 1},
    ),
    Mutant(
        "22900-trim-forgets-cursor",
        "sgl-project/sglang#22900",
        "trim caps C and A and leaves the sliding-window cursor behind",
        ("INV-CURSOR", "INV-SUM-SWA"),
        swap(cache=TrimForgetsCursor),
        {"draft": 4, "window": 1},
    ),
    Mutant(
        "32163-unaligned-reuse",
        "sgl-project/sglang#32163",
        "a restore reuses part of a page although the profile wants whole ones",
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
        "a restore reports success and hands over nothing",
        ("INV-ONCE", "INV-SUM-FULL", "INV-STEP", "INV-OWNER"),
        swap(slot=RestoreDoesNothing),
    ),
)
