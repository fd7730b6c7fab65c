"""Bugs of the engine's own memory check: no check, wrong counts, or no report."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_engine.kv.kv_cache import FULL
from slotproof_engine.mutants.memory import LEAK_FULL, LEAK_SWA
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Req
from slotproof_engine.scheduling.checker import MemoryChecker
from slotproof_engine.scheduling.scheduler import Scheduler


class OffWithDrafts(MemoryChecker):
    def self_check_during_busy(self) -> None:
        """Skip the busy check if the engine uses draft tokens."""
        if not self.config.draft:
            super().self_check_during_busy()


class BatchEquality(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Compare batches field by field, tensors included."""
        last, running = self.scheduler.last_batch, self.scheduler.running_batch
        batches = [last] if last is not None else []
        if not running.is_empty() and running not in batches:
            batches.append(running)
        return batches


class BatchTwice(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Count the running batch again, even if it is the last batch."""
        last, running = self.scheduler.last_batch, self.scheduler.running_batch
        return [running] if last is None else [last, running]


class BatchBySize(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Identify a batch by the size of its KV: of two batches of equal size, the first counts
        twice."""
        by_size: dict[tuple[int, ...], ScheduleBatch] = {}
        batches = super().batches()
        return [by_size.setdefault(self._size(b), b) if b.reqs else b for b in batches]

    def _size(self, batch: ScheduleBatch) -> tuple[int, ...]:
        pools = self.config.pools
        return tuple(sum(self.kv.private_size(req, pool) for req in batch.reqs) for pool in pools)


class MergesIntoItself(Scheduler):
    def _merge_last_batch(self) -> None:
        """Merge the last batch into the running batch even if both are the same object. All
        requests of that batch are lost."""
        if self.last_batch is not None:
            self.running_batch.merge_batch(self.last_batch)
        self.last_batch = None


class Loud(MemoryChecker):
    def _keep(self, lines: list[str]) -> None:
        """Log every line at level 1, as at level 2."""
        super()._keep(lines)
        for line in lines:
            self.log(line)


class KeepsNothing(MemoryChecker):
    def _keep(self, lines: list[str]) -> None:
        """Store no lines for a later failure."""


class Silent(MemoryChecker):
    def _dump(self) -> None:
        """Log no stored lines when a check fails."""


class ParkedNotCounted(MemoryChecker):
    def uncached_reqs(self) -> Iterator[Req]:
        """Count only requests in batches. The parked request is in no batch."""
        for batch in self.batches():
            yield from batch.reqs


class OnePool(MemoryChecker):
    def pools(self) -> tuple[str, ...]:
        """Check only the full-attention pool."""
        return (FULL,)


class Off(MemoryChecker):
    def check(self) -> None:
        """Never check."""


class Blind(MemoryChecker):
    def _check_pools(self) -> list[str]:
        """Compute every token count, but report no violation."""
        super()._check_pools()
        return []


MUTANTS = (
    Mutant(
        "27228a-check-off-with-drafts",
        "sgl-project/sglang#27228",
        "the busy check returns early when the engine drafts",
        ("INV-CHECKER",),
        swap(checker=OffWithDrafts),
        {"draft": 1},
    ),
    Mutant(
        "27228b-batch-equality",
        "sgl-project/sglang#27228",
        "a batch already counted is recognised with ==, which compares tensors",
        ("INV-CHECKER", "INV-ALIVE"),
        swap(checker=BatchEquality),
    ),
    Mutant(
        "27228c-batch-twice",
        "sgl-project/sglang#27228",
        "the requests of a batch that is both last and running are counted twice",
        ("INV-CHECKER",),
        swap(checker=BatchTwice),
    ),
    Mutant(
        "27228d-batch-by-size",
        "sgl-project/sglang#27228",
        "of two batches of equal size, the first is counted twice, so that the sums still agree",
        ("INV-CHECKER",),
        swap(checker=BatchBySize),
    ),
    Mutant(
        "27228e-merges-into-itself",
        "sgl-project/sglang#27228",
        "the running batch is merged with the last batch even if both are the same object",
        ("INV-CHECKER", "INV-SUM-FULL"),
        swap(scheduler=MergesIntoItself),
    ),
    Mutant(
        "27238a-loud",
        "sgl-project/sglang#27238",
        "level 1 logs every check",
        ("INV-CHECKER",),
        swap(checker=Loud),
    ),
    Mutant(
        "27238b-keeps-nothing",
        "sgl-project/sglang#27238",
        "level 1 stores no lines for a failed check",
        ("INV-CHECKER",),
        swap(checker=KeepsNothing),
    ),
    Mutant(
        "27238c-silent",
        "sgl-project/sglang#27238",
        "one page is lost, and level 1 logs nothing when the check fails",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-FULL"),
        swap(allocators=LEAK_FULL, checker=Silent),
    ),
    Mutant(
        "37502-parked-not-counted",
        "sgl-project/sglang#37502",
        "a turn parked between two prefill chunks is in no batch and is not counted",
        ("INV-CHECKER",),
        swap(checker=ParkedNotCounted),
        {"chunk": 1},
    ),
    Mutant(
        "21499-one-pool-check",
        "sgl-project/sglang#21499",
        "the busy check ignores the sliding-window pool",
        ("INV-CHECKER",),
        swap(checker=OnePool),
        {"window": 1},
    ),
    Mutant(
        "leak-full-off",
        "a plain fault",
        "one page is lost, and the check never runs",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-FULL"),
        swap(allocators=LEAK_FULL, checker=Off),
    ),
    Mutant(
        "leak-full-blind",
        "a plain fault",
        "one page is lost, and the check reports ok",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-FULL"),
        swap(allocators=LEAK_FULL, checker=Blind),
    ),
    Mutant(
        "leak-swa-blind",
        "a plain fault",
        "one sliding-window page is lost, and the check covers the full pool only",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-SWA"),
        swap(allocators=LEAK_SWA, checker=OnePool),
        {"window": 1},
    ),
)
