"""The vLLM driver with a build that has one thing wrong: which, the seed of a reset says.

    PYTHONPATH=…/drivers/vllm ENV/bin/python broken.py

The build's own methods are changed, of the one scheduler that the reset makes; nothing in the
driver knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotproof_vllm import boot, main  # type: ignore[import-not-found]  # of the PYTHONPATH


def nothing(scheduler: Any) -> None:
    """A sound build."""
    del scheduler


def blocks_swapped(scheduler: Any) -> None:
    """The block table that the worker gets has its first two blocks the other way round."""
    schedule = scheduler.schedule

    def wrong(*args: Any, **kwargs: Any) -> Any:
        output = schedule(*args, **kwargs)
        for new in output.scheduled_new_reqs:
            new.block_ids[0][:2] = new.block_ids[0][:2][::-1]
        return output

    scheduler.schedule = wrong


def freed_early(scheduler: Any) -> None:
    """A session that waits for its next turn gives its last block back, and keeps it as well."""
    stopped = scheduler._handle_stopped_request
    manager = scheduler.kv_cache_manager

    def wrong(request: Any) -> Any:
        blocks = manager.coordinator.single_type_managers[0].req_to_blocks[request.request_id]
        if request.resumable:
            manager.block_pool.free_blocks([blocks[-1]])
        return stopped(request)

    scheduler._handle_stopped_request = wrong


def found_wrongly(scheduler: Any) -> None:
    """Whoever looks for a cached block gets another one that is cached: the content is wrong, and
    all that is counted is right."""
    pool = scheduler.kv_cache_manager.block_pool
    cached = pool.get_cached_block

    def wrong(*args: Any, **kwargs: Any) -> Any:
        found = cached(*args, **kwargs)
        others = [each for each in pool.blocks if each.block_hash is not None]
        return found or ([others[0]] if others else None)

    pool.get_cached_block = wrong


def preempted_whole(scheduler: Any) -> None:
    """A request that is preempted keeps its blocks."""
    preempt, manager = scheduler._preempt_request, scheduler.kv_cache_manager

    def wrong(*args: Any, **kwargs: Any) -> Any:
        free, manager.free = manager.free, lambda _: None
        try:
            return preempt(*args, **kwargs)
        finally:
            manager.free = free

    scheduler._preempt_request = wrong


def token_kept(scheduler: Any) -> None:
    """The last sampled token of a turn stays in the session, though it has no KV."""
    update = scheduler._update_request_as_session

    def wrong(session: Any, chunk: Any) -> None:
        kept = session._all_token_ids[-1]
        chunk.prompt_token_ids.insert(0, kept)
        update(session, chunk)

    scheduler._update_request_as_session = wrong


def round_swapped(scheduler: Any) -> None:
    """The worker gets the new blocks of a decoding round the other way round: where a round takes
    two, as drafts do, the KV of accepted tokens lies elsewhere."""
    schedule = scheduler.schedule

    def wrong(*args: Any, **kwargs: Any) -> Any:
        output = schedule(*args, **kwargs)
        for new in output.scheduled_cached_reqs.new_block_ids:
            if new is not None:
                new[0].reverse()
        return output

    scheduler.schedule = wrong


def rejected_kept(scheduler: Any) -> None:
    """Of the tokens of a round that were rejected, one still counts as computed."""
    update = scheduler.update_from_output

    def wrong(batch: Any, output: Any) -> Any:
        for key, drafts in batch.scheduled_spec_decode_tokens.items():
            accepted = len(output.sampled_token_ids[output.req_id_to_index[key]]) - 1
            if accepted < len(drafts):
                scheduler.requests[key].num_computed_tokens += 1
        return update(batch, output)

    scheduler.update_from_output = wrong


def trimmed_kept(scheduler: Any) -> None:
    """Accepted tokens past the one that ends a turn still count as computed, as up to 0.25.0."""
    update = scheduler._update_request_with_output

    def wrong(request: Any, tokens: list[int], *args: Any, **kwargs: Any) -> Any:
        before = request.num_computed_tokens
        answer = update(request, tokens, *args, **kwargs)
        request.num_computed_tokens = before
        return answer

    scheduler._update_request_with_output = wrong


def placeholder_kept(scheduler: Any) -> None:
    """A turn that ends while its next token is under way: the session counts that token's KV."""
    stopped = scheduler._handle_stopped_request

    def wrong(request: Any) -> Any:
        request.num_output_placeholders = 0
        return stopped(request)

    scheduler._handle_stopped_request = wrong


def block_lost(scheduler: Any) -> None:
    """Of the blocks with a hash that are freed, the first does not come back to the queue."""
    queue = scheduler.kv_cache_manager.block_pool.free_block_queue
    append = queue.append_n
    queue.append_n = lambda blocks: append(blocks[1:])


def block_queued_in_use(scheduler: Any) -> None:
    """A block that is found stays in the queue of those that may be given out."""

    def wrong(blocks: Any) -> None:
        for each in blocks:
            each.ref_cnt += 1

    scheduler.kv_cache_manager.block_pool.touch = wrong


def hash_not_filed(scheduler: Any) -> None:
    """A block gets its hash, and is not filed under it."""
    pool = scheduler.kv_cache_manager.block_pool
    pool.cached_block_hash_to_block.insert = lambda key, block: None


def hash_stays_filed(scheduler: Any) -> None:
    """A block that is given out anew loses its hash, and is still found by it."""
    pool = scheduler.kv_cache_manager.block_pool
    pool.cached_block_hash_to_block.pop = lambda key, block_id: pool.blocks[block_id]


def hash_of_dropped(scheduler: Any) -> None:
    """The hash of a block with the token that was dropped at the resume stays (as up to 0.25)."""
    update = scheduler._update_request_as_session

    def wrong(session: Any, chunk: Any) -> None:
        stale = list(session.block_hashes)
        update(session, chunk)
        session.block_hashes[: len(stale)] = stale

    scheduler._update_request_as_session = wrong


def entry_stays(scheduler: Any) -> None:
    """The number of cached blocks of a request is kept when the request is gone."""
    (group,) = scheduler.kv_cache_manager.coordinator.single_type_managers
    free = group.free

    def wrong(key: str) -> None:
        count = group.num_cached_block.get(key, 0)
        free(key)
        group.num_cached_block[key] = count

    group.free = wrong


def end_not_told(scheduler: Any) -> None:
    """The model runner does not hear of a request's end."""
    free = scheduler._free_request

    def wrong(request: Any, *args: Any, **kwargs: Any) -> Any:
        result = free(request, *args, **kwargs)
        scheduler.finished_req_ids.discard(request.request_id)
        return result

    scheduler._free_request = wrong


def preempted_forgotten(scheduler: Any) -> None:
    """A request that is preempted is in no queue."""
    preempt = scheduler._preempt_request

    def wrong(request: Any, *args: Any, **kwargs: Any) -> Any:
        result = preempt(request, *args, **kwargs)
        scheduler.waiting.remove_requests([request])
        return result

    scheduler._preempt_request = wrong


def newest_first(scheduler: Any) -> None:
    """Of the turns that wait for their session, the one that came last is taken first."""
    stopped = scheduler._handle_stopped_request

    def wrong(request: Any) -> Any:
        queue = request.streaming_queue
        if queue and queue[-1] is not None:  # that one is the close
            queue.rotate(1)
        return stopped(request)

    scheduler._handle_stopped_request = wrong


FAULTS: list[Callable[[Any], None]] = [
    nothing,
    blocks_swapped,
    freed_early,
    found_wrongly,
    preempted_whole,
    token_kept,
    round_swapped,
    rejected_kept,
    trimmed_kept,
    placeholder_kept,
    block_lost,
    block_queued_in_use,
    hash_not_filed,
    hash_stays_filed,
    hash_of_dropped,
    entry_stays,
    end_not_told,
    preempted_forgotten,
    newest_first,
]


class Driver(main.Driver):  # type: ignore[misc]  # of another environment
    """Resets with a fault."""

    def answer(self, request: dict[str, Any]) -> Any:
        if request.get("op") == "reset":
            fault, build = FAULTS[request["seed"]], BUILD

            def broken(*args: Any) -> Any:
                scheduler = build(*args)
                fault(scheduler)
                return scheduler

            boot.build_scheduler = broken
        return super().answer(request)


BUILD = boot.build_scheduler

if __name__ == "__main__":
    Driver(boot.Options(), []).run()
