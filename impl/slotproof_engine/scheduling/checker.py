"""Memory check of the engine: an equation per pool, and a count of rows when no request runs.

``available + evictable + protected + session_held + uncached == total``
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slotproof_engine.base.config import CHECKER_OFF, CHECKER_VERBOSE, EngineConfig
from slotproof_engine.kv.kv_cache import FULL, SWA
from slotproof_engine.kv.page_auditor import PageAuditor
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Req
from slotproof_engine.scheduling.scheduler import Scheduler

RECENT = 1000


@dataclass(frozen=True)
class Figures:
    """Token counts of a pool, as the engine computes them."""

    available: int
    evictable: int
    protected: int
    held: int
    uncached: int
    total: int

    @property
    def sum(self) -> int:
        return self.available + self.evictable + self.protected + self.held + self.uncached

    def __str__(self) -> str:
        return (
            f"{self.available} available + {self.evictable} evictable + {self.protected} protected"
            f" + {self.held} held + {self.uncached} uncached = {self.sum} of {self.total}"
        )


class MemoryChecker:
    """Memory check without side effects. The check stores a verdict and does not raise."""

    def __init__(
        self, config: EngineConfig, scheduler: Scheduler, log: Callable[[str], None]
    ) -> None:
        self.config = config
        self.level = config.checker_level
        self.scheduler = scheduler
        self.cache = scheduler.cache
        self.kv = scheduler.cache.kv
        self.log = log
        self.recent: deque[str] = deque(maxlen=RECENT)
        """Lines of recent checks, logged at level 1 when a check fails."""
        self.auditor = PageAuditor(config, self.kv) if config.audit else None
        self._forget()

    def _forget(self) -> None:
        self.ran = False
        self.figures: dict[str, Figures] = {}
        """Token counts of the pools covered by the last check."""
        self.held_rows: int | None = None
        """Number of rows held by slots not on loan, as counted by the last check."""
        self.counted: list[str] = []
        """IDs of the requests counted by the last check, in order."""
        self.verdict = "off"
        self.message = ""

    def check(self) -> None:
        """Check the state after an iteration."""
        self._forget()
        if self.level == CHECKER_OFF:
            return
        if self.is_busy():
            self.self_check_during_busy()
        else:
            self.self_check_during_idle()

    def is_busy(self) -> bool:
        return self.scheduler.chunked_req is not None or any(
            not batch.is_empty() for batch in self.batches()
        )

    def self_check_during_busy(self) -> None:
        """Check that every token of every pool has an owner, even if drafts are used (#27228)."""
        self._conclude("BUSY", [*self._check_pools(), *self._check_pages()])

    def self_check_during_idle(self) -> None:
        """Check pools, pages and rows while no request runs. A row in use must belong to a slot."""
        self._conclude("IDLE", [*self._check_pools(), *self._check_pages(), *self._check_rows()])

    def _check_pools(self) -> list[str]:
        self.figures = {pool: self.pool_figures(pool) for pool in self.pools()}
        self.held_rows = self.cache.session_held_req_count()
        self.counted = [req.rid for req in self.uncached_reqs()]
        return [
            f"{pool}: {figures}"
            for pool, figures in self.figures.items()
            if figures.sum != figures.total
        ]

    def _check_pages(self) -> list[str]:
        """Return the findings of the page audit, if enabled."""
        if self.auditor is None:
            return []
        self.auditor.launch([*self.uncached_reqs(), *self.cache.held_slots()], self.pools())
        return self.auditor.wrong()

    def _check_rows(self) -> list[str]:
        rows = self.kv.req_to_token_pool
        free, held = rows.available_size(), self.held_rows or 0
        return [f"rows: {free} free + {held} held of {rows.size}"] * (free + held != rows.size)

    def _conclude(self, when: str, leaks: list[str]) -> None:
        self.ran = True
        self.verdict = "leak" if leaks else "ok"
        self.message = "; ".join(leaks)
        lines = [f"[Mem Check ({when})] {pool}: {line}" for pool, line in self.figures.items()]
        lines += [f"[Mem Check ({when})] leak: {leak}" for leak in leaks]
        self._log_lines(lines, failed=bool(leaks))

    def _log_lines(self, lines: list[str], *, failed: bool) -> None:
        """Log every line at level 2. At level 1, store lines and log them when a check fails."""
        if self.level >= CHECKER_VERBOSE:
            for line in lines:
                self.log(line)
            return
        self._keep(lines)
        if failed:
            self._dump()

    def _keep(self, lines: list[str]) -> None:
        """Store the lines of a check for a later failure."""
        self.recent.extend(lines)

    def _dump(self) -> None:
        """Log the lines of a failed check and the lines stored before that check (#27228)."""
        for line in self.recent:
            self.log(line)
        self.recent.clear()

    # Figures ------------------------------------------------------------------------

    def pools(self) -> tuple[str, ...]:
        """Return the pools to check: all pools (#21499)."""
        return self.config.pools

    def pool_figures(self, pool: str) -> Figures:
        allocator, tree = self.kv.allocators[pool], self.kv.tree
        held, uncached = self.held_sizes(), self.uncached_sizes()
        return Figures(
            allocator.available_size(),
            tree.evictable,
            tree.protected,
            held[pool],
            uncached[pool],
            allocator.total,
        )

    def held_sizes(self) -> dict[str, int]:
        """Return the number of tokens owned by slots that are not on loan, per pool."""
        sizes = {FULL: self.cache.session_held_tokens()}
        if SWA in self.config.pools:
            sizes[SWA] = self.cache.session_held_swa_tokens()
        return sizes

    def uncached_sizes(self) -> dict[str, int]:
        """Return, per pool, the number of tokens that requests own past their protected prefix."""
        reqs = list(self.uncached_reqs())
        return {
            pool: sum(self.kv.private_size(req, pool) for req in reqs) for pool in self.config.pools
        }

    def uncached_reqs(self) -> Iterator[Req]:
        """Yield each request with KV once: the requests in batches, then the parked request."""
        for batch in self.batches():
            yield from batch.reqs
        if self.scheduler.chunked_req is not None:  # in no batch (#37502)
            yield self.scheduler.chunked_req

    def batches(self) -> list[ScheduleBatch]:
        """Return the last batch and the running batch, or only one if both are the same object
        (#27228)."""
        last, running = self.scheduler.last_batch, self.scheduler.running_batch
        batches = [last] if last is not None else []
        if running is not last:
            batches.append(running)
        return batches
