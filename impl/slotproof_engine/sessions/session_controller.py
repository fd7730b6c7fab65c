"""SessionController: opens and closes sessions, and reaps idle sessions after a timeout."""

from __future__ import annotations

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.base.events import Outbox
from slotproof_engine.requests.req import Session
from slotproof_engine.sessions.session_cache import SessionCache


class SessionController:
    """Sessions by ID. A closed session leaves an empty entry until its ID is opened again."""

    def __init__(
        self, config: EngineConfig, session: type[Session], cache: SessionCache, outbox: Outbox
    ) -> None:
        self.timeout = config.timeout
        self.cache = cache
        self.outbox = outbox
        self.sessions: dict[str, Session] = {}
        self.clock = 0.0
        """Time in seconds, advanced by ``tick``."""
        self._new_session = session

    def get(self, sid: str) -> Session | None:
        """Return the open session with the ID, if any."""
        session = self.sessions.get(sid)
        return session if session is not None and session.open else None

    def open(self, sid: str) -> None:
        if self.get(sid) is not None:
            self.outbox.tell_session("refused", sid, "the session is open already")
            return
        self.sessions[sid] = self._new_session(sid, last_active=self.clock)
        self.outbox.emit("T-OPEN", sid, None)
        self.outbox.tell_session("opened", sid, "")

    def touch(self, session: Session) -> None:
        """Reset the idle time of a session. A refused turn also counts as activity."""
        session.last_active = self.clock

    def close(self, sid: str) -> None:
        """Close a session now, or after the turn in flight and all waiting turns (#21875).

        An immediate close changes the cache: the slot is released.
        """
        session = self.get(sid)
        if session is None:
            self.outbox.tell_session("refused", sid, "no such session is open")
        elif session.closing or session.close_waits:
            self.outbox.tell_session("refused", sid, "the session is closing already")
        elif session.queue:
            session.close_waits = True
        elif session.inflight is not None:
            session.closing = True
            self.outbox.emit("T-CLOSE-DEFER", sid, None)
        else:
            self._close(session, "T-CLOSE", "")

    def reap_closing(self) -> None:
        """Close each session whose close was deferred and whose turn has ended."""
        for session in self.sessions.values():
            if session.closing and session.inflight is None:
                self._close(session, "T-REAP", "")

    def tick(self, seconds: float) -> None:
        """Advance the clock, and close sessions that are idle for too long. A turn in flight counts
        as activity."""
        self.clock += seconds
        for session in self.sessions.values():
            if session.inflight is not None:
                session.last_active = self.clock
            elif session.open and 0 < self.timeout <= self.clock - session.last_active:
                self._close(session, "T-REAP", "the session timed out")

    def _close(self, session: Session, transition: str, message: str) -> None:
        """Close a session. Changes the cache: slot, row and lock are released."""
        sid = session.session_id
        unlocked = self.cache.release_session(sid)
        session.open = session.closing = False
        session.history = []
        self.outbox.emit(transition, sid, None, **self.cache.inner.both("u", unlocked))
        self.outbox.tell_session("closed", sid, message)
