"""The SGLang driver on a build with a fault in its speculative rounds, or right after them.

    PYTHONPATH=…/drivers/sglang ENV/bin/python broken_rounds.py FAULT

The template process changes the build, so every forked child has the fault. The driver knows
nothing of it, and the referee must find it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from slotproof_sglang import engine, main  # type: ignore[import-not-found]  # PYTHONPATH


def wrong_kv(scheduler: Any) -> None:
    """The KV of the second accepted token belongs to another token."""
    forward = scheduler.model_worker.forward_batch_generation
    table = scheduler.req_to_token_pool.req_to_token
    pool = scheduler.token_to_kv_pool_allocator.get_kvcache()

    def forward_batch_generation(batch: Any, **kwargs: Any) -> Any:
        start = batch.seq_lens.clone()
        result = forward(batch, **kwargs)
        if batch.forward_mode.is_decode():
            accepted = zip(batch.req_pool_indices, start, result.accept_lens, strict=True)
            for row, low, count in accepted:
                if count > 1:
                    for buffer in pool.v_buffer:
                        buffer[table[row, low + 1]].neg_()
        return result

    scheduler.model_worker.forward_batch_generation = forward_batch_generation


def _freeing(scheduler: Any, method: str, shift: int) -> None:
    """Make a method of the session cache free from ``shift`` tokens further on."""
    cache = type(scheduler.tree_cache.session)
    inner, free = getattr(cache, method), cache._free_kv_aligned

    def wrong(self: Any, *args: Any) -> None:
        cache._free_kv_aligned = lambda self, kv, target, end: free(self, kv, target + shift, end)
        try:
            inner(self, *args)
        finally:
            cache._free_kv_aligned = free

    setattr(cache, method, wrong)


FAULTS: dict[str, Callable[[Any], None]] = {
    "wrong-kv": wrong_kv,
    # Memory left by speculation past a turn's end, or past the reused part of a slot. Either a
    # page of it is not freed, or the last page before it is freed too.
    "trims-too-few": lambda it: _freeing(it, "_trim_overshoot", it.page_size),
    "trims-too-many": lambda it: _freeing(it, "_trim_overshoot", -it.page_size),
    "tail-too-few": lambda it: _freeing(it, "_free_tail", it.page_size),
    "tail-too-many": lambda it: _freeing(it, "_free_tail", -it.page_size),
}


def run() -> None:
    """Run the driver, with the fault installed in every scheduler with speculation."""
    fault = sys.argv.pop(1)  # not the driver's
    install = engine.Engine._install

    def _install(self: Any) -> None:
        install(self)
        if self.rounds is not None:
            FAULTS[fault](self.scheduler)

    engine.Engine._install = _install
    main.main()


if __name__ == "__main__":
    run()
