"""Cause of a wait: the missing resource, and its holder.

Both form one word of a finding's identity: ``full-idle``, ``rows-running``, ``swa-reserve``.
"""

from __future__ import annotations

from slotproof.engines.base import Capabilities
from slotproof.lockstep.observation import Observation, running
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import PoolView, RequestView, SlotView

CAUSES = {
    "nobody": "{n} have no owner",
    "locks": "{n} are locked, but in no prefix of a slot or request",
    "idle": "idle sessions hold {n}",
    "waiting": "sessions with a waiting turn or close hold {n}",
    "running": "running requests hold {n}",
    "total": "the total is too small",
    "reserve": "enough is free, but the engine reserves more than the request needs",
    "counter": "the engine reports less available or evictable memory than its pages show",
    "limit": "the limit of running requests is reached",
    "flag": "the slot of its session is marked as lent, but no request has it",
    "read": "the engine reads no command",
}
"""Causes of a stall, each with a sentence. The name of a pool, or ``rows``, precedes each cause up
to ``reserve``. The cause is the first holder that alone has the whole missing amount."""
_HOLDERS = ("nobody", "locks", "idle", "waiting", "running")


def cause(seen: Observation) -> tuple[str, str, str]:
    """Return a waiting request, and the word and the sentence for the cause of its wait.

    Later requests may only be queued, so the first request that lacks a resource is preferred.
    """
    requests = seen.snapshot["requests"].items()
    waiting = [rid for rid, request in requests if request["phase"] == "waiting"]
    causes = [(rid, *_cause(seen, rid)) for rid in waiting]
    return next((reason for reason in causes if not reason[1].endswith("-reserve")), causes[0])


def idle(seen: Observation, sid: str) -> bool:
    """Return True if a session has neither a turn nor a pending close.

    A rejected turn does not count as a turn, because it does not use the slot.
    """
    session, requests = seen.snapshot["sessions"].get(sid), seen.snapshot["requests"]
    of = {rid: sent.session for rid, sent in seen.client.unanswered.items()}
    of |= {rid: request["session"] for rid, request in requests.items()}
    turns = [of[rid] for rid in of if rid not in requests or requests[rid]["kind"] != "stub"]
    busy = session is not None and (session["closing"] or session["inflight"] is not None)
    return not busy and sid not in turns


def tail(config: EngineConfig) -> int:
    """Return the number of tokens that a decoding round may allocate beyond the next token. The
    number includes drafts, and with overlap scheduling also the rounds in flight."""
    return (config.draft * config.topk + 1) * config.depth - 1


def slack(config: EngineConfig, offered: Capabilities) -> int:
    """Return the number of positions that a decoding round may allocate past the KV it computes."""
    if config.draft and "draft" in offered.commands:  # A client may inject a draft of any length.
        return config.context_len
    if not config.draft or not offered.double_reserve:
        return 1 + tail(config)
    page = config.page_size
    branch = config.draft if config.topk == 1 else -(-(config.draft + page - 1) // page) * page
    return 2 * max(config.topk * branch, config.draft + 1) + page - 1


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
        available = view["available"] + view["evictable"]
        if name == "swa" and least > view["total"]:
            least = 0  # The window's pool must only hold one window: pages before it are freed.
        held = sum(_shares(seen, name, sid).values())
        # Engines reserve differently. The largest need counts if that many tokens can be freed.
        wanted = most if least <= available < most <= available + held else least
        if available < wanted:
            return _held(seen, name, wanted - available, sid, "up to " if wanted > least else "")
        spare[name] = available - most
    tightest = min(spare, key=lambda name: spare[name], default="full")
    return f"{tightest if rows['free'] else 'rows'}-reserve", CAUSES["reserve"]


def _held(
    seen: Observation, name: str, short: int, sid: str | None, at_most: str = ""
) -> tuple[str, str]:
    """Return the word and the sentence for the cause if ``short`` tokens or rows are missing."""
    shares = _shares(seen, name, sid)
    enough = (holder for holder in _HOLDERS if shares[holder] >= short)
    # If it takes two holders to cover the missing amount, idle sessions alone are not the cause.
    most = max((holder for holder in _HOLDERS if holder != "idle"), key=shares.__getitem__)
    who = next(enough, most) if sum(shares.values()) >= short else "total"
    tokens = f"{at_most}{short} {'token' if short == 1 else 'tokens'} of pool {name}"
    lacks = f"{short} row" if name == "rows" else tokens
    return f"{name}-{who}", f"it lacks {lacks}: {CAUSES[who].format(n=shares.get(who))}"


def _shares(seen: Observation, name: str, sid: str | None) -> dict[str, int]:
    """Return the number of a pool's tokens, or of rows, by holder, without the session ``sid``."""
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
    """Return the least and the most tokens of a pool that a request needs beyond its slot.

    Part of the prompt may already be in the tree, where its tokens count as available.
    """
    request, config = seen.snapshot["requests"][rid], seen.config
    sent = seen.client.unanswered.get(rid)
    known = request["prompt"] + request["output"]
    more = max(0, sent.max_new if sent else 0) + seen.capabilities.margin + tail(config)
    at_once = config.window + config.chunk if name == "swa" and config.chunk else known
    most_at_all = max(known, min(config.context_len, seen.snapshot["pools"][name]["total"]))
    size = config.page_size
    has = -(-slot["A"] // size) * size if slot else 0
    ends = (known, min(known + more, most_at_all))
    least, most = (-(-tokens // size) * size - has for tokens in ends)
    return min(least, at_once), min(most, at_once + more)


def _miscounted(seen: Observation, name: str, view: PoolView) -> bool:
    """Return True if the engine reports less free or evictable memory than its page lists have."""
    size = seen.config.page_size
    unlocked = sum(not locks for _, locks in seen.snapshot["tree"].get(name, ()))
    return view["available"] < len(view["free"]) * size or view["evictable"] < unlocked * size
