"""INV-ROWS: no row of req_to_token is free twice, free and in use, used twice, or out of range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.lockstep.observation import Holder, Observation, Violation, violated
from slotproof.lockstep.oracles.owners import outside

_FREE, _INDICES = Holder("free_rows"), Holder("indices")
_BELONGS = "row {row} belongs to {owners}"


def judge(seen: Observation) -> Iterator[Violation]:
    if judge in seen.quiet:
        return
    view = seen.snapshot["rows"]
    users = {row: [_FREE] * times for row, times in Counter(view["free"]).items()}
    for owner in seen.owners:
        users.setdefault(owner.row, []).append(owner.holder)
    for shown in map(int, view["used"]):
        users.setdefault(shown, [_INDICES])
    if (stray := outside(users, view["total"])) is not None:
        words, rows = _BELONGS + ", but there are {rows} rows", view["total"]
        yield violated("INV-ROWS.range", words, row=stray, owners=tuple(users[stray]), rows=rows)
    for row, holders in users.items():
        if len(holders) > 1:
            yield violated("INV-ROWS.twice", _BELONGS, row=row, owners=tuple(holders))
