"""TurnQueue: turns that wait for the turn in flight, and a close that waits for these turns.

A waiting command changes neither KV nor session. Once a command is next in the queue, it is carried
out as if it had just arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from slotproof_engine.requests.req import Session
from slotproof_engine.sessions.session_controller import SessionController

Command: TypeAlias = dict[str, Any]


class TurnQueue:
    """Queues of all sessions. A queue is empty unless a turn of its session is in flight."""

    def __init__(
        self,
        controller: SessionController,
        submit: Callable[[Command], None],
        answer: Callable[[str, str], None],
    ) -> None:
        """Set the callbacks. ``submit`` starts or answers a turn, ``answer`` refuses a request."""
        self.controller = controller
        self.submit = submit
        self.answer = answer

    def takes(self, session: Session) -> bool:
        """Return True if another turn may wait. After a requested close, no turn may wait."""
        return not (session.closing or session.close_waits)

    def put(self, session: Session, command: Command) -> None:
        """Store a turn until earlier turns have ended."""
        session.queue.append(command)

    def abort(self, rid: str) -> None:
        """Answer and remove a waiting turn. A waiting turn holds no memory."""
        for session in self.controller.sessions.values():
            for command in [queued for queued in session.queue if queued["rid"] == rid]:
                session.queue.remove(command)
                self.answer(rid, "aborted by the client")

    def abort_all(self) -> None:
        sessions = self.controller.sessions.values()
        for rid in [command["rid"] for session in sessions for command in session.queue]:
            self.abort(rid)

    def take(self) -> None:
        """Carry out the next command of every session that has no turn in flight."""
        for session in tuple(self.controller.sessions.values()):
            while session.queue and session.inflight is None:
                self.submit(self.next(session))
            if session.close_waits and not session.queue:
                session.close_waits = False
                self.controller.close(session.session_id)

    def next(self, session: Session) -> Command:
        """Remove and return the oldest waiting turn."""
        return session.queue.pop(0)
