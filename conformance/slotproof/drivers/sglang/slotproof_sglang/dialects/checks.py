"""Places of the engine's own memory check, in three generations of builds.

| | 0.5.10 | 0.5.11, 0.5.12 | 0.5.13 and later |
|---|---|---|---|
| check's object | the scheduler's mixin | the scheduler's mixin | `scheduler.invariant_checker` |
| busy check | `self_check_during_busy` | as in 0.5.10 | as in 0.5.10 |
| idle check | `self_check_during_idle` | `on_idle` | `on_idle` |
| terms | functions called by the check | arguments of `_check_pool_invariant` | as in 0.5.11 |
| rows held by slots | `_check_req_pool`, when idle | as in 0.5.10 | as in 0.5.10 |
| requests counted | reads of `kv_allocated_len` | as in 0.5.10 | as in 0.5.10 up to 0.5.22, \
then not watched |
| stored lines | none | none | `recent_busy_msgs` |
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from slotproof_driver.usage import UsageError


def checker_of(scheduler: Any) -> Any:
    """Return the object that has the methods of the memory check."""
    return getattr(scheduler, "invariant_checker", scheduler)


def owner_of(instance: Any, name: str) -> Any | None:
    """Return the class of the instance that defines a method, or None."""
    for cls in type(instance).__mro__:
        if name in vars(cls):
            return cls
    return None


def surround(scheduler: Any, around: Callable[[Any], Any]) -> None:
    """Replace each check of the event loop by ``around(check)``, until the process ends. The idle
    check is called `on_idle` or `self_check_during_idle`."""
    for owner, name in (
        (checker_of(scheduler), "self_check_during_busy"),
        (scheduler, "on_idle"),
        (scheduler, "self_check_during_idle"),
    ):
        cls = owner_of(owner, name)  # The object may have `__slots__`.
        if cls is not None:
            setattr(cls, name, around(getattr(cls, name)))


def watch(scheduler: Any, probe: Any) -> None:
    """Report to ``probe``, an `own_check.Probe`, the terms that the check adds up."""
    checker = checker_of(scheduler)
    pools = owner_of(checker, "_check_pool_invariant")
    terms = owner_of(checker, "_get_batch_uncached_size")
    if pools is not None:
        _watch_pools(pools, probe)
    elif terms is not None:
        _watch_terms(terms, probe)
    else:
        raise UsageError(f"unknown layout: {type(checker).__name__} has no memory check to watch")
    rows = owner_of(checker, "_check_req_pool")
    if rows is not None:
        _watch_rows(rows, probe)
    # A build that has this method reports KV on loan as held. The suite then ignores `counted`.
    if owner_of(checker, "_requests_owning_rows") is None:
        _watch_counted(checker, probe)
    if hasattr(checker, "recent_busy_msgs"):
        _watch_log(checker, probe)


def _watch_counted(checker: Any, probe: Any) -> None:
    """Record the requests, or their KV records, that the check adds up."""
    probe.counted = []
    module = importlib.import_module("sglang.srt.managers.schedule_batch")
    reads: Any = getattr(module, "ReqKvInfo", module.Req)
    for name in ("_get_total_uncached_sizes", "_get_batch_uncached_size"):
        if (owner := owner_of(checker, name)) is not None:
            setattr(owner, name, _counting(getattr(owner, name), reads, probe))


def _counting(count: Callable[..., Any], cls: Any, probe: Any) -> Callable[..., Any]:
    """Wrap a counting function, which reads the allocated length of each KV record once."""

    def counted(*args: Any) -> Any:
        plain = cls.__getattribute__

        def __getattribute__(kv: Any, name: str) -> Any:
            if name == "kv_allocated_len":
                probe.counted.append(kv)
            return plain(kv, name)

        cls.__getattribute__ = __getattribute__
        try:
            return count(*args)
        finally:
            cls.__getattribute__ = plain

    return counted


def _watch_log(checker: Any, probe: Any) -> None:
    """Count the check's lines that are logged, and the lines that it stores."""
    logger, probe.stored = sys.modules[type(checker).__module__].logger, checker.recent_busy_msgs
    info = logger.info

    def logged(message: object, *args: Any, **kwargs: Any) -> None:
        probe.logged += str(message).startswith("[Mem Check")
        info(message, *args, **kwargs)

    logger.info = logged


def _watch_rows(owner: Any, probe: Any) -> None:
    """Record the number of rows held by sessions, which the check computes in its own code."""
    check = owner._check_req_pool

    def _check_req_pool(checker: Any) -> Any:
        count = getattr(checker, "_session_held_req_count", None)
        if count is None:
            count = getattr(checker.pool_stats_observer, "session_held_req_count", None)
        if count is not None:
            probe.rows = {"held_rows": int(count())}
        return check(checker)

    owner._check_req_pool = _check_req_pool


def _watch_pools(owner: Any, probe: Any) -> None:
    check, busy = owner._check_pool_invariant, owner.self_check_during_busy
    level = {"name": "idle"}

    def _check_pool_invariant(
        pool_name: str,
        available: int,
        evictable: int,
        protected: int,
        session_held: int,
        total: int,
        uncached: int = 0,
    ) -> Any:
        figures = _figures(available, evictable, protected, session_held, total)
        probe.add(level["name"], figures, int(uncached), pool=pool_name)
        return check(pool_name, available, evictable, protected, session_held, total, uncached)

    def self_check_during_busy(checker: Any) -> Any:
        level["name"] = "busy"
        try:
            return busy(checker)
        finally:
            level["name"] = "idle"

    owner._check_pool_invariant = staticmethod(_check_pool_invariant)
    owner.self_check_during_busy = self_check_during_busy


def _watch_terms(owner: Any, probe: Any) -> None:
    """Record the terms that the check of the oldest builds adds up in its own code."""
    batch_uncached, radix_memory = owner._get_batch_uncached_size, owner._check_radix_cache_memory

    def _get_batch_uncached_size(scheduler: Any, batch: Any) -> Any:
        size = batch_uncached(scheduler, batch)
        probe.add("busy", _terms(scheduler), int(size))
        return size

    def _check_radix_cache_memory(scheduler: Any) -> Any:
        probe.add("idle", _terms(scheduler), 0)
        return radix_memory(scheduler)

    hybrid = owner._check_hybrid_memory

    def _check_hybrid_memory(scheduler: Any) -> Any:
        for pool, terms in _hybrid_terms(scheduler).items():
            probe.add("idle", terms, 0, pool=pool)
        return hybrid(scheduler)

    owner._check_hybrid_memory = _check_hybrid_memory
    owner._get_batch_uncached_size = _get_batch_uncached_size
    owner._check_radix_cache_memory = _check_radix_cache_memory


def _terms(scheduler: Any) -> dict[str, int]:
    _, _, available, evictable = scheduler._get_token_info()
    protected, held = scheduler.tree_cache.protected_size(), scheduler._session_held_tokens()
    return _figures(available, evictable, protected, held, scheduler.max_total_num_tokens)


def _hybrid_terms(scheduler: Any) -> dict[str, dict[str, int]]:
    tree, infos = scheduler.tree_cache, scheduler._get_swa_token_info()
    full = tree.full_protected_size(), scheduler._session_held_full_tokens()
    swa = tree.swa_protected_size(), scheduler._session_held_swa_tokens()
    return {
        "full": _figures(*infos[4:6], *full, scheduler.full_tokens_per_layer),
        "swa": _figures(*infos[6:8], *swa, scheduler.swa_tokens_per_layer),
    }


def _figures(*terms: Any) -> dict[str, int]:
    """Return a mapping from the name of each term of a pool to its value."""
    names = ("available", "evictable", "protected", "held", "total")
    return dict(zip(names, map(int, terms), strict=True))
