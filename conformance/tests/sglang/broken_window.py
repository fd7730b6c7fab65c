"""The SGLang driver on a build with a fault in its sliding-window pool.

    PYTHONPATH=…/drivers/sglang ENV/bin/python broken_window.py FAULT

The template process changes the build, so every forked child has the fault. The driver knows
nothing of it, and the referee must find it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from slotproof_sglang import boot, main  # type: ignore[import-not-found]  # of the PYTHONPATH


def lost_page(scheduler: Any) -> None:
    """A free of sliding-window tokens omits its last page."""
    pages = scheduler.token_to_kv_pool_allocator.swa_attn_allocator
    free = pages.free_page_ids
    pages.free_page_ids = lambda ids: free(ids[:-1])


def cursor_ahead(scheduler: Any) -> None:
    """The cursor is one page past the freed positions."""
    batch: Any = sys.modules["sglang.srt.managers.schedule_batch"]
    move = batch.ScheduleBatch._evict_swa
    kind: Any = sys.modules["sglang.srt.mem_cache.unified_cache.component_type"]
    swa = kind.ComponentType.SWA

    def _evict_swa(self: Any, req: Any, *args: Any, **kwargs: Any) -> None:
        before = req.kv.get_evicted_seqlen(swa)
        move(self, req, *args, **kwargs)
        after = req.kv.get_evicted_seqlen(swa)
        if after > before:
            req.kv.set_evicted_seqlen(swa, after + scheduler.page_size)

    batch.ScheduleBatch._evict_swa = _evict_swa


def lock_kept(scheduler: Any) -> None:
    """A released lock retains its sliding-window part."""
    core = scheduler.tree_cache.tree_core
    give = core.dec_lock_ref
    core.dec_lock_ref = lambda node, params, skip_swa=False: give(node, params, True)


def miscounted(scheduler: Any) -> None:
    """The engine's own check mistakes the full pool's held tokens for the second pool's."""
    observer: Any = type(scheduler.invariant_checker.pool_stats_observer)
    observer.session_held_swa_tokens = observer.session_held_tokens


FAULTS: dict[str, Callable[[Any], None]] = {
    "lost-page": lost_page,
    "cursor-ahead": cursor_ahead,
    "lock-kept": lock_kept,
    "miscounted": miscounted,
}


def run() -> None:
    """Run the driver, with the fault installed in every scheduler with a window."""
    fault = sys.argv.pop(1)  # not the driver's
    build = boot.build_scheduler

    def build_scheduler(config: dict[str, Any]) -> Any:
        scheduler = build(config)
        if config["window"]:
            FAULTS[fault](scheduler)
        return scheduler

    boot.build_scheduler = build_scheduler
    main.main()


if __name__ == "__main__":
    run()
