"""What the driver itself keeps in mind: who a request is, counters, events, endings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from messages import outer_rid

COUNTS = ("matches", "admissions", "refusals", "chunks", "retractions")
COUNTERS = ("allocated", "freed", "evicted", "inserted", "dup", "locked", "unlocked")

Event = list[Any]
"""[transition, session, request, parameters], as the protocol lists them."""


@dataclass
class Meta:
    """A request as it was submitted; ``kind`` changes when it leaves its session."""

    kind: str
    session: str | None
    new: int = 0
    prompt: int = 0
    doomed: bool = False
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    match: Event | None = None
    extend: Event | None = None

    @property
    def event_session(self) -> str | None:
        """The session that events of the request name: none once it goes on alone."""
        return self.session if self.kind == "turn" else None


class Tracker:
    """Filled by the wrapped methods during an iteration, emptied by its snapshot."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended: list[dict[str, Any]] = []
        self.injected = False
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._generations: dict[str, int] = {}
        self._new: dict[str, int] = {}

    def emit(self, transition: str, session: str | None, rid: str | None, **params: int) -> Event:
        """Append an event; its parameters may be completed later."""
        event: Event = [transition, session, None if rid is None else outer_rid(rid), params]
        self.events.append(event)
        return event

    def of(self, req: Any, transition: str, **params: int) -> Event:
        """An event of a request."""
        return self.emit(transition, self.meta(req).event_session, req.rid, **params)

    def meta(self, req: Any) -> Meta:
        """What is known of a request; one never seen before is taken for a plain one."""
        meta = getattr(req, "_slotproof", None)
        if not isinstance(meta, Meta):
            meta = req._slotproof = Meta("plain", None)
        return meta

    def enrol(self, req: Any, meta: Meta) -> None:
        """A request was queued."""
        req._slotproof = meta
        self._new[req.rid] = meta.new

    def new_tokens(self) -> dict[str, int]:
        """New tokens by (inner) request id."""
        return self._new

    def opened(self, sid: str) -> None:
        """A session of this name was opened, perhaps not for the first time."""
        self._generations[sid] = self._generations.get(sid, 0) + 1

    def generation(self, sid: str) -> int:
        """How often a session of this name was opened."""
        return self._generations.get(sid, 0)

    def count(self, **tokens: int) -> None:
        """Add to the monotone counters."""
        for name, more in tokens.items():
            self._counters[name] += max(0, more)

    def counters(self, gained: int) -> dict[str, int]:
        """The monotone counters, in tokens; ``gained`` is what the free list has grown by.

        What was freed follows from what was allocated: the free list tells no more.
        """
        for name, _, _, params in self.events:
            moved = params.get("u", 0)
            self.count(**{"locked" if name in ("T-MATCH", "T-INSERT") else "unlocked": moved})
            self.count(evicted=params["n"] if name == "T-EVICT" else 0)
        counters = dict(self._counters)
        return {**counters, "freed": gained + counters["allocated"]}

    def end(self, req: Any, kv: Any, reason: str, finished: int) -> None:
        """A request ended, with its figures before trim."""
        self.ended.append(
            {
                "rid": outer_rid(req.rid),
                "session": self.meta(req).session,
                "reason": reason,
                "C": kv.C,
                "A": kv.A,
                "E": kv.E,
                "finished": finished,
            }
        )

    def take(self) -> dict[str, Any]:
        """Events, endings and the injection mark of one iteration."""
        taken: dict[str, Any] = {"events": self.events, "ended": self.ended}
        if self.injected:
            taken["injected"] = True
        self.events, self.ended, self.injected = [], [], False
        return taken
