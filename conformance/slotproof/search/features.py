"""What an example reached, as names: what a guided search follows.

Told from what lockstep keeps of an example in any case, once it is over; nothing is asked of the
engine. A name is the same in every process and on every machine:

- ``triple A B C``: transitions of one session, or of one request without a session, in a row;
- ``together A B``: transitions of one iteration, whosever they are;
- ``figures T …``: a transition and the classes of its figures: none, one, a whole number of pages,
  one more or less than that, or others;
- ``left T …``: a transition and the class of what its session and turn are after that iteration;
- ``room T …``: a transition and what was free before that iteration;
- ``end …``: how a request ended or was refused, after which transition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from slotproof.lockstep.referee import Iteration, empty_snapshot
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import RequestView, SlotView, Snapshot

Features: TypeAlias = frozenset[str]


def features(log: Sequence[Iteration], config: EngineConfig) -> Features:
    """Of a finished example."""
    seen = _Seen(config)
    for entry in log:
        for snapshot in entry.snapshots[: entry.judged]:
            seen.iteration(snapshot)
    return frozenset(seen.found)


def size(tokens: int, page: int) -> str:
    """A number of tokens, roughly.

    >>> [size(tokens, 4) for tokens in (0, 1, 3, 4, 5, 6, 8)]
    ['0', '1', '-', '=', '+', '~', '=']
    """
    if tokens <= 1:
        return "01"[tokens] if tokens >= 0 else "<"
    if page == 1:
        return "~"
    return {0: "=", 1: "+", page - 1: "-"}.get(tokens % page, "~")


class _Seen:
    """Of one example."""

    def __init__(self, config: EngineConfig) -> None:
        self.page = config.page_size
        self.found: set[str] = set()
        self.before = empty_snapshot()
        self.last: dict[str, tuple[str, str]] = {}

    def iteration(self, now: Snapshot) -> None:
        events, found, last = now.get("events", ()), self.found, self.last
        if events:
            room = self.room(self.before)
            for transition, session, rid, params in events:
                actor = session or rid or ""
                earlier, one = last.get(actor, ("", ""))
                last[actor] = (one, transition)
                found.add(f"triple {earlier} {one} {transition}")
                found.add(f"figures {transition} {self.figures(params)}")
                found.add(f"left {transition} {self.left(now, session, rid)}")
                found.add(f"room {transition} {room}")
            if len(events) > 1:
                found.add("together " + " ".join(sorted({each[0] for each in events})))
        for message in now["messages"]:
            if message["type"] == "finish":
                rid, reason = message["rid"], message["reason"]
                request = self.before["requests"].get(rid)
                was = "unread" if request is None else self.request(request)
                found.add(f"end {reason} {was}")
        self.before = now

    def figures(self, params: Mapping[str, int]) -> str:
        return " ".join(f"{name}{size(value, self.page)}" for name, value in params.items())

    def left(self, now: Snapshot, session: str | None, rid: str | None) -> str:
        request = now["requests"].get(rid or "")
        words = "-" if request is None else self.request(request)
        if session is not None:
            seen, slot = now["sessions"].get(session), now["slots"].get(session)
            words += " none" if seen is None else " closing" if seen["closing"] else ""
            if slot is not None:
                history = seen["history"] if seen is not None else 0
                beyond = "<=>"[(slot["C"] >= history) + (slot["C"] > history)]
                words += f" {'lent' if slot['lent'] else 'slot'}{beyond}{self.kv(slot)}"
        return words

    def request(self, request: RequestView) -> str:
        output = "012"[min(2, request["output"])]
        return f"{request['kind']} {request['phase']} {output} {self.kv(request)}"

    def kv(self, view: RequestView | SlotView) -> str:
        """Committed, allocated beyond that, of the tree, given back by the window."""
        committed, prefix = view["C"], view["Q"]
        beyond = "+" if view["A"] > committed else ""
        tree = "" if not prefix else "q" if prefix < committed else "Q"
        return f"{size(committed, self.page)}{beyond}{tree}{'e' if view['E'] > prefix else ''}"

    def room(self, seen: Snapshot) -> str:
        """Whether pages and rows are short, and who is there."""
        words = [
            size(min(pool["available"], self.page), self.page) + "e" * bool(pool["evictable"])
            for pool in seen["pools"].values()
        ]
        rows = "" if seen["rows"]["free"] else " no row"
        return f"{' '.join(words)}{rows} {min(3, len(seen['requests']))}"
