"""The SGLang driver on a build with a fault in its session slots.

    PYTHONPATH=…/drivers/sglang ENV/bin/python broken_sessions.py FAULT

The template process changes the build, so every forked child has the fault. The driver knows
nothing of it. The gate must report a finding outside of the release's baseline.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from slotproof_sglang import engine, main  # type: ignore[import-not-found]  # of the PYTHONPATH


def tail_kept(cache: Any) -> None:
    """#22862: the tail past the reused prefix is not freed before it is overwritten."""
    inner, free = cache._free_tail, cache._free_kv_aligned

    def _free_tail(self: Any, kv: Any, length: int) -> None:
        cache._free_kv_aligned = lambda *_: None
        try:
            inner(self, kv, length)
        finally:
            cache._free_kv_aligned = free

    cache._free_tail = _free_tail


def lock_kept(cache: Any) -> None:
    """#20476: a closing session holds its lock on the tree."""
    inner = cache.release_session

    def release_session(self: Any, session_id: str) -> None:
        slot = self.slots.get(session_id)
        if slot is not None:
            slot.lock = None
        inner(self, session_id)

    cache.release_session = release_session


def abort_keeps(cache: Any) -> None:
    """#22790: aborting a running turn frees nothing."""
    inner = cache.try_cache_finished_req

    def try_cache_finished_req(self: Any, req: Any) -> bool:
        slot = self.borrowed_slot(req)
        if slot is not None and type(req.finished_reason).__name__ == "FINISH_ABORT":
            del self.slots[req.session.session_id]
            req.detach_kv()
            req.session.abort_req()
            return True
        return bool(inner(self, req))

    cache.try_cache_finished_req = try_cache_finished_req


def claim_lost(cache: Any) -> None:
    """A later turn gives up its claim when it takes the slot. A finding in the baseline has the
    same wrong variable, after a rejected turn."""
    inner = cache.try_match_prefix

    def try_match_prefix(self: Any, params: Any) -> Any:
        match = inner(self, params)
        if match is not None:
            params.req.session._inflight = False
        return match

    cache.try_match_prefix = try_match_prefix


def counts_less(cache: Any) -> None:
    """A finished turn counts one token too few. A finding in the baseline has the same wrong
    variable, in the last token of a turn."""
    inner = cache.try_cache_finished_req

    def try_cache_finished_req(self: Any, req: Any) -> bool:
        slot = self.borrowed_slot(req)
        kept = bool(inner(self, req))
        if kept and slot is not None:
            slot.kv.kv_committed_len -= 1
        return kept

    cache.try_cache_finished_req = try_cache_finished_req


FAULTS: dict[str, Callable[[Any], None]] = {
    "tail-kept": tail_kept,
    "lock-kept": lock_kept,
    "abort-keeps": abort_keeps,
    "claim-lost": claim_lost,
    "counts-less": counts_less,
}


def run() -> None:
    """Run the driver, with the fault installed when a scheduler exists."""
    fault = sys.argv.pop(1)  # not the driver's
    install = engine.Engine._install

    def _install(self: Any) -> None:
        install(self)
        FAULTS[fault](type(self.scheduler.tree_cache.session))

    engine.Engine._install = _install
    main.main()


if __name__ == "__main__":
    run()
