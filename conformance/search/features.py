"""What an example reached, as names: what a guided search follows.

Made of what lockstep keeps of an example in any case, after it is over. A feature is the same in
every process and on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from slotproof.conformance.lockstep.referee import Iteration
from slotproof.conformance.protocol.config import EngineConfig

Features: TypeAlias = frozenset[str]


def features(log: Sequence[Iteration], config: EngineConfig) -> Features:
    """Of a finished example."""
    del config
    found: set[str] = set()
    last: dict[str, tuple[str, str]] = {}
    for entry in log:
        for snapshot in entry.snapshots[: entry.judged]:
            events = snapshot.get("events", [])
            for transition, session, rid, _ in events:
                actor = session or rid or ""
                before, one = last.get(actor, ("", ""))
                found.add(f"triple {before} {one} {transition}")
                last[actor] = (one, transition)
            if len(events) > 1:
                found.add("together " + " ".join(sorted({each[0] for each in events})))
            for message in snapshot["messages"]:
                if message["type"] == "finish":
                    found.add(f"finish {message['reason']}")
    return frozenset(found)
