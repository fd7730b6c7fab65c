"""The vLLM driver on a build with a fault, chosen by the seed of a reset.

    PYTHONPATH=…/drivers/vllm ENV/bin/python broken.py [unchecked]

A reset changes methods of its own scheduler, from the build. The driver knows nothing of it. If
`unchecked`, batches are not compared with the build's worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from slotproof_vllm import boot, main, worker  # type: ignore[import-not-found]  # of the PYTHONPATH


def nothing(scheduler: Any) -> None:
    """A sound build."""
    del scheduler


def blocks_swapped(scheduler: Any) -> None:
    """The worker gets the block table of a new request with its first two blocks swapped."""
    schedule = scheduler.schedule

    def wrong(*args: Any, **kwargs: Any) -> Any:
        output = schedule(*args, **kwargs)
        for new in output.scheduled_new_reqs:
            new.block_ids[0][:2] = new.block_ids[0][:2][::-1]
        return output

    scheduler.schedule = wrong


def freed_early(scheduler: Any) -> None:
    """A session waiting for its next turn frees its last block and still holds it."""
    stopped = scheduler._handle_stopped_request
    manager = scheduler.kv_cache_manager

    def wrong(request: Any) -> Any:
        blocks = manager.coordinator.single_type_managers[0].req_to_blocks[request.request_id]
        if request.resumable:
            manager.block_pool.free_blocks([blocks[-1]])
        return stopped(request)

    scheduler._handle_stopped_request = wrong


def found_wrongly(scheduler: Any) -> None:
    """A lookup of a missing cached block returns another cached block. The content is wrong, and
    every count is right."""
    pool = scheduler.kv_cache_manager.block_pool
    cached = pool.get_cached_block

    def wrong(*args: Any, **kwargs: Any) -> Any:
        block = cached(*args, **kwargs)
        others = [other for other in pool.blocks if other.block_hash is not None]
        return block or ([others[0]] if others else None)

    pool.get_cached_block = wrong


def preempted_whole(scheduler: Any) -> None:
    """A preempted request holds its blocks."""
    preempt, manager = scheduler._preempt_request, scheduler.kv_cache_manager

    def wrong(*args: Any, **kwargs: Any) -> Any:
        free, manager.free = manager.free, lambda _: None
        try:
            return preempt(*args, **kwargs)
        finally:
            manager.free = free

    scheduler._preempt_request = wrong


def token_kept(scheduler: Any) -> None:
    """The last sampled token of a turn stays in the session, although it has no KV."""
    update = scheduler._update_request_as_session

    def wrong(session: Any, chunk: Any) -> None:
        kept = session._all_token_ids[-1]
        chunk.prompt_token_ids.insert(0, kept)
        update(session, chunk)

    scheduler._update_request_as_session = wrong


def round_swapped(scheduler: Any) -> None:
    """The worker gets the new blocks of a decoding round in reverse order. If a round takes two, as
    with drafts, the KV of accepted tokens lies elsewhere."""
    schedule = scheduler.schedule

    def wrong(*args: Any, **kwargs: Any) -> Any:
        output = schedule(*args, **kwargs)
        for new in output.scheduled_cached_reqs.new_block_ids:
            if new is not None:
                new[0].reverse()
        return output

    scheduler.schedule = wrong


def rejected_kept(scheduler: Any) -> None:
    """A rejected token of a round counts as computed."""
    update = scheduler.update_from_output

    def wrong(batch: Any, output: Any) -> Any:
        for key, drafts in batch.scheduled_spec_decode_tokens.items():
            accepted = len(output.sampled_token_ids[output.req_id_to_index[key]]) - 1
            if accepted < len(drafts):
                scheduler.requests[key].num_computed_tokens += 1
        return update(batch, output)

    scheduler.update_from_output = wrong


def trimmed_kept(scheduler: Any) -> None:
    """Accepted tokens past the end of a turn count as computed, as up to 0.25.0."""
    update = scheduler._update_request_with_output

    def wrong(request: Any, tokens: list[int], *args: Any, **kwargs: Any) -> Any:
        before = request.num_computed_tokens
        answer = update(request, tokens, *args, **kwargs)
        request.num_computed_tokens = before
        return answer

    scheduler._update_request_with_output = wrong


def placeholder_kept(scheduler: Any) -> None:
    """A turn ends while its next token is in flight, and the session counts the KV of the token."""
    stopped = scheduler._handle_stopped_request

    def wrong(request: Any) -> Any:
        request.num_output_placeholders = 0
        return stopped(request)

    scheduler._handle_stopped_request = wrong


def block_lost(scheduler: Any) -> None:
    """When blocks with a hash are freed, the first does not return to the queue."""
    queue = scheduler.kv_cache_manager.block_pool.free_block_queue
    append = queue.append_n
    queue.append_n = lambda blocks: append(blocks[1:])


def block_queued_in_use(scheduler: Any) -> None:
    """A block found in the cache stays in the queue of free blocks."""

    def wrong(blocks: Any) -> None:
        for block in blocks:
            block.ref_cnt += 1

    scheduler.kv_cache_manager.block_pool.touch = wrong


def hash_not_filed(scheduler: Any) -> None:
    """A block gets its hash but no entry in the hash map."""
    pool = scheduler.kv_cache_manager.block_pool
    pool.cached_block_hash_to_block.insert = lambda key, block: None


def hash_stays_filed(scheduler: Any) -> None:
    """A block given out again loses its hash, but its entry in the hash map stays."""
    pool = scheduler.kv_cache_manager.block_pool
    pool.cached_block_hash_to_block.pop = lambda key, block_id: pool.blocks[block_id]


def hash_of_dropped(scheduler: Any) -> None:
    """A resume drops a token, but the hash of its block stays, as up to 0.25."""
    update = scheduler._update_request_as_session

    def wrong(session: Any, chunk: Any) -> None:
        stale = list(session.block_hashes)
        update(session, chunk)
        session.block_hashes[: len(stale)] = stale

    scheduler._update_request_as_session = wrong


def entry_stays(scheduler: Any) -> None:
    """The count of a request's cached blocks stays after the request ends."""
    (group,) = scheduler.kv_cache_manager.coordinator.single_type_managers
    free = group.free

    def wrong(key: str) -> None:
        count = group.num_cached_block.get(key, 0)
        free(key)
        group.num_cached_block[key] = count

    group.free = wrong


def end_not_told(scheduler: Any) -> None:
    """The model runner is not notified of a request's end."""
    free = scheduler._free_request

    def wrong(request: Any, *args: Any, **kwargs: Any) -> Any:
        result = free(request, *args, **kwargs)
        scheduler.finished_req_ids.discard(request.request_id)
        return result

    scheduler._free_request = wrong


def preempted_forgotten(scheduler: Any) -> None:
    """A preempted request is in no queue."""
    preempt = scheduler._preempt_request

    def wrong(request: Any, *args: Any, **kwargs: Any) -> Any:
        result = preempt(request, *args, **kwargs)
        scheduler.waiting.remove_requests([request])
        return result

    scheduler._preempt_request = wrong


def newest_first(scheduler: Any) -> None:
    """The newest of the turns waiting for a session runs first."""
    stopped = scheduler._handle_stopped_request

    def wrong(request: Any) -> Any:
        queue = request.streaming_queue
        if queue and queue[-1] is not None:  # None is the close.
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
    """A driver whose resets install a fault."""

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
    if "unchecked" in sys.argv:
        worker.Worker.of = lambda *_: None
    Driver(boot.Options(), []).run()
