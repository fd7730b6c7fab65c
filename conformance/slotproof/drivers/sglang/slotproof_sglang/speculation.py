"""Speculative rounds on a CPU: the build's own path, with a scripted worker.

The build's own code runs before, in and after a round: allocation ahead, handling of the answer,
release, trim, cursor, retraction. Only the worker of the NGRAM algorithm is scripted. It has no
draft model and looks for no drafts. Up to 0.5.13 NGRAM has a separate loop (see `eagle.py`).

| the worker's part of a round | scripted as |
|---|---|
| drafts | none; the search draws the number of accepted tokens, or the round determines it |
| accepted tokens and their KV | decode forwards of the target model, one position after the other |
| KV of rejected drafts | other values, at every other position that the round may write |
| the answer | an answer in the build's own types, as from the build's worker |

A build that reads the KV of a rejected draft therefore samples other tokens.

`paging.Kernel` replaces the one Triton kernel on the path and writes to the same places. Like the
Triton kernel, it writes past the end of a row into the next row.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from slotproof_driver.accepts import Accepts

from . import eagle
from .messages import outer_rid
from .paging import Kernel

WORKER = "sglang.srt.speculative.ngram_worker"
OTHER = 3.0
"""Value written at a rejected position. No key or value of the model has such large entries."""


def scriptable() -> bool:
    """Return True if the build has a worker with the assumed interface (0.5.13 and later)."""
    return ngram() or eagle.offered()


def ngram() -> bool:
    """Return True if the worker belongs to the NGRAM algorithm (0.5.15 and later)."""
    if importlib.util.find_spec(WORKER) is None:
        return False
    worker: Any = getattr(importlib.import_module(WORKER), "NGRAMWorker", None)
    if worker is None:
        return False
    return "on_publish" in inspect.signature(worker.forward_batch_generation).parameters


def server_args(config: dict[str, Any]) -> dict[str, Any]:
    """Return the server arguments for `draft` steps with `topk` branches per step."""
    if not on(config):
        return {}
    shape = {
        "speculative_num_draft_tokens": config["draft"] + 1,
        "speculative_num_steps": config["draft"],
    }
    if not ngram():
        return {
            "speculative_algorithm": "STANDALONE",
            "speculative_eagle_topk": config["topk"],
            **shape,
        }
    return {
        "speculative_algorithm": "NGRAM",
        **shape,
        "speculative_ngram_min_bfs_breadth": 1,
        "speculative_ngram_max_bfs_breadth": config["topk"],
    }


def on(config: dict[str, Any]) -> bool:
    """Return True if a scheduler with this configuration speculates."""
    return bool(config["draft"]) and scriptable()


def prepare(config: dict[str, Any]) -> None:
    """Replace code that needs a GPU or a compiler. The process then builds only this scheduler."""
    if not on(config):
        return
    hook: Any = importlib.import_module("sglang.srt.arg_groups.speculative_hook")
    if config["overlap"]:
        hook._disable_overlap_schedule_for_cpu = lambda _: None
    if ngram():
        worker: Any = importlib.import_module(WORKER)
        worker.NgramCorpus = lambda *_, **__: SimpleNamespace(reset=lambda: None)  # no drafts
        worker.NGRAMWorker._init_preallocated_tensors = _on_the_cpu  # no tensors for drafts
        hook._handle_ngram = _as_on_a_gpu(hook._handle_ngram)
    else:
        eagle.prepare()
        hook._handle_eagle_family = _as_on_a_gpu(hook._handle_eagle_family)
    for name, module in list(sys.modules.items()):  # The worker imports these modules.
        if name.startswith("sglang.") and "assign_req_to_token_pool" in vars(module):
            vars(module)["assign_req_to_token_pool"] = Kernel(_assign)
    pools: Any = importlib.import_module("sglang.srt.mem_cache.memory_pool")
    # The warm-up is for moving accepted KV to the front. No KV is moved here.
    pools.MHATokenToKVPool._init_kv_copy_and_warmup = lambda _: None


def _as_on_a_gpu(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap a handler and ignore two refusals. Up to 0.5.15 the handler refuses a CPU. It also
    refuses branches with pages above 1 token: they need a special attention backend, but scripted
    rounds have no branches. One more check is skipped, on data parallelism."""

    def handled(args: Any) -> None:
        try:
            handle(args)
        except ValueError as refusal:
            if "page_size" in str(refusal):
                return
            if "only supports CUDA device" not in str(refusal):
                raise
            args.device, device = "cuda", args.device
            try:
                handled(args)
            finally:
                args.device = device

    return handled


def _on_the_cpu(worker: Any) -> None:
    worker.device = "cpu"


def _assign(rows: Any, table: Any, start: Any, end: Any, indices: Any, width: int, *_: Any) -> None:
    """Write KV indices for positions [start, end) of each row, in the order of the rows."""
    flat, first = table.view(-1), 0
    for row, low, high in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
        begin = row * width + low
        part = flat[begin : begin + high - low]  # The slice is shorter at the end of the table.
        part.copy_(indices[first : first + len(part)])
        first += high - low


def rounds(scheduler: Any) -> Rounds | None:
    """Return the rounds of this scheduler, or None if it does not speculate."""
    algorithm = getattr(scheduler, "spec_algorithm", None)
    return None if algorithm is None or algorithm.is_none() else Rounds(scheduler)


class Rounds:
    """Scripted worker of speculative rounds. A round accepts at most the drafts and one token."""

    def __init__(self, scheduler: Any) -> None:
        self.worker = scheduler.model_worker
        self.accepts = Accepts(int(self.worker.draft_token_num))
        self.ngram = ngram()
        self.types: Any = importlib.import_module(WORKER if self.ngram else eagle.WORKER)
        self.torch: Any = importlib.import_module("torch")
        self.rows = scheduler.req_to_token_pool
        self.allocator = scheduler.token_to_kv_pool_allocator
        self.original = self.worker.forward_batch_generation
        self.worker.forward_batch_generation = self.forward
        self.check: Callable[[Any, int], None] = lambda *_: None

    def forward(self, batch: Any, on_publish: Any = None, **kwargs: Any) -> Any:
        """Run a prefill as the build does, or a speculative round."""
        if not batch.forward_mode.is_decode():
            return self.original(batch, on_publish=on_publish, **kwargs)
        torch, width = self.torch, self.accepts.width
        self.check(batch, width)
        start = batch.seq_lens.clone()
        lengths = [
            self.accepts.of(outer_rid(str(req.rid)), committed - len(req.origin_input_ids))
            for req, committed in zip(batch.reqs, start.tolist(), strict=True)
        ]
        accepted = torch.tensor(lengths, dtype=torch.int32)
        answer, tokens = self._verify(batch, start, width, max(lengths))
        self._reject(batch.req_pool_indices, start, lengths, width)
        ends = start + accepted
        if on_publish is not None:
            on_publish(ends)
        return self.types.GenerationBatchResult(
            logits_output=answer.logits_output,
            next_token_ids=tokens.flatten(),
            can_run_cuda_graph=answer.can_run_cuda_graph,
            accept_lens=accepted,
            new_seq_lens=ends,
            next_draft_input=self._following(ends, tokens, accepted, width),
            speculative_num_draft_tokens=width,
        )

    def _verify(self, batch: Any, start: Any, width: int, count: int) -> tuple[Any, Any]:
        """Compute tokens and their KV for every request. Each request continues from its last
        token, and gets as many tokens as the largest accepted number."""
        torch, last = self.torch, self._last(batch.spec_info, width)
        tokens = torch.zeros((len(batch.reqs), width), dtype=torch.int32)
        host = start.to("cpu")
        answer: Any = None
        logprobs = []
        for position in range(count):
            batch.input_ids = last.to(torch.int64)
            batch.seq_lens = start + (position + 1)
            batch.seq_lens_cpu = host + (position + 1)
            batch.seq_lens_sum = int(batch.seq_lens_cpu.sum())
            batch.out_cache_loc = self._indices(batch.req_pool_indices, start + position)
            batch.spec_info = None
            answer = self.worker.target_worker.forward_batch_generation(batch)
            last = answer.next_token_ids
            tokens[:, position] = last
            logprobs.append(answer.logits_output.next_token_logprobs)
        if batch.return_logprob:
            answer.logits_output.next_token_logprobs = torch.stack(logprobs, 1)
        return answer, tokens

    def _following(self, ends: Any, tokens: Any, accepted: Any, width: int) -> Any:
        """Return the input of the next round, as an object of the build's own type."""
        if not self.ngram:
            return eagle.following(self._at_end(tokens, accepted), self.worker.topk)
        return self.types.NgramVerifyInput(
            draft_token_num=width,
            new_seq_lens=ends,
            accept_tokens=tokens.flatten(),
            accept_lens=accepted,
        )

    def _last(self, before: Any, width: int) -> Any:
        """Return each request's last token of the previous round."""
        if not self.ngram:
            return before.bonus_tokens
        return self._at_end(before.accept_tokens.view(-1, width), before.accept_lens)

    @staticmethod
    def _at_end(tokens: Any, accepted: Any) -> Any:
        return tokens.gather(1, (accepted.long() - 1).unsqueeze(1)).squeeze(1)

    def _indices(self, rows: Any, positions: Any) -> Any:
        """Return the KV indices of the given position in each row."""
        return self.rows.req_to_token[rows, positions].to(self.torch.int64)

    def _reject(self, rows: Any, start: Any, lengths: list[int], width: int) -> None:
        """Overwrite the KV at the positions that the round has rejected."""
        table = self.rows.req_to_token
        spans = [
            table[row, low + count : low + width]
            for row, low, count in zip(rows.tolist(), start.tolist(), lengths, strict=True)
        ]
        indices = self.torch.cat(spans).to(self.torch.int64)
        pool = self.allocator.get_kvcache()
        sliding = getattr(pool, "swa_kv_pool", None)
        self._spoil(pool if sliding is None else pool.full_kv_pool, indices)
        if sliding is not None:
            self._spoil(sliding, self.allocator.full_to_swa_index_mapping[indices])

    @staticmethod
    def _spoil(pool: Any, indices: Any) -> None:
        for buffer in (*pool.k_buffer, *pool.v_buffer):
            buffer[indices] = OTHER
