"""INV-LOCK.count: each tree page is locked once for each prefix that covers it.

In the sliding-window pool an engine need only lock what the next token's window still
reaches of a prefix, and may lock all of it: there the count lies between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

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
        if not (tree := snapshot["tree"].get(pool, ())):
            continue
        least, most = Counter[int](), Counter[int]()
        for owner in seen.owners:
            most.update(_pages(seen, owner, pool, 0))
            # In the other pool, from the first position that the window reaches.
            start = 0 if pool == "full" else max(0, owner.C - seen.config.window)
            least.update(_pages(seen, owner, pool, start))
        for page, locks in tree:
            if not least[page] <= locks <= most[page]:
                yield violated(
                    "INV-LOCK.count",
                    _WORDS[pool],
                    pool=pool,
                    page=page,
                    spec=most[page],
                    least=least[page],
                    engine=locks,
                )
                break


def _pages(seen: Observation, owner: Owner, pool: str, start: int) -> set[int]:
    """The pages below Q that the row points to, from ``start`` on."""
    used: Any = seen.snapshot["rows"]["used"].get(str(owner.row), {})
    indices: list[int] = used.get(pool, [])[start : owner.Q]
    return {index // seen.config.page_size for index in indices if index >= 0}
