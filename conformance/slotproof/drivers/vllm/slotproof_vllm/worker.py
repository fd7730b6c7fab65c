"""Checks of a batch against the state and the preconditions of the build's own worker.

A build has two model runners. The scheduler knows the one that it serves (`use_v2_model_runner`):

| | V1: `worker/gpu_model_runner.py` | V2: `worker/gpu/model_runner.py` |
|---|---|---|
| a preempted request | stays, and comes as a cached, resumed request | goes, and comes as new |
| rows | of the requests in the batch | of all requests, paused sessions too |

A batch that the real worker would misread raises `Misread`, as a fault of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

V1, V2 = "gpu_model_runner.py", "gpu/model_runner.py"
PLACES = {
    "counts": (f"{V1}: _prepare_inputs", f"{V2}: gather_batch_req_state"),
    "rows": ("gpu_input_batch.py: _register_add_request", "gpu/states.py: add_request"),
    "known": (f"{V1}: _update_states", f"{V2}: update_requests"),
    "table": ("block_table.py: append_row", "gpu/block_table.py: append_block_ids"),
    "tokens": (f"{V1}: _prepare_input_ids", "gpu/input_batch.py: prepare_prefill_inputs"),
    "drafts": (f"{V1}: _calc_spec_decode_metadata", f"{V2}: prepare_inputs"),
    "context": (f"{V1}: _bookkeeping_sync", "gpu/states.py: all_token_ids"),
}
"""File and function of each check, below `vllm/v1/worker`, of V1 and of V2."""


class Misread(Exception):
    """A batch that the build's worker would misread."""


class Known(Protocol):
    """State of a request in the worker."""

    tokens: list[int]
    prompt: int
    blocks: list[int]
    computed: int
    rejected: int


@dataclass(frozen=True)
class Worker:
    """Limits of the worker. ``ahead``: asynchronous scheduling. ``holds``: the block table that the
    scheduler has for a request."""

    v2: bool
    ahead: bool
    requests: int
    tokens: int
    context: int
    drafts: int
    holds: Callable[[str], Sequence[int]]

    @classmethod
    def of(cls, scheduler: Any, ahead: bool, holds: Callable[[str], Sequence[int]]) -> Worker:
        """Return the worker that a scheduler serves."""
        limits, v2 = scheduler.scheduler_config, getattr(scheduler, "use_v2_model_runner", False)
        return cls(
            bool(v2),
            ahead,
            limits.max_num_seqs,
            limits.max_num_batched_tokens,
            scheduler.max_model_len,
            getattr(scheduler, "num_spec_tokens", 0),
            holds,
        )

    def _demand(self, right: bool, place: str, words: str) -> None:
        if not right:
            raise Misread(f"the worker misreads the batch, {PLACES[place][self.v2]}: {words}")

    def batch(self, output: Any) -> None:
        """Check the counts of a batch, and the requests that it lists."""
        counts, cached = output.num_scheduled_tokens, output.scheduled_cached_reqs.req_ids
        listed = [*(new.req_id for new in output.scheduled_new_reqs), *cached]
        total, said = sum(counts.values()), output.total_num_scheduled_tokens
        self._demand(said == total, "counts", f"{said} tokens in all, but {total} are scheduled")
        self._demand(total <= self.tokens, "counts", f"{total} tokens of {self.tokens}")
        self._demand(len(counts) <= self.requests, "rows", f"{len(counts)} of {self.requests} rows")
        self._demand(
            sorted(listed) == sorted(counts), "counts", f"{listed} are sent, {[*counts]} scheduled"
        )
        for key, count in counts.items():
            drafts = len(output.scheduled_spec_decode_tokens.get(key, ()))
            self._demand(drafts <= self.drafts, "drafts", f"{key} has {drafts} of {self.drafts}")
            self._demand(count > drafts, "drafts", f"{key}: {drafts} drafts among {count} tokens")

    def adds(self, key: str, known: Collection[str]) -> None:
        """Check that a new request gets a row. V1 has rows only for the requests in a batch."""
        full = self.v2 and len(known) >= self.requests
        self._demand(not full, "rows", f"no free row for {key}, {[*known]} have them")

    def knows(self, key: str, known: Collection[str]) -> None:
        """Check that a cached request is one of the worker's requests."""
        self._demand(key in known, "known", f"{key} is unknown")

    def resumes(self, key: str, blocks: object) -> None:
        """Check a resumed request. V2 ignores the mark, and would append to the old block table."""
        self._demand(not self.v2, "known", f"{key} is resumed, but not sent as new")
        self._demand(blocks is not None, "known", f"{key} is resumed without blocks")

    def continues(self, key: str, request: Known, outputs: int | None) -> None:
        """Check the number of output tokens, less drafts that were rejected since. V1 drops the
        tokens past this number."""
        if outputs is not None and not self.v2:
            has = len(request.tokens) - request.prompt
            words = f"{key}: {outputs} output tokens, the worker has {has}"
            self._demand(outputs - request.rejected == has, "known", words)

    def joins(
        self, key: str, request: Known, sent: Mapping[str, list[int]], outputs: int | None
    ) -> list[int]:
        """Return the tokens of a request that was not in the last batch of V1."""
        tokens = request.tokens
        if outputs is None:
            return list(sent.get(key, tokens))
        if self.ahead and outputs:
            self._demand(key in sent, "known", f"{key} joins the batch without its tokens")
            return [*tokens[: request.prompt], *sent[key][-outputs:]]
        tokens = tokens[: request.prompt + outputs]
        same = sent.get(key, tokens) == tokens
        self._demand(same, "tokens", f"{key} has other tokens than the worker")
        return list(tokens)

    def runs(self, key: str, request: Known, count: int, drafts: int) -> None:
        """Check the tokens and blocks that a request of the batch reads and writes."""
        end, has = request.computed + count, len(request.tokens)
        words = f"{key}: reads {end - drafts} tokens and {drafts} drafts, it has {has} tokens"
        self._demand(end - drafts <= has, "tokens", words)
        self._demand(not drafts or end - drafts == has, "drafts", words)
        samples = end - drafts == has
        last = end + samples
        self._demand(last <= self.context, "context", f"{key}: {last} tokens of {self.context}")
        held = self.holds(key)
        words = f"{key}: blocks {request.blocks}, but the scheduler gave it {[*held]}"
        self._demand(sorted(request.blocks) == sorted(held), "table", words)
