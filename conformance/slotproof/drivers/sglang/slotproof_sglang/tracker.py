"""Facts that no engine object records: events, endings, evicted tokens, origins of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .dialects.base import META
from .messages import outer_rid

Event = list[Any]
"""Event, as in the protocol: [transition, session, request, parameters]."""


@dataclass
class Meta:
    """Record of a request. ``kind`` changes when the request leaves its session."""

    kind: str
    session: str | None
    new: int = 0
    prompt: int = 0
    doomed: bool = False
    match: Event | None = None
    ahead: int = 0
    """Number of speculative rounds of the request in flight, with overlap scheduling."""

    @property
    def event_session(self) -> str | None:
        """Session that the request's events name. None after the request left its session."""
        return self.session if self.kind == "turn" else None


class Tracker:
    """Records filled by the wrapped methods in an iteration. A snapshot empties them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended: list[dict[str, str]] = []
        self.injected = False
        #: Server options that had an effect in this iteration.
        self.options: list[str] = []
        #: Number of tokens evicted from the tree since the start.
        self.evicted = 0
        #: Number of new tokens of each request, by its ID inside the engine.
        self.new_tokens: dict[str, int] = {}

    def emit(self, transition: str, session: str | None, rid: str | None, **params: int) -> Event:
        """Append an event and return it. Its parameters may be completed later."""
        event: Event = [transition, session, None if rid is None else outer_rid(rid), params]
        self.events.append(event)
        if transition == "T-EVICT":
            self.evicted += params["n"]
        return event

    def of(self, req: Any, transition: str, **params: int) -> Event:
        """Append an event of a request and return it."""
        return self.emit(transition, self.meta(req).event_session, req.rid, **params)

    def meta(self, req: Any) -> Meta:
        """Return the record of a request. A request without a record counts as plain."""
        meta = getattr(req, META, None)
        if not isinstance(meta, Meta):
            meta = Meta("plain", None)
            setattr(req, META, meta)
        return meta

    def enrol(self, req: Any, meta: Meta) -> None:
        """Record a queued request."""
        setattr(req, META, meta)
        self.new_tokens[req.rid] = meta.new

    def end(self, req: Any) -> None:
        """Record the end of a request."""
        self.ended.append({"rid": outer_rid(req.rid)})

    def take(self) -> dict[str, Any]:
        """Return the iteration's events, endings, effective options and injection flag."""
        taken: dict[str, Any] = {"events": self.events, "ended": self.ended}
        if self.injected:
            taken["injected"] = True
        if self.options:
            taken["options"] = self.options
        self.events, self.ended, self.injected, self.options = [], [], False, []
        return taken
