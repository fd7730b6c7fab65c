"""Who clients are to the engine: sessions with the turns that wait, and plain requests.

vLLM knows a session as one request, and a turn as an addition to it. What of that a client sees is
kept by its front end (`AsyncLLM`, `OutputProcessor`), which is not part of the scheduler; this
takes its place. Nothing here is shown as the engine's state but ids, and which turn is in flight.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class ClientRequest:
    """A request of a client: a turn of a session, or plain (``session`` is None)."""

    rid: str
    session: str | None
    tokens: list[int]
    max_new: int
    arrival: float = 0.0
    """By which the engine's own request tells the turns of a session apart."""
    output: list[int] = field(default_factory=list)
    """What its client was told."""


@dataclass
class Session:
    """A session as it was opened. ``key`` is the id of its request in the engine."""

    sid: str
    key: str
    turn: ClientRequest | None = None
    """The one in flight."""
    queue: deque[ClientRequest] = field(default_factory=deque)
    """Those that the engine takes when it is over."""
    closed: bool = False
    """A client closed it while a turn was in flight: the close waits behind those turns."""
    slot: bool = False
    """A turn has left its KV to it."""

    @property
    def closing(self) -> bool:
        """The close is what comes next."""
        return self.closed and not self.queue

    def taken(self, arrival: float | None) -> ClientRequest:
        """Of those that wait, the one that the engine has taken; it is in flight now."""
        arrivals = [each.arrival for each in self.queue]
        place = arrivals.index(arrival) if arrival in arrivals else 0
        self.turn = self.queue[place]
        del self.queue[place]
        return self.turn

    def turns(self) -> list[ClientRequest]:
        """Those that are not answered."""
        return [*([self.turn] if self.turn else []), *self.queue]


class Clients:
    """All of them."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.plain: dict[str, ClientRequest] = {}
        self.keys: dict[str, Session | ClientRequest] = {}
        """By id in the engine."""
        self.opened = 0

    def open(self, sid: str) -> Session:
        """A new session; ids come again, so the engine gets another."""
        self.opened += 1
        session = Session(sid, f"{sid}#{self.opened}")
        self.sessions[sid] = self.keys[session.key] = session
        return session

    def add(self, turn: ClientRequest) -> str:
        """A new plain request; its id in the engine."""
        self.plain[turn.rid] = self.keys[turn.rid] = turn
        return turn.rid

    def end(self, key: str) -> None:
        """A session is closed, or a plain request answered."""
        of = self.keys.pop(key)
        if isinstance(of, Session):
            del self.sessions[of.sid]
        else:
            del self.plain[of.rid]

    def of(self, key: str) -> tuple[str | None, str, Session | None]:
        """Session and request that an engine's id is about now, and what is kept of it."""
        of = self.keys[key]
        if isinstance(of, ClientRequest):
            return None, of.rid, None
        assert of.turn is not None
        return of.sid, of.turn.rid, of

    def find(self, rid: str) -> Session | ClientRequest | None:
        """What an abort of that request ends."""
        if rid in self.plain:
            return self.plain[rid]
        turns = ((each, turn.rid) for each in self.sessions.values() for turn in each.turns())
        return next((session for session, name in turns if name == rid), None)
