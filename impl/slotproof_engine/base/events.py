"""Output of an iteration: transitions, messages to clients, ended requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Event: TypeAlias = tuple[str, str | None, str | None, dict[str, int]]
"""An event: (transition, session, request, parameters), as listed in the protocol document."""
Message: TypeAlias = dict[str, Any]


@dataclass
class Outbox:
    """Output of an iteration, cleared before the next iteration.

    Every transition is emitted next to the code that performs it.
    """

    events: list[Event] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)
    """Requests that ended, with their KV lengths before the trim."""

    def emit(self, transition: str, sid: str | None, rid: str | None, **params: int) -> None:
        self.events.append((transition, sid, rid, params))

    def tell_session(self, type: str, sid: str, message: str) -> None:
        """Queue a message about a session. ``type``: opened, refused or closed."""
        self.messages.append({"type": type, "session": sid, "message": message})

    def tell_finish(self, rid: str, reason: str, tokens: list[int], message: str) -> None:
        """Queue the final answer of a request. ``reason``: length, stop or abort."""
        self.messages.append(
            {"type": "finish", "rid": rid, "reason": reason, "tokens": tokens, "message": message}
        )

    def clear(self) -> None:
        """Start new empty lists. Lists that a caller has read before stay unchanged."""
        self.events, self.messages, self.ended = [], [], []
