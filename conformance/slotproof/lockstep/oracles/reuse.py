"""INV-REUSE: the queue of allocatable pages contains the unused pages and no other page."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    for pool, queue in seen.snapshot.get("reusable", {}).items():
        if (view := seen.snapshot["pools"].get(pool)) is None:
            continue
        seen.coverage.checked["INV-REUSE"] += 1
        unlocked = {page for page, locks in seen.snapshot["tree"].get(pool, ()) if locks == 0}
        unused, queued = unlocked | set(view["free"]), set(queue)
        sizes = {"spec": len(unused), "engine": len(queued)}
        if lost := unused - queued:
            words = "{pool}: page {page} is unused but in no queue, so it is never allocated"
            yield violated("INV-REUSE.all", words, pool=pool, page=min(lost), **sizes)
        if wrong := queued - unused:
            words = "{pool}: page {page} is in the queue of unused pages, but is in use"
            yield violated("INV-REUSE.unused", words, pool=pool, page=min(wrong), **sizes)
