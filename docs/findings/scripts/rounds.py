"""Speculative rounds on a CPU: SGLang's own path, with a worker that accepts as instructed.

For the scripts in this folder, with 0.5.15 and later. The worker answers like the build's NGRAM
worker: with tokens computed by the model, a single token if all drafts are rejected.
"""

import importlib
import sys

import torch


def arguments(draft, topk=1):
    """Return server arguments for rounds of ``draft`` steps, replacing code that needs a GPU."""
    hook = importlib.import_module("sglang.srt.arg_groups.speculative_hook")
    hook._disable_overlap_schedule_for_cpu = lambda _: None
    handle = hook._handle_ngram

    def handled(server):
        try:
            handle(server)
        except ValueError as refusal:  # branches with larger pages: no attention sees any here
            if "page_size" not in str(refusal):
                raise

    hook._handle_ngram = handled
    worker = importlib.import_module("sglang.srt.speculative.ngram_worker")
    worker.NgramCorpus = lambda **_: None
    worker.NGRAMWorker._init_preallocated_tensors = lambda _: None
    pools = importlib.import_module("sglang.srt.mem_cache.memory_pool")
    pools.MHATokenToKVPool._init_kv_copy_and_warmup = lambda _: None
    for module in list(sys.modules.values()):
        if hasattr(module, "assign_req_to_token_pool"):
            module.assign_req_to_token_pool = {(n,): assign for n in range(1, 99)}
    return {
        "speculative_algorithm": "NGRAM",
        "speculative_num_steps": draft,
        "speculative_num_draft_tokens": draft + 1,
        "speculative_ngram_min_bfs_breadth": 1,
        "speculative_ngram_max_bfs_breadth": topk,
    }


def assign(rows, table, start, end, indices, width, *_):
    """Write row tables like the Triton kernel, which does not know the end of a row either."""
    flat, first = table.view(-1), 0
    for row, low, high in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
        part = flat[row * width + low : row * width + high]
        part.copy_(indices[first : first + len(part)])
        first += high - low


def answer_rounds(scheduler, accepts):
    """Let the worker answer rounds with ``accepts(rid, computed)`` tokens per request. Prefills go
    to the build's own worker."""
    types = importlib.import_module("sglang.srt.speculative.ngram_worker")
    worker, rows = scheduler.model_worker, scheduler.req_to_token_pool.req_to_token
    original, width = worker.forward_batch_generation, worker.draft_token_num

    def forward(batch, on_publish=None, **rest):
        if not batch.forward_mode.is_decode():
            return original(batch, on_publish=on_publish, **rest)
        before, start = batch.spec_info, batch.seq_lens.clone()
        lengths = [
            min(width, accepts(req.rid, length - len(req.origin_input_ids)))
            for req, length in zip(batch.reqs, start.tolist(), strict=True)
        ]
        given = before.accept_tokens.view(-1, width)
        last = given.gather(1, before.accept_lens.long().unsqueeze(1) - 1).squeeze(1)
        tokens = torch.zeros((len(batch.reqs), width), dtype=torch.int32)
        for position in range(max(lengths)):
            batch.input_ids, batch.spec_info = last.long(), None
            batch.seq_lens = start + position + 1
            batch.seq_lens_cpu = batch.seq_lens.clone()
            batch.seq_lens_sum = int(batch.seq_lens.sum())
            batch.out_cache_loc = rows[batch.req_pool_indices, start + position].long()
            answer = worker.target_worker.forward_batch_generation(batch)
            last = answer.next_token_ids
            tokens[:, position] = last
        accepted = torch.tensor(lengths, dtype=torch.int32)
        ends = start + accepted
        if on_publish is not None:
            on_publish(ends)
        following = types.NgramVerifyInput(
            draft_token_num=width,
            new_seq_lens=ends,
            accept_tokens=tokens.flatten(),
            accept_lens=accepted,
        )
        return types.GenerationBatchResult(
            logits_output=answer.logits_output,
            next_token_ids=tokens.flatten(),
            can_run_cuda_graph=answer.can_run_cuda_graph,
            accept_lens=accepted,
            new_seq_lens=ends,
            next_draft_input=following,
            speculative_num_draft_tokens=width,
        )

    worker.forward_batch_generation = forward
