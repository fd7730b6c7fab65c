"""Whether the parts of a snapshot fit each other, beyond what the schema can say.

Everything that looks at a snapshot may rely on it: what passes the schema and
:func:`nonsense` can be judged, and an error while judging it is our own.
"""

from __future__ import annotations

from slotproof.conformance import bounds
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Message, Snapshot

_SAYS = {
    "opened": ("session",),
    "refused": ("session",),
    "closed": ("session",),
    "finish": ("rid", "reason", "tokens"),
}
"""What a message has to say, by its type."""


def nonsense(snapshot: Snapshot, config: EngineConfig) -> str | None:
    """What nobody can make sense of, in a line; ``None`` where all is well.

    >>> from slotproof.conformance.referee import empty_snapshot
    >>> shown = {**empty_snapshot(), "messages": [{"type": "finish", "rid": "r1"}]}
    >>> nonsense(shown, EngineConfig())
    'a message “finish” does not say its reason'
    """
    for message in snapshot["messages"]:
        missing = _missing(message)
        if missing is not None:
            return f"a message “{message['type']}” does not say its {missing}"
    for number, ended in enumerate(snapshot["ended"]):
        if not isinstance(ended.get("rid"), str):
            return f"ended/{number} does not say which request (rid) it was"
    if snapshot["pools"] and config.window and "swa" not in snapshot["pools"]:
        return "there is a sliding window, and no pool “swa”"
    rows = snapshot["rows"]["total"]
    if not 0 <= rows <= bounds.ROWS_SHOWN:
        return f"rows/total is {rows}, not between 0 and {bounds.ROWS_SHOWN}"
    return None


def _missing(message: Message) -> str | None:
    """The first thing that a message of its type has to say and does not."""
    for name in _SAYS[message["type"]]:
        if name not in message:
            return name
    return None
