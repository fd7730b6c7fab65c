"""INV-PROGRESS: nobody is stalled, nobody waits for ever, and no slot is given up for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Client
from slotproof.lockstep.observation import Observation, Violation, running, violated
from slotproof.lockstep.waits import all_wait, cause, tail
from slotproof.protocol.commands import describe
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot

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
        words = "{n} commands wait in the inbox, none was read for {steps} steps; first: {first}"
        yield violated(
            "INV-PROGRESS.stalled",
            words,
            n=len(client.unread),
            steps=PATIENCE,
            first=describe(client.unread[0]),
            pins="read",
        )
    requests = snapshot["requests"]
    if requests:
        seen.coverage.checked["INV-PROGRESS"] += 1
    still = bool(requests) and not client.paused and not _goes_on(seen)
    client.stalled = client.stalled + runs if still else 0
    if runs and client.stalled == PATIENCE:
        words = "{rid} is {phase}, and nothing changed for {steps} steps: {why}; {have}"
        yield from _waits(seen, "INV-PROGRESS.stalled", words, list(requests))
    yield from _starved(seen, runs)
    flushed = any(command["do"] == "flush" for command in client.heard)
    if seen.given_up and not flushed and not _pressed(seen):
        words = "the slot of {session} is discarded, and nobody needs its room; {have}"
        session, by = seen.given_up[0]
        yield violated(
            "INV-PROGRESS.discarded", words, session=session, transition=by, have=_have(seen)
        )


def _starved(seen: Observation, runs: bool) -> Iterator[Violation]:
    """Things change, but for too long nobody has sent anything and somebody is not answered."""
    client = seen.client
    if seen.snapshot["consumed"]:
        client.patience = _patience(client, seen.config)
    elif runs and not client.paused and client.unanswered:
        client.patience -= 1
        if client.patience == 0:
            words = "{rid} is not answered, long after the last command was read: {why}; {have}"
            yield from _waits(seen, "INV-PROGRESS.starved", words, list(client.unanswered))


def _waits(seen: Observation, clause: str, words: str, rids: list[str]) -> Iterator[Violation]:
    """The clause, broken for one of these requests, unless the profile documents the cause."""
    requests, have = seen.snapshot["requests"], _have(seen)
    pins: str | None
    if any(each["phase"] == "waiting" for each in requests.values()):
        rid, pins, why = cause(seen)
    else:
        rid, pins = rids[0], requests[rids[0]]["phase"] if rids[0] in requests else None
        why = "it stands still" if pins else "the engine does not have it"
    page = seen.world.constants.profile.idle_stays
    if page and pins and pins.endswith("-idle") and all_wait(seen):
        seen.coverage.by_choice[f"{clause}:{pins} ({page})"] += 1
        return
    phase = requests[rid]["phase"] if rid in requests else "gone"
    yield violated(
        clause, words, rid=rid, phase=phase, steps=PATIENCE, pins=pins, why=why, have=have
    )


def _patience(client: Client, config: EngineConfig) -> int:
    """Iterations within which all that was sent is answered, if nobody sends anything more."""
    chunk = config.chunk or config.context_len
    work = [
        2 + (each.most - max(0, each.max_new)) // chunk + max(0, each.max_new)
        for each in client.unanswered.values()
    ]
    return PATIENCE + 2 * sum(work)


def from_here(client: Client, config: EngineConfig) -> None:
    """Iterations before this one were seen by nobody: what they counted is not known."""
    client.unheard = client.stalled = 0
    client.patience = _patience(client, config)


def _pressed(seen: Observation) -> bool:
    """Whether memory, or rows, may have been short: if all that is there now, and all that was
    asked for, does not fit side by side."""
    config, before, now = seen.config, seen.previous, seen.snapshot
    slots, page = {**before["slots"], **now["slots"]}, config.page_size
    ended = {message["rid"] for message in now["messages"] if message["type"] == "finish"}
    known = seen.client.requests
    asked = [known[rid] for rid in {*before["requests"], *now["requests"], *ended} & known.keys()]
    ahead = 1 + tail(config) + page
    need = sum(each.most + ahead for each in asked)
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
    rows = f"{len(snapshot['rows']['free'])} of {snapshot['rows']['total']} rows free"
    return "; ".join([*pools, rows, f"{len(running(snapshot))} of {seen.config.max_running} run"])


def _goes_on(seen: Observation) -> bool:
    """Whether anything changes, or anybody is answered: one who comes and goes within an iteration
    leaves all as it was, and prompts that go first keep who runs waiting while they come."""
    answered = any(message["type"] == "finish" for message in seen.snapshot["messages"])
    return answered or _figures(seen.previous) != _figures(seen.snapshot)


def _figures(snapshot: Snapshot) -> object:
    available = {name: pool["available"] for name, pool in snapshot["pools"].items()}
    return snapshot["requests"], snapshot["sessions"], snapshot["slots"], available
