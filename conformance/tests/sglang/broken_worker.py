"""The SGLang driver on a build that hands its worker wrong batches.

    PYTHONPATH=…/drivers/sglang ENV/bin/python broken_worker.py

A request named after a fault gets the fault, in every batch. The driver knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slotproof_sglang import engine, main  # type: ignore[import-not-found]  # PYTHONPATH

NEVER = 99
"""Number of another token, row, or position."""


def _moved(scheduler: Any, batch: Any, index: int) -> None:
    """Write the last position of the batch to another KV index, in the row, too."""
    row, length = batch.req_pool_indices[-1], batch.seq_lens[-1]
    scheduler.req_to_token_pool.req_to_token[row, length - 1] = index
    batch.out_cache_loc[-1] = index


def _cut(scheduler: Any, batch: Any) -> None:
    batch.sampling_info.temperatures = batch.sampling_info.temperatures[:-1]


def _last_of_tree(scheduler: Any, batch: Any) -> None:
    _moved(scheduler, batch, int(scheduler.tree_cache.tree_core.all_values_flatten()[-1]))


def _unmapped(scheduler: Any, batch: Any) -> None:
    scheduler.token_to_kv_pool_allocator.full_to_swa_index_mapping[batch.out_cache_loc[-1]] = 0


def _free(scheduler: Any, batch: Any) -> None:
    page = int(scheduler.token_to_kv_pool_allocator.free_pages[0])
    _moved(scheduler, batch, page * scheduler.page_size)


def _set(name: str, at: int, value: Any) -> Callable[[Any, Any], None]:
    """Return a fault: the last entry, or the first one, of a list of the batch is another."""

    def fault(_: Any, batch: Any) -> None:
        entries = getattr(batch, name)
        entries[at] = entries[0] if value is None else value

    return fault


def _sum(_: Any, batch: Any) -> None:
    batch.seq_lens_sum = NEVER


def _short(_: Any, batch: Any) -> None:
    batch.input_ids = batch.input_ids[:-1]


FAULTS: dict[str, Callable[[Any, Any], None]] = {
    "row-of-another": _set("req_pool_indices", -1, None),
    "no-such-row": _set("req_pool_indices", -1, NEVER),
    "prefix": _set("prefix_lens", -1, NEVER),
    "host-lengths": _set("seq_lens_cpu", -1, NEVER),
    "sum-of-lengths": _sum,
    "short-input": _short,
    "another-token": _set("input_ids", -1, NEVER),
    "outside-row": _set("out_cache_loc", -1, NEVER),
    "free-page": _free,
    "padding": lambda it, batch: _moved(it, batch, 0),
    "place-in-page": lambda it, batch: _moved(it, batch, int(batch.out_cache_loc[-1]) + 1),
    "page-of-another": lambda it, batch: _moved(it, batch, int(batch.out_cache_loc[0])),
    "page-of-tree": _last_of_tree,
    "no-window-kv": _unmapped,
    "temperatures": _cut,
    "logprobs": _set("extend_logprob_start_lens", -1, NEVER),
}


def _install(self: Any) -> None:
    install(self)
    scheduler = self.scheduler
    worker, limit = scheduler.tp_worker, scheduler.get_num_allocatable_reqs
    forward, run = worker.forward_batch_generation, worker.model_runner.forward

    def names() -> set[str]:
        return {str(req.rid).removesuffix(";") for req in self.worker.reqs}

    def forward_batch_generation(batch: Any, *args: Any, **kwargs: Any) -> Any:
        for name in names() & FAULTS.keys():
            FAULTS[name](scheduler, batch)
        return forward(batch, *args, **kwargs)

    def shifted(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if "positions" in names():
            batch.positions = batch.positions + 1
        return run(batch, *args, **kwargs)

    def queued(name: str) -> bool:
        return any(str(req.rid).startswith(name) for req in scheduler.waiting_queue)

    def allocatable(*args: Any, **kwargs: Any) -> int:
        if queued("long-chunk"):
            scheduler.chunked_prefill_size = NEVER
        return int(limit(*args, **kwargs)) + queued("too-many")

    worker.forward_batch_generation, worker.model_runner.forward = forward_batch_generation, shifted
    scheduler.get_num_allocatable_reqs = allocatable
    if self.rounds is not None:
        checked = self.rounds.check

        def check(batch: Any, width: int) -> None:
            checked(batch, NEVER if "round" in {str(r.rid)[:-1] for r in batch.reqs} else width)

        self.rounds.check = check


if __name__ == "__main__":
    install = engine.Engine._install
    engine.Engine._install = _install
    main.main()
