"""INV-PROGRESS: nobody is stalled, nobody waits for ever, and no slot is given up for nothing."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Client
from slotproof.lockstep.observation import Observation, Violation, running, violated
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
        waiting = [rid for rid, each in requests.items() if each["phase"] == "waiting"]
        rid = (waiting or list(requests))[0]
        phase = requests[rid]["phase"]
        pins, why = _pinned(seen, rid) if waiting else (phase, "it stands still")
        words = "{rid} is {phase}, and nothing changed for {steps} steps: {why}; {have}"
        yield violated(
            "INV-PROGRESS.stalled",
            words,
            rid=rid,
            phase=phase,
            steps=PATIENCE,
            pins=pins,
            why=why,
            have=_have(seen),
        )
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
            rid = next(iter(client.unanswered))
            words = "{rid} is not answered, long after the last command was read; {have}"
            yield violated("INV-PROGRESS.starved", words, rid=rid, have=_have(seen))


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


def _pinned(seen: Observation, rid: str) -> tuple[str, str]:
    """What a request that waits lacks, in a word and in words.

    Engines reserve differently, so a pool is what it lacks where all that the request may come to
    take is not to be had; the tree may have some of its prompt, which counts as to be had.
    """
    snapshot, request = seen.snapshot, seen.snapshot["requests"][rid]
    sid = request["session"] if request["kind"] == "turn" else None
    slot = snapshot["slots"].get(sid) if sid else None
    if slot and slot["lent"] and sid not in seen.lent_slots:
        return "flag", f"the slot of {sid} is marked as lent, and nobody has it"
    if slot is None and not snapshot["rows"]["free"]:
        idle = len(snapshot["slots"].keys() - seen.lent_slots)
        return "rows", f"no row is free; idle slots have {idle}"
    if len(running(snapshot)) >= seen.config.max_running:
        return "limit", "as many run as may"
    sent = seen.client.unanswered.get(rid)
    known = request["prompt"] + request["output"]
    more = max(0, sent.max_new if sent else 0) + seen.capabilities.margin + _tail(seen.config)
    whole = min(known + more, seen.config.context_len)
    size = seen.config.page_size
    need = -(-whole // size) * size - (-(-slot["A"] // size) * size if slot else 0)
    for name, view in snapshot["pools"].items():
        if view["available"] + view["evictable"] < need:
            held, locked = seen.shares[name][0], view["protected"]
            words = f"it may need {need} tokens of {name}; slots hold {held}, {locked} are locked"
            return name, words
    return "nothing", "all that it needs is there"


def _tail(config: EngineConfig) -> int:
    """Tokens that a round may allocate beyond the next one: drafts, and with overlap scheduling the
    round that is under way."""
    return (config.draft * config.topk + 1) * (2 if config.overlap else 1) - 1


def _pressed(seen: Observation) -> bool:
    """Whether memory, or rows, may have been short: if all that is there now, and all that was
    asked for, does not fit side by side."""
    config, before, now = seen.config, seen.previous, seen.snapshot
    slots, page = {**before["slots"], **now["slots"]}, config.page_size
    ended = {message["rid"] for message in now["messages"] if message["type"] == "finish"}
    known = seen.client.requests
    asked = [known[rid] for rid in {*before["requests"], *now["requests"], *ended} & known.keys()]
    ahead = 1 + _tail(config) + page
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
