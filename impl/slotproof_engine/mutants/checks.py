"""Bugs of the engine's own check: it does not look, or counts wrong, or says nothing."""

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
        """Does not run where there are drafts."""
        if not self.config.draft:
            super().self_check_during_busy()


class BatchEquality(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Compares batches field by field, tensors included."""
        last, running = self.scheduler.last_batch, self.scheduler.running_batch
        batches = [last] if last is not None else []
        if not running.is_empty() and running not in batches:
            batches.append(running)
        return batches


class BatchTwice(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Does not ask whether the running batch is the last one."""
        last, running = self.scheduler.last_batch, self.scheduler.running_batch
        return [running] if last is None else [last, running]


class BatchBySize(MemoryChecker):
    def batches(self) -> list[ScheduleBatch]:
        """Looks a batch up by how much KV it has: of two alike the first is found twice."""
        found: dict[tuple[int, ...], ScheduleBatch] = {}
        batches = super().batches()
        return [found.setdefault(self._size(each), each) if each.reqs else each for each in batches]

    def _size(self, batch: ScheduleBatch) -> tuple[int, ...]:
        pools = self.config.pools
        return tuple(sum(self.kv.private_size(req, pool) for req in batch.reqs) for pool in pools)


class MergesIntoItself(Scheduler):
    def _merge_last_batch(self) -> None:
        """Does not ask whether the last batch is the running one: merged, its requests are gone."""
        if self.last_batch is not None:
            self.running_batch.merge_batch(self.last_batch)
        self.last_batch = None


class Loud(MemoryChecker):
    def _keep(self, lines: list[str]) -> None:
        """Logs at level 1 as at level 2."""
        super()._keep(lines)
        for line in lines:
            self.log(line)


class KeepsNothing(MemoryChecker):
    def _keep(self, lines: list[str]) -> None:
        """When a check fails, nothing is known of those before it."""


class Silent(MemoryChecker):
    def _dump(self) -> None:
        """The lines that were kept stay where they are."""


class ParkedNotCounted(MemoryChecker):
    def uncached_reqs(self) -> Iterator[Req]:
        """Counts requests in batches; the parked one is in none."""
        for batch in self.batches():
            yield from batch.reqs


class OnePool(MemoryChecker):
    def pools(self) -> tuple[str, ...]:
        """Looks at the full pool only."""
        return (FULL,)


class Off(MemoryChecker):
    def check(self) -> None:
        """Never runs."""


class Blind(MemoryChecker):
    def _check_pools(self) -> list[str]:
        """Computes every figure and draws no conclusion."""
        super()._check_pools()
        return []


MUTANTS = (
    Mutant(
        "27228a-check-off-with-drafts",
        "sgl-project/sglang#27228",
        "the busy check returns early when drafts exist",
        ("INV-CHECKER",),
        swap(checker=OffWithDrafts),
        {"draft": 1},
    ),
    Mutant(
        "27228b-batch-equality",
        "sgl-project/sglang#27228",
        "whether a batch was counted is asked by equality, which compares tensors",
        ("INV-CHECKER", "INV-ALIVE"),
        swap(checker=BatchEquality),
    ),
    Mutant(
        "27228c-batch-twice",
        "sgl-project/sglang#27228",
        "where the last batch is the running one its requests are counted twice",
        ("INV-CHECKER",),
        swap(checker=BatchTwice),
    ),
    Mutant(
        "27228d-batch-by-size",
        "sgl-project/sglang#27228",
        "two batches that are equally large are taken for one, which is counted twice: sums agree",
        ("INV-CHECKER",),
        swap(checker=BatchBySize),
    ),
    Mutant(
        "27228e-merges-into-itself",
        "sgl-project/sglang#27228",
        "the running batch is merged with the last one also where they are the same object",
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
        "level 1 keeps no lines for a check that fails",
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
        "a turn between two chunks is in neither batch and is not counted",
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
        "one page is lost, and the check says ok",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-FULL"),
        swap(allocators=LEAK_FULL, checker=Blind),
    ),
    Mutant(
        "leak-swa-blind",
        "a plain fault",
        "one sliding-window page is lost, and the check looks at the full pool only",
        ("INV-CHECKER", "INV-OWNER", "INV-SUM-SWA"),
        swap(allocators=LEAK_SWA, checker=OnePool),
        {"window": 1},
    ),
)
