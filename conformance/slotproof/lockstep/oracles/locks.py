"""INV-LOCK.count: each tree page is locked once for each prefix that covers it.

In the sliding-window pool an engine need only lock what the next token's window still
reaches of a prefix, and may lock all of it: there the count lies between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Owner, Violation, violated
from slotproof.protocol.snapshot import POOL_NAMES

_COVERED = "tree page {page} is locked {engine} times, {spec} prefixes cover it"
_WORDS = {"full": _COVERED, "swa": "swa: " + _COVERED + ", the windows of {least} still reach it"}


def judge(seen: Observation) -> Iterator[Violation]:
    snapshot = seen.snapshot
    if any(request["phase"] == "matched" for request in snapshot["requests"].values()):
        return  # a match without a row yet: which pages it locks is not shown
    seen.coverage.checked["INV-LOCK"] += 1
    for pool in POOL_NAMES:
        tree = snapshot["tree"].get(pool, ())
        if not tree:
            continue
        most: Counter[int] = Counter()
        for owner in seen.owners:
            most.update(_pages(seen, owner, pool, 0))
        least = most  # in the other pool, from the first position that the window reaches
        if pool != "full":
            least = Counter()
            for owner in seen.owners:
                least.update(_pages(seen, owner, pool, max(0, owner.C - seen.config.window)))
        for page, locks in tree:
            if not least[page] <= locks <= most[page]:
                shown = {"pool": pool, "page": page, "spec": most[page], "engine": locks}
                yield violated("INV-LOCK.count", _WORDS[pool], least=least[page], **shown)
                break


def _pages(seen: Observation, owner: Owner, pool: str, start: int) -> set[int]:
    """The pages below Q that the row points to, from ``start`` on."""
    used = seen.snapshot["rows"]["used"].get(str(owner.row))
    if used is None:
        return set()
    indices: list[int] = used.get(pool, [])  # type: ignore[assignment]
    size = seen.config.page_size
    return {index // size for index in indices[start : owner.Q] if index >= 0}
