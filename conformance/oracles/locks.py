"""INV-LOCK.count: each tree page is locked once for each prefix that covers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.observation import Observation, Violation


def judge(seen: Observation) -> Iterator[Violation]:
    snapshot = seen.snapshot
    if any(request["phase"] == "matched" for request in snapshot["requests"].values()):
        return  # a match without a row yet: which pages it locks is not shown
    seen.coverage.checked["INV-LOCK"] += 1
    size = seen.config.page_size
    expected: Counter[int] = Counter()
    for owner in seen.owners:
        used = snapshot["rows"]["used"].get(str(owner.row))
        if used is not None:
            expected.update({index // size for index in used["full"][: owner.Q]})
    for page, locks in snapshot["tree"].get("full", ()):
        if locks != expected[page]:
            yield Violation(
                "INV-LOCK",
                "count",
                f"tree page {page} is locked {locks} times, {expected[page]} prefixes cover it",
            )
            return
