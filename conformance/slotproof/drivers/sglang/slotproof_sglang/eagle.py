"""Speculative rounds of 0.5.13, where only the NGRAM algorithm has a loop of its own.

All other algorithms share the loop of EAGLE and STANDALONE, whose worker needs a draft model. The
driver replaces this worker by one without a model. Only `speculation.Rounds` calls the replacement.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from types import SimpleNamespace
from typing import Any

WORKER = "sglang.srt.speculative.eagle_worker_v2"


def offered() -> bool:
    """Return True if the build's worker has the assumed interface, with and without overlap."""
    if importlib.util.find_spec(WORKER) is None:
        return False
    worker = importlib.import_module(WORKER).EAGLEWorkerV2
    return "on_publish" in inspect.signature(worker.forward_batch_generation).parameters


def prepare() -> None:
    """Replace the build's worker by one that needs no draft model."""
    base: Any = importlib.import_module("sglang.srt.speculative.base_spec_worker").BaseSpecWorker
    algorithms: Any = importlib.import_module("sglang.srt.speculative.spec_info")

    class Worker(base):  # type: ignore[misc]
        """Replacement of the build's worker: only the parts that the scheduler uses."""

        draft_worker: Any = None  # These are abstract properties.
        target_worker: Any = None

        def __init__(self, server_args: Any, target_worker: Any, **_: Any) -> None:
            self.target_worker = target_worker
            # Disaggregation reads the draft worker's pool and model, but uses neither.
            self.draft_worker = SimpleNamespace(draft_runner=target_worker.model_runner)
            self.draft_token_num = int(server_args.speculative_num_draft_tokens)
            self.topk = int(server_args.speculative_eagle_topk)

        @property
        def spec_v2_attn_backends(self) -> tuple[Any, ...]:
            return (self.target_worker.model_runner.attn_backend,)

        def clear_cache_pool(self) -> None:
            pass

        def forward_batch_generation(self, batch: Any, on_publish: Any = None) -> Any:
            """Run a prefill."""
            result = self.target_worker.forward_batch_generation(batch)
            result.new_seq_lens = batch.seq_lens
            if on_publish is not None:
                on_publish(result.new_seq_lens)
            result.next_draft_input = following(result.next_token_ids, self.topk)
            return result

    algorithms.SpeculativeAlgorithm.create_worker = lambda *_: Worker
    # With overlap scheduling, a Triton kernel would pass the drafts from round to round.
    relay: Any = importlib.import_module("sglang.srt.managers.overlap_utils")
    relay.gather_spec_extras = lambda at, *kept: [None if x is None else x[at] for x in kept]


def following(tokens: Any, topk: int) -> Any:
    """Return the input of the next round. Its drafts are never read."""
    types: Any = importlib.import_module("sglang.srt.speculative.eagle_info")
    torch: Any = importlib.import_module("torch")
    count = len(tokens)
    return types.EagleDraftInput(
        topk_p=torch.zeros((count, topk)),
        topk_index=torch.zeros((count, topk), dtype=torch.int64),
        bonus_tokens=tokens.to(torch.int64),
    )
