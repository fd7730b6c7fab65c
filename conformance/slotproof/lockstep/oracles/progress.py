"""INV-PROGRESS: no request stalls or waits forever, and no slot is discarded without need."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Client
from slotproof.lockstep.observation import Observation, Violation, running, violated
from slotproof.lockstep.waits import cause, tail
from slotproof.protocol.commands import describe
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot

PATIENCE = 16
"""Number of iterations without any change after which a request is stalled."""


def judge(seen: Observation) -> Iterator[Violation]:
    client, snapshot = seen.client, seen.snapshot
    runs = snapshot["iter"] > seen.previous["iter"]  # A tick only lets time pass: nothing is read.
    if snapshot["consumed"] or not client.unread:
        client.unheard = 0
    elif runs:
        client.unheard += 1
    if client.unheard == PATIENCE:
        words = "{n} commands wait in the inbox, and {steps} iterations read none; first: {first}"
        yield violated(
            "INV-PROGRESS.stalled",
            words,
            n=len(client.unread),
            steps=PATIENCE,
            first=describe(client.unread[0]),
            pins="read",
        )
    if requests := snapshot["requests"]:
        seen.coverage.checked["INV-PROGRESS"] += 1
    still = bool(requests) and not client.paused and not _goes_on(seen)
    client.stalled = client.stalled + runs if still else 0
    if runs and client.stalled == PATIENCE:
        words = "{rid} is {phase}, and nothing changed for {steps} iterations: {why}; {have}"
        yield from _waits(seen, "INV-PROGRESS.stalled", words, list(requests))
    yield from _starved(seen, runs)
    flushed = any(command["do"] in ("flush", "flush_all") for command in client.heard)
    if seen.given_up and not flushed and not _pressed(seen):
        words = "the slot of {session} was discarded, but no request needs its memory; {have}"
        session, by = seen.given_up[0]
        yield violated(
            "INV-PROGRESS.discarded", words, session=session, transition=by, have=_have(seen)
        )


def _starved(seen: Observation, runs: bool) -> Iterator[Violation]:
    """Check that after the last command all requests are answered in time."""
    client = seen.client
    if seen.snapshot["consumed"]:
        client.patience = _patience(client, seen.config)
    elif runs and not client.paused and client.unanswered:
        client.patience -= 1
        if client.patience == 0:
            words = "{rid} has no answer long after the engine read the last command: {why}; {have}"
            yield from _waits(seen, "INV-PROGRESS.starved", words, list(client.unanswered))


def _waits(seen: Observation, clause: str, words: str, rids: list[str]) -> Iterator[Violation]:
    """Yield a violation for one of the requests, unless the profile documents the cause."""
    requests, have = seen.snapshot["requests"], _have(seen)
    pins: str | None
    waiting = [request["phase"] == "waiting" for request in requests.values()]
    if any(waiting):
        rid, pins, why = cause(seen)
    else:
        rid, pins = rids[0], requests[rids[0]]["phase"] if rids[0] in requests else None
        why = "it makes no progress" if pins else "the engine does not have the request"
    page = seen.world.constants.profile.idle_stays
    if page and pins and pins.endswith("-idle") and all(waiting):
        seen.coverage.by_choice[f"{clause}:{pins} ({page})"] += 1
        return
    phase = requests[rid]["phase"] if rid in requests else "gone"
    told = {"steps": PATIENCE, "pins": pins, "why": why, "have": have}
    yield violated(clause, words, rid=rid, phase=phase, **told)


def _patience(client: Client, config: EngineConfig) -> int:
    """Return the number of iterations in which the engine must answer all current requests."""
    chunk = config.chunk or config.context_len
    work = [
        2 + (request.most - max(0, request.max_new)) // chunk + max(0, request.max_new)
        for request in client.unanswered.values()
    ]
    return PATIENCE + 2 * sum(work)


def from_here(client: Client, config: EngineConfig) -> None:
    """Restart all counts, because the iterations up to now were not observed."""
    client.unheard = client.stalled = 0
    client.patience = _patience(client, config)


def _pressed(seen: Observation) -> bool:
    """Return True if memory or rows may have been short. The estimate adds up the needs of all
    slots and requests in the previous and the current snapshot."""
    config, before, now = seen.config, seen.previous, seen.snapshot
    slots, page = {**before["slots"], **now["slots"]}, config.page_size
    ended = {message["rid"] for message in now["messages"] if message["type"] == "finish"}
    known = seen.client.requests
    asked = [known[rid] for rid in {*before["requests"], *now["requests"], *ended} & known.keys()]
    ahead = 1 + tail(config) + page
    need = sum(request.most + ahead for request in asked)
    need += sum(slot["A"] + page for slot in slots.values())
    room = min(pool["total"] for pool in now["pools"].values())
    return need > room or len(asked) + len(slots) > now["rows"]["total"]


def _have(seen: Observation) -> str:
    """Describe the usable tokens, the free rows and the number of running requests."""
    snapshot = seen.snapshot
    pools = [
        f"{name}: {view['available'] + view['evictable']} of {view['total']} tokens are usable"
        for name, view in snapshot["pools"].items()
    ]
    rows = f"{len(snapshot['rows']['free'])} of {snapshot['rows']['total']} rows free"
    return "; ".join([*pools, rows, f"{len(running(snapshot))} of {seen.config.max_running} run"])


def _goes_on(seen: Observation) -> bool:
    """Return True if anything changed or an answer came. Prefills with priority may delay running
    requests, and a request may come and go within one iteration."""
    answered = any(message["type"] == "finish" for message in seen.snapshot["messages"])
    return answered or _figures(seen.previous) != _figures(seen.snapshot)


def _figures(snapshot: Snapshot) -> object:
    available = {name: pool["available"] for name, pool in snapshot["pools"].items()}
    return snapshot["requests"], snapshot["sessions"], snapshot["slots"], available
