"""INV-PROGRESS: a waiting request is not stalled."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation, violated
from slotproof.conformance.protocol.snapshot import Snapshot

PATIENCE = 16
"""Iterations without any change after which a waiting request counts as stalled."""


def judge(seen: Observation) -> Iterator[Violation]:
    client, snapshot = seen.client, seen.snapshot
    if snapshot["consumed"] or not client.unread:
        client.unheard = 0
    elif snapshot["iter"] > seen.previous["iter"]:  # when time passes nothing is read
        client.unheard += 1
    if client.unheard == PATIENCE:
        words = "{count} commands wait in the inbox, none was read for {steps} steps"
        count = len(client.unread)
        yield violated("INV-PROGRESS.stalled", words, count=count, steps=PATIENCE)
    requests = snapshot["requests"]
    waiting = [rid for rid, request in requests.items() if request["phase"] == "waiting"]
    still = (
        bool(waiting)
        and len(waiting) == len(requests)
        and not client.paused
        and _figures(seen.previous) == _figures(snapshot)
    )
    client.stalled = client.stalled + 1 if still else 0
    if waiting:
        seen.coverage.checked["INV-PROGRESS"] += 1
    if client.stalled == PATIENCE:
        words = "{rid} waits, nothing runs and nothing changed for {steps} steps"
        yield violated("INV-PROGRESS.stalled", words, rid=waiting[0], steps=PATIENCE)


def _figures(snapshot: Snapshot) -> object:
    """What changes if anything goes on."""
    return (
        snapshot["requests"],
        snapshot["sessions"],
        snapshot["slots"],
        {name: pool["available"] for name, pool in snapshot["pools"].items()},
    )
