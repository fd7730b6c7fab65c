"""TurnQueue: turns that found one in flight wait for it, and a close waits behind them.

Nothing of the KV or of the session changes while a command waits here: it is carried out, as if it
had come then, once it is next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from slotproof_engine.requests.req import Session
from slotproof_engine.sessions.session_controller import SessionController

Command: TypeAlias = dict[str, Any]


class TurnQueue:
    """The queues of all sessions. One is empty unless a turn of its session is in flight."""

    def __init__(
        self,
        controller: SessionController,
        submit: Callable[[Command], None],
        answer: Callable[[str, str], None],
    ) -> None:
        """``submit`` makes a turn in flight, or answers it; ``answer`` refuses a request."""
        self.controller = controller
        self.submit = submit
        self.answer = answer

    def takes(self, session: Session) -> bool:
        """Whether a turn too many may wait: not behind a close."""
        return not (session.closing or session.close_waits)

    def put(self, session: Session, command: Command) -> None:
        """Keep a turn until those before it have ended."""
        session.queue.append(command)

    def abort(self, rid: str) -> None:
        """A turn that waits here holds nothing: it is answered, and is no more."""
        for session in self.controller.sessions.values():
            for command in [each for each in session.queue if each["rid"] == rid]:
                session.queue.remove(command)
                self.answer(rid, "aborted by the client")

    def abort_all(self) -> None:
        sessions = self.controller.sessions.values()
        for rid in [command["rid"] for session in sessions for command in session.queue]:
            self.abort(rid)

    def take(self) -> None:
        """Carry out what is next, in every session that has no turn in flight any more."""
        for session in tuple(self.controller.sessions.values()):
            while session.queue and session.inflight is None:
                self.submit(self.next(session))
            if session.close_waits and not session.queue:
                session.close_waits = False
                self.controller.close(session.session_id)

    def next(self, session: Session) -> Command:
        """Take out the turn that came first."""
        return session.queue.pop(0)
