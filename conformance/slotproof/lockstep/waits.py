"""Why a request waits: what it lacks, and who holds that.

Both are one word, part of a finding's identity: ``full-idle``, ``rows-running``, ``swa-reserve``.
"""

from __future__ import annotations

from slotproof.lockstep.observation import Observation, running
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import PoolView, RequestView, SlotView

CAUSES = {
    "nobody": "{n} belong to nobody",
    "locks": "{n} are protected, and no slot or request has them in its prefix",
    "idle": "idle sessions hold {n}",
    "waiting": "sessions with a turn, or a close, that waits hold {n}",
    "running": "requests that run hold {n}",
    "total": "there is not so much in all",
    "reserve": "enough is free, but the engine reserves more than the request needs",
    "counter": "the engine reports less available or evictable memory than its pages show",
    "limit": "as many run as may",
    "flag": "the slot of its session is marked as lent, and nobody has it",
    "read": "the engine reads no command",
}
"""Causes of a stall, each with a sentence. Up to ``reserve`` a pool, or ``rows``, stands before it.
The first holder is named that has all that is missing."""
_HOLDERS = ("nobody", "locks", "idle", "waiting", "running")


def cause(seen: Observation) -> tuple[str, str, str]:
    """Return a request that waits, its cause in a word, and in words.

    The first request that lacks something: others may only stand behind it in the queue.
    """
    waiting = [rid for rid, each in seen.snapshot["requests"].items() if _waits(each)]
    causes = [(rid, *_cause(seen, rid)) for rid in waiting]
    return next((each for each in causes if not each[1].endswith("-reserve")), causes[0])


def idle(seen: Observation, sid: str) -> bool:
    """Return whether a session has no turn, and no close of it waits for one.

    A rejected turn is none: it has no use of the slot.
    """
    session, requests = seen.snapshot["sessions"].get(sid), seen.snapshot["requests"]
    of = {rid: each.session for rid, each in seen.client.unanswered.items()}
    of |= {rid: each["session"] for rid, each in requests.items()}
    turns = [of[rid] for rid in of if rid not in requests or requests[rid]["kind"] != "stub"]
    busy = session is not None and (session["closing"] or session["inflight"] is not None)
    return not busy and sid not in turns


def all_wait(seen: Observation) -> bool:
    """Return whether there are requests, and none of them runs."""
    return all(map(_waits, seen.snapshot["requests"].values()))


def tail(config: EngineConfig) -> int:
    """Tokens that a round may allocate beyond the next one: drafts, and with overlap scheduling the
    round that is under way."""
    return (config.draft * config.topk + 1) * (2 if config.overlap else 1) - 1


def _waits(request: RequestView) -> bool:
    return request["phase"] == "waiting"


def _cause(seen: Observation, rid: str) -> tuple[str, str]:
    snapshot, request = seen.snapshot, seen.snapshot["requests"][rid]
    sid = request["session"] if request["kind"] == "turn" else None
    slot = snapshot["slots"].get(sid) if sid else None
    if slot and slot["lent"] and sid not in seen.lent_slots:
        return "flag", CAUSES["flag"]
    rows = snapshot["rows"]
    if slot is None and not rows["free"]:
        return _held(seen, "rows", 1, sid)
    if len(running(snapshot)) >= seen.config.max_running:
        return "limit", CAUSES["limit"]
    spare = {}
    for name, view in snapshot["pools"].items():
        if _miscounted(seen, name, view):
            return "counter", f"{name}: {CAUSES['counter']}"
        least, most = _needs(seen, rid, slot, name)
        there = view["available"] + view["evictable"]
        if name == "swa" and least > view["total"]:
            least = 0  # a window is enough: what it has left is given back
        held = sum(_shares(seen, name, sid).values())
        # Engines reserve differently: what a request may come to take counts where it could be had.
        wanted = most if least <= there < most <= there + held else least
        if there < wanted:
            return _held(seen, name, wanted - there, sid, "up to " if wanted > least else "")
        spare[name] = there - most
    tightest = min(spare, key=lambda name: spare[name], default="full")
    return f"{tightest if rows['free'] else 'rows'}-reserve", CAUSES["reserve"]


def _held(
    seen: Observation, name: str, short: int, sid: str | None, at_most: str = ""
) -> tuple[str, str]:
    """The cause where so much is missing of a pool, or of the rows."""
    shares = _shares(seen, name, sid)
    enough = (holder for holder in _HOLDERS if shares[holder] >= short)
    # Where it takes two holders, the idle sessions alone are not why it waits.
    most = max((each for each in _HOLDERS if each != "idle"), key=lambda each: shares[each])
    who = next(enough, most) if sum(shares.values()) >= short else "total"
    lacks = f"{short} row" if name == "rows" else f"{at_most}{short} tokens of pool {name}"
    words = f"it lacks {lacks}: {CAUSES[who].format(n=shares.get(who))}"
    return f"{name}-{who}", words


def _shares(seen: Observation, name: str, sid: str | None) -> dict[str, int]:
    """Tokens of a pool, or rows, by holder; what the request's own session holds is no one's."""
    snapshot, shares = seen.snapshot, dict.fromkeys(_HOLDERS, 0)
    locked = 0
    for owner in seen.owners:
        locked += owner.Q
        if owner.holder != ("slot", sid):
            slot = owner.holder.kind == "slot"
            who = ("idle" if idle(seen, owner.holder.name) else "waiting") if slot else "running"
            view = (snapshot["slots"] if slot else snapshot["requests"])[owner.holder.name]
            shares[who] += _tokens(seen, view, name) if name != "rows" else 1
    if name == "rows":
        rows = snapshot["rows"]
        shares["nobody"] = max(0, rows["total"] - len(rows["free"]) - len(seen.owners))
        return shares
    figures = seen.figures(name)
    shares["nobody"] = max(0, 2 * figures["total"] - sum(figures.values()))
    shares["locks"] = max(0, figures["protected"] - locked)
    return shares


def _tokens(seen: Observation, view: SlotView | RequestView, name: str) -> int:
    size = seen.config.page_size
    return -(-view["A"] // size) * size - (view["E"] // size * size if name == "swa" else 0)


def _needs(seen: Observation, rid: str, slot: SlotView | None, name: str) -> tuple[int, int]:
    """Tokens of a pool that a request takes at least, and at most, beyond what its slot has.

    The tree may have some of its prompt, which counts as to be had.
    """
    request, config = seen.snapshot["requests"][rid], seen.config
    sent = seen.client.unanswered.get(rid)
    known = request["prompt"] + request["output"]
    more = max(0, sent.max_new if sent else 0) + seen.capabilities.margin + tail(config)
    at_once = config.window + config.chunk if name == "swa" and config.chunk else known
    size = config.page_size
    has = -(-slot["A"] // size) * size if slot else 0
    least, most = (
        -(-tokens // size) * size - has for tokens in (known, min(known + more, config.context_len))
    )
    return min(least, at_once), min(most, at_once + more)


def _miscounted(seen: Observation, name: str, view: PoolView) -> bool:
    """Whether the engine's figures say that less is free, or can be evicted, than pages show."""
    size = seen.config.page_size
    unlocked = sum(not locks for _, locks in seen.snapshot["tree"].get(name, ()))
    return view["available"] < len(view["free"]) * size or view["evictable"] < unlocked * size
