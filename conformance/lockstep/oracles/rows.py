"""INV-ROWS: no line of req_to_token is free twice, free and used, used by two, or not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation
from slotproof.conformance.lockstep.oracles.owners import all_of, outside


def judge(seen: Observation) -> Iterator[Violation]:
    users: dict[int, list[str]] = {}
    for row, times in Counter(seen.snapshot["rows"]["free"]).items():
        users[row] = ["the free rows"] * times
    for owner in seen.owners:
        users.setdefault(owner.row, []).append(owner.name)
    view = seen.snapshot["rows"]
    for shown in map(int, view["used"]):
        users.setdefault(shown, ["a list of indices"])
    stray = outside(users, view["total"])
    if stray is not None:
        text = f"row {stray} belongs to {all_of(users[stray])}"
        yield Violation("INV-ROWS", "range", f"{text}, and there are {view['total']} rows")
    for row, names in users.items():
        if len(names) > 1:
            yield Violation("INV-ROWS", "twice", f"row {row} belongs to {all_of(names)}")
