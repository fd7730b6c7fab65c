"""Where a build keeps what the driver reads, and what a build offers.

| spec | protocol | where |
|---|---|---|
| full.total | `pools.full.total` | `BlockPool.num_gpu_blocks`, less the null block |
| full.available | `pools.full.available`, `free` | blocks of the free queue without a hash |
| full.evictable | `pools.full.evictable` | blocks with a hash and no reference |
| full.protected | `pools.full.protected` | blocks with a hash and references |
| | `reusable` | `BlockPool.free_block_queue`, in its order |
| | `lookup.finds` | `BlockPool.cached_block_hash_to_block` |
| | `queues` | `Scheduler.running` and its queues of those that wait |
| | `tables` | `Scheduler.requests`; `req_to_blocks`, `num_cached_block` of the group |
| page | `tree` | a block with a hash; its locks are `KVCacheBlock.ref_cnt` |
| rows.total, rows.free | `rows` | `max_num_seqs`; a running request has one, and a paused session |
| session.open, session.closing | `sessions` | the front end's (`clients.py`) |
| session.inflight | `sessions.inflight` | the turn whose tokens the session's request has |
| session.history | `sessions.history` | `_all_token_ids` before the turn's; paused: less the last |
| slot.holding, slot.lent | `slots`, `loan` | the request has blocks of a turn that ended; it runs |
| slot.C, req.C | `C` | `Request.num_computed_tokens`, less drafts that are under way |
| slot.A, req.A | `A` | its blocks in `req_to_blocks`; what they were asked for if it ends there |
| slot.Q, req.Q | `Q` | leading blocks of it that have a hash |
| slot.E, req.E | `E` | 0: there is no window |
| slot.row, req.row | `row` | the driver's numbers: the engine's rows change with each step |
| slot.locked, req.locked | `locks` | 1 for who has the blocks; on loan the slot's |
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
"""Queues that a build may have: of a request that waits, one."""

UNCOUNTED = 60
"""Rows for sessions that are paused or wait, in builds that let more of them be than may run."""


class Layout:
    """Reads one scheduler. `UsageError`, one line, for one that is laid out otherwise."""

    def __init__(self, scheduler: Any, page_size: int) -> None:
        self.scheduler = scheduler
        self.page_size = page_size
        self.asked: dict[str, int] = {}
        """Positions for which a request was given blocks, as `events.py` notes them."""
        self.unsure: dict[str, int] = {}
        """Drafts of a request in batches whose output is not processed, as well."""
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
        """How many requests can have KV at a time; more where who has KV may wait behind others."""
        most: int = self.scheduler.max_num_running_reqs
        return most if hasattr(self.scheduler, "kv_holding_waiting") else most + UNCOUNTED

    # Blocks ---------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Tokens of the pool."""
        return (int(self.pool.num_gpu_blocks) - 1) * self.page_size

    def free_pages(self) -> list[int]:
        """Pages that nobody has and the tree does not either."""
        queue = self.pool.free_block_queue.get_all_free_blocks()
        return [page(each) for each in queue if each.block_hash is None]

    def tree(self) -> list[list[int]]:
        """Pages that can be found by their hash, with the number of their users."""
        blocks = self.pool.blocks
        return [
            [page(each), each.ref_cnt]
            for each in blocks
            if each.block_hash is not None and not each.is_null
        ]

    def protected(self) -> int:
        """Tokens of the tree that somebody uses."""
        used = (
            each.block_hash is not None and each.ref_cnt > 0 and not each.is_null
            for each in self.pool.blocks
        )
        return int(sum(used)) * self.page_size

    def reusable(self) -> list[int]:
        """Pages in the order in which they are given out."""
        return [page(each) for each in self.pool.free_block_queue.get_all_free_blocks()]

    def finds(self) -> list[list[int]]:
        """Keys of prefixes, each with a page that is found by it."""
        found: dict[bytes, Any] = self.pool.cached_block_hash_to_block._cache
        return [
            [key_of(key), page(block)]
            for key, blocks in found.items()
            for block in (blocks.values() if isinstance(blocks, dict) else [blocks])
        ]

    # Requests ---------------------------------------------------------------------------

    def request(self, key: str) -> Any:
        """The engine's request of that id, or None."""
        return self.scheduler.requests.get(key)

    def blocks(self, key: str) -> list[int]:
        """The block table of a request, by the engine's own numbers."""
        return [each.block_id for each in self.owned.get(key, ())]

    def shared(self, key: str) -> int:
        """Tokens of the leading blocks of a request that others can find."""
        count = 0
        for each in self.owned.get(key, ()):
            if each.block_hash is None:
                break
            count += 1
        return count * self.page_size

    def lengths(self, key: str) -> tuple[int, int, int]:
        """C, A and Q of a request."""
        request, count = self.request(key), len(self.owned.get(key, ()))
        if request is None or not count:
            return 0, 0, 0
        valid, size = int(request.num_computed_tokens) - self.unsure.get(key, 0), self.page_size
        asked = max(valid, self.asked.get(key, 0))
        return valid, asked if -(-asked // size) == count else count * size, self.shared(key)

    def queues(self) -> dict[str, list[str]]:
        """Ids of the requests that run, and of those that stand in a queue, by its name."""
        found = {"running": [each.request_id for each in self.scheduler.running]}
        for name in WAITING:
            if hasattr(self.scheduler, name):
                found[name] = [each.request_id for each in getattr(self.scheduler, name)]
        return found

    def tables(self) -> dict[str, list[str]]:
        """Ids of the requests that the scheduler and its block manager have an entry for."""
        return {
            "requests": list(self.scheduler.requests),
            "req_to_blocks": list(self.owned),
            "num_cached_block": list(self.group.num_cached_block),
        }

    def ended(self) -> set[str]:
        """Ids of requests that are over, of which the model runner was not told yet."""
        return set(self.scheduler.finished_req_ids)

    def runs(self, key: str) -> bool:
        """Whether a request is in the batch, or between two chunks."""
        request = self.request(key)
        return request is not None and request.status.name == "RUNNING"


def page(block: Any) -> int:
    """The number of a page: the null block has none."""
    return int(block.block_id) - 1


def key_of(block_hash: bytes) -> int:
    """A hash as a number, with or without the group that follows it."""
    return int.from_bytes(block_hash[:6], "big")


def pauses(scheduler: Any) -> bool:
    """Whether the build's scheduler can be paused."""
    return hasattr(scheduler, "set_pause_state")


def pause_state(scheduler: Any, paused: bool) -> Any:
    """The build's own word for it: no request is scheduled, as by the mode `keep`."""
    modules = (vars(inspect.getmodule(each)) for each in type(scheduler).__mro__)
    kind = next(each["PauseState"] for each in modules if "PauseState" in each)
    return kind.PAUSED_ALL if paused else kind.UNPAUSED
