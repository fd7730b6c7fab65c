"""INV-REUSE: the queue of the pages that may be given out next has those that nobody uses."""

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
            words = "{pool}: nobody uses page {page}, and it is in no queue: it is never given out"
            yield violated("INV-REUSE.all", words, pool=pool, page=min(lost), **sizes)
        if wrong := queued - unused:
            words = "{pool}: page {page} may be given out, and it is in use"
            yield violated("INV-REUSE.unused", words, pool=pool, page=min(wrong), **sizes)
