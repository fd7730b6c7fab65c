"""Whether the parts of a snapshot fit each other, beyond what its type can say.

Everything that looks at a snapshot may rely on it: what is of the type and passes
:func:`nonsense` can be judged, and an error while judging it is our own.
"""

from __future__ import annotations

from typing import Any

from slotproof.conformance import bounds
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot


def nonsense(snapshot: Snapshot, config: EngineConfig) -> str | None:
    """What nobody can make sense of, in a line; ``None`` where all is well.

    >>> from slotproof.conformance.lockstep.referee import empty_snapshot
    >>> shown = {**empty_snapshot(), "rows": {"total": 4_000_000_000, "free": [], "used": {}}}
    >>> nonsense(shown, EngineConfig())
    'rows/total is 4000000000, more than 1000000'
    """
    if snapshot["pools"] and config.window and "swa" not in snapshot["pools"]:
        return "there is a sliding window, and no pool “swa”"
    rows = snapshot["rows"]["total"]
    if rows > bounds.ROWS_SHOWN:
        return f"rows/total is {rows}, more than {bounds.ROWS_SHOWN}"
    used = snapshot["rows"]["used"]
    views: list[Any] = [*snapshot["slots"].values(), *snapshot["requests"].values()]
    rows_of: list[tuple[int, Any]] = [(view["A"], used.get(str(view["row"]), {})) for view in views]
    described = sum(
        min(max(allocated, 0), len(indices))
        for allocated, row in rows_of
        for indices in row.values()
    )
    if described > bounds.POSITIONS:
        return f"slots and requests describe {described} positions, more than {bounds.POSITIONS}"
    return None
