"""INV-ROWS: no line of req_to_token is free twice, free and used, used by two, or not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Holder, Observation, Violation
from slotproof.conformance.lockstep.oracles.owners import outside


def judge(seen: Observation) -> Iterator[Violation]:
    users: dict[int, list[Holder]] = {}
    for row, times in Counter(seen.snapshot["rows"]["free"]).items():
        users[row] = [Holder("free_rows")] * times
    for owner in seen.owners:
        users.setdefault(owner.row, []).append(owner.holder)
    view = seen.snapshot["rows"]
    for shown in map(int, view["used"]):
        users.setdefault(shown, [Holder("indices")])
    stray = outside(users, view["total"])
    if stray is not None:
        found = Violation("INV-ROWS", "range", row=stray, owners=tuple(users[stray]))
        yield found.says(
            "row {row} belongs to {owners}, and there are {rows} rows", rows=view["total"]
        )
    for row, holders in users.items():
        if len(holders) > 1:
            found = Violation("INV-ROWS", "twice", row=row, owners=tuple(holders))
            yield found.says("row {row} belongs to {owners}")
