"""Locations of the state read by the driver in a build, and features of the build.

| spec | protocol | where |
|---|---|---|
| full.total | `pools.full.total` | `BlockPool.num_gpu_blocks`, less the null block |
| full.available | `pools.full.available`, `free` | blocks of the free queue without a hash |
| full.evictable | `pools.full.evictable` | blocks with a hash and no reference |
| full.protected | `pools.full.protected` | blocks with a hash and references |
| | `reusable` | `BlockPool.free_block_queue`, in its order |
| | `lookup.finds` | `BlockPool.cached_block_hash_to_block` |
| | `queues` | `Scheduler.running` and its waiting queues |
| | `tables` | `Scheduler.requests`; `req_to_blocks`, `num_cached_block` of the group |
| page | `tree` | a block with a hash; its locks are `KVCacheBlock.ref_cnt` |
| rows.total, rows.free | `rows` | `max_num_seqs`; one row per running request and paused session |
| session.open, session.closing | `sessions` | state of the front end (`clients.py`) |
| session.inflight | `sessions.inflight` | the turn whose tokens are in the session's request |
| session.history | `sessions.history` | `_all_token_ids` before the turn's; paused: less the last |
| slot.holding, slot.lent | `slots`, `loan` | the request has blocks of a finished turn; it runs |
| slot.C, req.C | `C` | `Request.num_computed_tokens`, less drafts in flight |
| slot.A, req.A | `A` | its blocks in `req_to_blocks`; less the unrequested end of the last block |
| slot.Q, req.Q | `Q` | leading blocks with a hash |
| slot.E, req.E | `E` | 0: no window exists |
| slot.row, req.row | `row` | the driver's numbers: the engine's rows change with each step |
| slot.locked, req.locked | `locks` | 1 for the holder of the blocks; on loan the slot's |
| req.kind | `kind` | turn, plain |
| req.phase | `phase` | `Request.status`; parked between two chunks |
| req.prompt, req.output | `prompt`, `output` | `num_prompt_tokens`, `num_output_tokens` |
"""

from __future__ import annotations

import inspect
from typing import Any

from slotproof_driver.usage import UsageError

WRAPPED = {
    "scheduler": ("schedule", "update_from_output", "finish_requests", "_preempt_request"),
    "manager": ("allocate_slots", "cache_blocks", "free", "reset_prefix_cache"),
    "pool": ("_maybe_evict_cached_block",),
}
"""Methods that the driver calls or wraps."""


WAITING = ("waiting", "skipped_waiting", "kv_holding_waiting")
"""Names of the waiting queues in different builds. A waiting request is in one of the queues."""

UNCOUNTED = 60
"""Number of extra rows, for builds in which paused or waiting sessions also hold KV."""


class Layout:
    """Reader of one scheduler. Raises `UsageError`, in one line, for an unknown layout."""

    def __init__(self, scheduler: Any, page_size: int) -> None:
        self.scheduler = scheduler
        self.page_size = page_size
        self.asked: dict[str, int] = {}
        """Number of positions allocated for each request. Recorded by `events.py`."""
        self.unsure: dict[str, int] = {}
        """Number of each request's drafts in batches with unprocessed output (see `events.py`)."""
        try:
            self.manager: Any = scheduler.kv_cache_manager
            self.pool: Any = self.manager.block_pool
            (self.group,) = self.manager.coordinator.single_type_managers
            self.owned: dict[str, list[Any]] = self.group.req_to_blocks
        except (AttributeError, ValueError) as error:
            raise UsageError(f"unknown layout: {error}") from None
        for name, methods in WRAPPED.items():
            for method in methods:
                if not hasattr(getattr(self, name), method):
                    whose = type(getattr(self, name)).__name__
                    raise UsageError(f"unknown layout: {whose} has no {method}")

    @property
    def rows(self) -> int:
        """Largest number of requests with KV. Some builds need rows for waiting requests, too."""
        most: int = self.scheduler.max_num_running_reqs
        return most if hasattr(self.scheduler, "kv_holding_waiting") else most + UNCOUNTED

    # Blocks ---------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Size of the pool, in tokens."""
        return (int(self.pool.num_gpu_blocks) - 1) * self.page_size

    def free_pages(self) -> list[int]:
        """Return the pages that are outside the tree and that no request holds."""
        queue = self.pool.free_block_queue.get_all_free_blocks()
        return [page(block) for block in queue if block.block_hash is None]

    def tree(self) -> list[list[int]]:
        """Return the pages that a lookup by hash can find, each with its number of users."""
        blocks = self.pool.blocks
        return [
            [page(block), block.ref_cnt]
            for block in blocks
            if block.block_hash is not None and not block.is_null
        ]

    def protected(self) -> int:
        """Return how many tokens of the tree are in use."""
        return sum(users > 0 for _, users in self.tree()) * self.page_size

    def reusable(self) -> list[int]:
        """Return the free pages in the order in which they will be allocated."""
        return [page(block) for block in self.pool.free_block_queue.get_all_free_blocks()]

    def finds(self) -> list[list[int]]:
        """Return pairs (key of a prefix, page that a lookup of the key returns)."""
        cached: dict[bytes, Any] = self.pool.cached_block_hash_to_block._cache
        return [
            [key_of(key), page(block)]
            for key, blocks in cached.items()
            for block in (blocks.values() if isinstance(blocks, dict) else [blocks])
        ]

    # Requests ---------------------------------------------------------------------------

    def request(self, key: str) -> Any:
        """Return the engine's request with this ID, or None."""
        return self.scheduler.requests.get(key)

    def blocks(self, key: str) -> list[int]:
        """Return the block table of a request. It uses the engine's block numbers."""
        return [block.block_id for block in self.owned.get(key, ())]

    def shared(self, key: str) -> int:
        """Return the number of a request's leading tokens that other requests can find by hash."""
        count = 0
        for block in self.owned.get(key, ()):
            if block.block_hash is None:
                break
            count += 1
        return count * self.page_size

    def lengths(self, key: str) -> tuple[int, int, int]:
        """Return C, A and Q of a request."""
        request, count = self.request(key), len(self.owned.get(key, ()))
        if request is None or not count:
            return 0, 0, 0
        valid, size = int(request.num_computed_tokens) - self.unsure.get(key, 0), self.page_size
        asked = max(valid, self.asked.get(key, 0))
        return valid, asked if -(-asked // size) == count else count * size, self.shared(key)

    def queues(self) -> dict[str, list[str]]:
        """Return the IDs of running and queued requests, by the name of their queue."""
        queued = {"running": [request.request_id for request in self.scheduler.running]}
        for name in WAITING:
            if hasattr(self.scheduler, name):
                queued[name] = [request.request_id for request in getattr(self.scheduler, name)]
        return queued

    def tables(self) -> dict[str, list[str]]:
        """Return the IDs of requests that the scheduler or its block manager lists."""
        return {
            "requests": list(self.scheduler.requests),
            "req_to_blocks": list(self.owned),
            "num_cached_block": list(self.group.num_cached_block),
        }

    def ended(self) -> set[str]:
        """Return the IDs of requests whose end has not been reported to the model runner."""
        return set(self.scheduler.finished_req_ids)

    def runs(self, key: str) -> bool:
        """Return True if a request is in the batch, or between two chunks."""
        request = self.request(key)
        return request is not None and request.status.name == "RUNNING"


def page(block: Any) -> int:
    """Return the number of a block's page. The null block has no page."""
    return int(block.block_id) - 1


def key_of(block_hash: bytes) -> int:
    """Return a hash as a number, without the cache group that some builds append."""
    return int.from_bytes(block_hash[:6], "big")


def pause_state(scheduler: Any, paused: bool) -> Any:
    """Return the build's pause state. A paused engine schedules no request, as in mode `keep`."""
    modules = (vars(inspect.getmodule(base)) for base in type(scheduler).__mro__)
    kind = next(names["PauseState"] for names in modules if "PauseState" in names)
    return kind.PAUSED_ALL if paused else kind.UNPAUSED
