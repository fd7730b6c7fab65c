"""What no object of the engine remembers: who a request is, events, endings, evicted tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .dialects.base import META
from .messages import outer_rid

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
    match: Event | None = None
    ahead: int = 0
    """Speculative rounds of it that are under way, with overlap scheduling."""

    @property
    def event_session(self) -> str | None:
        """The session that events of the request name: none once it goes on alone."""
        return self.session if self.kind == "turn" else None


class Tracker:
    """Filled by the wrapped methods during an iteration, emptied by its snapshot."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.ended: list[dict[str, str]] = []
        self.injected = False
        #: Options of the server that were at work.
        self.options: list[str] = []
        #: Tokens that the tree gave up since the start.
        self.evicted = 0
        #: New tokens by (inner) request ID.
        self.new_tokens: dict[str, int] = {}

    def emit(self, transition: str, session: str | None, rid: str | None, **params: int) -> Event:
        """Append an event; its parameters may be completed later."""
        event: Event = [transition, session, None if rid is None else outer_rid(rid), params]
        self.events.append(event)
        if transition == "T-EVICT":
            self.evicted += params["n"]
        return event

    def of(self, req: Any, transition: str, **params: int) -> Event:
        """An event of a request."""
        return self.emit(transition, self.meta(req).event_session, req.rid, **params)

    def meta(self, req: Any) -> Meta:
        """What is known of a request; one never seen before is taken for a plain one."""
        meta = getattr(req, META, None)
        if not isinstance(meta, Meta):
            meta = Meta("plain", None)
            setattr(req, META, meta)
        return meta

    def known(self, req: Any) -> bool:
        """Whether it was queued before."""
        return hasattr(req, META)

    def enrol(self, req: Any, meta: Meta) -> None:
        """A request was queued."""
        setattr(req, META, meta)
        self.new_tokens[req.rid] = meta.new

    def end(self, req: Any) -> None:
        """A request ended."""
        self.ended.append({"rid": outer_rid(req.rid)})

    def take(self) -> dict[str, Any]:
        """Events, endings, options at work and the injection mark of one iteration."""
        taken: dict[str, Any] = {"events": self.events, "ended": self.ended}
        if self.injected:
            taken["injected"] = True
        if self.options:
            taken["options"] = self.options
        self.events, self.ended, self.injected, self.options = [], [], False, []
        return taken
