"""Bugs of pages, free lists and locks, and the plain fault ``leak``."""

from __future__ import annotations

import torch
from torch import Tensor

from slotproof_engine.kv.kv_cache import FULL, SWA, KVCache
from slotproof_engine.memory.pool import PageAllocator
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.sessions.session_cache import SessionCache


class UnalignedTail(KVCache):
    def tail_start(self, m: int) -> int:
        """Begin freeing in the middle of a page, which frees the whole page."""
        return m


class FreesTwice(PageAllocator):
    def free(self, pages: Tensor) -> None:
        """Free a page twice if several pages are freed in a single call."""
        super().free(torch.cat((pages, pages[:1])) if len(pages) > 1 else pages)


class DoubleUnpin(SessionCache):
    def release_session(self, sid: str) -> int:
        """Drop the lock, then release the slot, which drops the lock again."""
        slot = self.slots.get(sid)
        unlocked = self.kv.unlock(slot) if slot is not None else 0
        return unlocked + super().release_session(sid)


class Leak(PageAllocator):
    """Allocator that loses a page."""

    lost = False

    def free(self, pages: Tensor) -> None:
        """Lose the last page of the first call."""
        if not self.lost and len(pages):
            self.lost, pages = True, pages[:-1]
        super().free(pages)


LEAK_FULL = {FULL: Leak, SWA: PageAllocator}
LEAK_SWA = {FULL: PageAllocator, SWA: Leak}

MUTANTS = (
    Mutant(
        "22862r-unaligned-free-tail",
        "sgl-project/sglang#22862, review",
        "a cut frees from its own position on, not from the next page boundary",
        ("INV-ALIGN", "INV-OWNER", "INV-SUM-FULL"),
        swap(kv=UnalignedTail),
        {"page_size": 4},
    ),
    Mutant(
        "42571-double-free",
        "vllm-project/vllm#42571",
        "a page is freed twice in a single call and is in the free list twice",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(allocators={FULL: FreesTwice, SWA: FreesTwice}),
    ),
    Mutant(
        "2954-double-unpin",
        "LMCache/LMCache#2954",
        "releasing a slot drops its tree lock twice",
        ("INV-LOCK",),
        swap(cache=DoubleUnpin),
    ),
    Mutant(
        "leak-full",
        "a plain fault",
        "one page of the full pool is lost",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(allocators=LEAK_FULL),
    ),
    Mutant(
        "leak-swa",
        "a plain fault",
        "one page of the sliding-window pool is lost",
        ("INV-OWNER", "INV-SUM-SWA"),
        swap(allocators=LEAK_SWA),
        {"window": 1},
    ),
)
