"""INV-PROGRESS: nobody is stalled, nobody waits for ever, and no slot is given up for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation, violated
from slotproof.conformance.protocol.snapshot import Snapshot

PATIENCE = 16
"""Iterations without any change after which a request counts as stalled."""


def judge(seen: Observation) -> Iterator[Violation]:
    client, snapshot = seen.client, seen.snapshot
    runs = snapshot["iter"] > seen.previous["iter"]  # when time passes nothing is read
    if snapshot["consumed"] or not client.unread:
        client.unheard = 0
    elif runs:
        client.unheard += 1
    if client.unheard == PATIENCE:
        words = "{count} commands wait in the inbox, none was read for {steps} steps"
        count = len(client.unread)
        yield violated("INV-PROGRESS.stalled", words, count=count, steps=PATIENCE)
    requests = snapshot["requests"]
    if requests:
        seen.coverage.checked["INV-PROGRESS"] += 1
    still = bool(requests) and not client.paused and _figures(seen.previous) == _figures(snapshot)
    client.stalled = client.stalled + 1 if still else 0
    if client.stalled == PATIENCE:
        waiting = [rid for rid, each in requests.items() if each["phase"] == "waiting"]
        rid = (waiting or list(requests))[0]
        doing = "waits" if waiting else f"is {requests[rid]['phase']}"
        words = "{rid} {doing}, and nothing changed for {steps} steps; {have}"
        have = _have(seen)
        yield violated(
            "INV-PROGRESS.stalled", words, rid=rid, doing=doing, steps=PATIENCE, have=have
        )
    yield from _starved(seen, runs)
    flushed = any(command["do"] == "flush" for command in client.heard)
    if seen.given_up and not flushed and not _pressed(seen):
        words = "the slot of {session} is discarded, and nobody needs its room; {have}"
        yield violated("INV-PROGRESS.discarded", words, session=seen.given_up[0], have=_have(seen))


def _starved(seen: Observation, runs: bool) -> Iterator[Violation]:
    """Things change, but for too long nobody has sent anything and somebody is not answered."""
    client = seen.client
    if seen.snapshot["consumed"]:
        chunk = seen.config.chunk or seen.config.context_len
        work = [
            2 + len(each.prompt) // chunk + max(0, each.max_new)
            for each in client.unanswered.values()
        ]
        client.patience = PATIENCE + 2 * sum(work)
    elif runs and not client.paused and client.unanswered:
        client.patience -= 1
        if client.patience == 0:
            rid = next(iter(client.unanswered))
            words = "{rid} is not answered, long after the last command was read; {have}"
            yield violated("INV-PROGRESS.starved", words, rid=rid, have=_have(seen))


def _pressed(seen: Observation) -> bool:
    """Whether memory, or rows, may have been short: if all that is there now, and all that was
    asked for, does not fit side by side."""
    config, before, now = seen.config, seen.previous, seen.snapshot
    slots, page = {**before["slots"], **now["slots"]}, config.page_size
    ended = {message["rid"] for message in now["messages"] if message["type"] == "finish"}
    known = seen.client.requests
    asked = [known[rid] for rid in {*before["requests"], *now["requests"], *ended} & known.keys()]
    ahead = (config.draft * config.topk + 1) * (2 if config.overlap else 1) + page
    need = sum(len(each.prompt) + max(0, each.max_new) + ahead for each in asked)
    need += sum(each["A"] + page for each in slots.values())
    room = min(pool["total"] for pool in now["pools"].values())
    return need > room or len(asked) + len(slots) > now["rows"]["total"]


def _have(seen: Observation) -> str:
    """What there is that a request could have."""
    snapshot = seen.snapshot
    pools = [
        f"{name}: {view['available'] + view['evictable']} of {view['total']} tokens to be had"
        for name, view in snapshot["pools"].items()
    ]
    running = sum(each["phase"] == "running" for each in snapshot["requests"].values())
    rows = f"{len(snapshot['rows']['free'])} of {snapshot['rows']['total']} rows free"
    return "; ".join([*pools, rows, f"{running} of {seen.config.max_running} run"])


def _figures(snapshot: Snapshot) -> object:
    """What changes if anything goes on."""
    return (
        snapshot["requests"],
        snapshot["sessions"],
        snapshot["slots"],
        {name: pool["available"] for name, pool in snapshot["pools"].items()},
    )
