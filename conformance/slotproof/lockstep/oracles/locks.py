"""INV-LOCK.count: each tree page has one lock per prefix that contains the page.

In the sliding-window pool an engine may lock the whole prefix, or only the pages in the next
token's window. The lock count lies between the count of windows and the count of prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slotproof.lockstep.observation import Observation, Violation, violated
from slotproof.protocol.snapshot import POOL_NAMES

_COVERED = "tree page {page} has {engine} locks, but {spec} prefixes cover the page"
_WORDS = {"full": _COVERED, "swa": "swa: " + _COVERED + " ({least} by their windows)"}


def judge(seen: Observation) -> Iterator[Violation]:
    snapshot = seen.snapshot
    if any(request["phase"] == "matched" for request in snapshot["requests"].values()):
        return  # The snapshot does not show which pages a match without a row has locked.
    seen.coverage.checked["INV-LOCK"] += 1
    if judge in seen.quiet:
        return
    for pool in POOL_NAMES:
        if not (tree := snapshot["tree"].get(pool, ())):
            continue
        most = _covering(seen, pool)
        # In the sliding-window pool, the smallest count includes only pages inside the window.
        least = most if pool == "full" else _covering(seen, pool, seen.config.window)
        for page, locks in tree:
            if not least.get(page, 0) <= locks <= most.get(page, 0):
                yield violated(
                    "INV-LOCK.count",
                    _WORDS[pool],
                    pool=pool,
                    page=page,
                    spec=most.get(page, 0),
                    least=least.get(page, 0),
                    engine=locks,
                )
                break


def _covering(seen: Observation, pool: str, window: int | None = None) -> dict[int, int]:
    """Return, by page, the number of prefixes, or of prefixes' windows, that contain the page."""
    size, times = seen.config.page_size, dict[int, int]()
    for owner in seen.owners:
        start = 0 if window is None else max(0, owner.C - window)
        used: Any = seen.snapshot["rows"]["used"].get(str(owner.row), {})
        for page in {index // size for index in used.get(pool, [])[start : owner.Q] if index >= 0}:
            times[page] = times.get(page, 0) + 1
    return times
