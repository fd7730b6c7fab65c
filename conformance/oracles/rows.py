"""INV-ROWS.twice: no line of req_to_token is free twice, free and used, or used by two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.observation import Observation, Violation


def judge(seen: Observation) -> Iterator[Violation]:
    users: dict[int, list[str]] = {}
    for row, times in Counter(seen.snapshot["rows"]["free"]).items():
        users[row] = ["the free rows"] * times
    for owner in seen.owners:
        users.setdefault(owner.row, []).append(owner.name)
    for row, names in users.items():
        if len(names) > 1:
            yield Violation("INV-ROWS", "twice", f"row {row} belongs to {' and '.join(names)}")
