"""Clients of the engine: sessions with their waiting turns, and plain requests.

To vLLM, a session is one request, and a turn is an addition to that request. The clients' view is
in vLLM's front end (`AsyncLLM`, `OutputProcessor`), outside the scheduler. This module replaces the
front end. From this module, snapshots take only IDs and the turn in flight.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class ClientRequest:
    """Request of a client: a turn of a session, or a plain request (``session`` is None)."""

    rid: str
    session: str | None
    tokens: list[int]
    max_new: int
    arrival: float = 0.0
    """Arrival time. The time identifies a session's turn inside the engine's request."""
    output: list[int] = field(default_factory=list)
    """Tokens sent to the client so far."""


@dataclass
class Session:
    """An open session. ``key``: ID of the session's request in the engine."""

    sid: str
    key: str
    turn: ClientRequest | None = None
    """Turn in flight."""
    queue: deque[ClientRequest] = field(default_factory=deque)
    """Turns that wait until the turn in flight ends."""
    closed: bool = False
    """True if a client closed the session during a turn. The queued turns run before the close."""
    slot: bool = False
    """True if the session holds the KV of a finished turn."""

    @property
    def closing(self) -> bool:
        """True if the session's next step is its close."""
        return self.closed and not self.queue

    def taken(self, arrival: float | None) -> ClientRequest:
        """Move the turn that the engine has started from the queue to ``turn``, and return it."""
        arrivals = [turn.arrival for turn in self.queue]
        place = arrivals.index(arrival) if arrival in arrivals else 0
        self.turn = self.queue[place]
        del self.queue[place]
        return self.turn

    def turns(self) -> list[ClientRequest]:
        """Return the turns that are not answered yet."""
        return [*([self.turn] if self.turn else []), *self.queue]


class Clients:
    """All sessions and plain requests."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.plain: dict[str, ClientRequest] = {}
        self.keys: dict[str, Session | ClientRequest] = {}
        """Table from an ID in the engine to a session or a plain request."""
        self.opened = 0

    def open(self, sid: str) -> Session:
        """Add a session under a fresh ID for the engine, because clients reuse session IDs."""
        self.opened += 1
        session = Session(sid, f"{sid}#{self.opened}")
        self.sessions[sid] = self.keys[session.key] = session
        return session

    def add(self, turn: ClientRequest) -> str:
        """Add a plain request and return its ID in the engine."""
        self.plain[turn.rid] = self.keys[turn.rid] = turn
        return turn.rid

    def end(self, key: str) -> None:
        """Remove a closed session or an answered plain request."""
        of = self.keys.pop(key)
        if isinstance(of, Session):
            del self.sessions[of.sid]
        else:
            del self.plain[of.rid]

    def of(self, key: str) -> tuple[str | None, str, Session | None]:
        """Return the session ID, request ID and session that an engine's ID refers to now."""
        of = self.keys[key]
        if isinstance(of, ClientRequest):
            return None, of.rid, None
        assert of.turn is not None
        return of.sid, of.turn.rid, of

    def find(self, rid: str) -> Session | ClientRequest | None:
        """Return the session or the plain request that an abort of ``rid`` would end."""
        if rid in self.plain:
            return self.plain[rid]
        turns = ((owner, turn.rid) for owner in self.sessions.values() for turn in owner.turns())
        return next((session for session, name in turns if name == rid), None)
