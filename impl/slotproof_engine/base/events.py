"""What an iteration leaves to be read: transitions made, messages to clients, requests ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Event: TypeAlias = tuple[str, str | None, str | None, dict[str, int]]
"""(transition, session, request, parameters), as the protocol document lists them."""
Message: TypeAlias = dict[str, Any]


@dataclass
class Outbox:
    """Filled during one iteration, emptied before the next one.

    Every transition is emitted at one place, next to the code that performs it.
    """

    events: list[Event] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    ended: list[dict[str, Any]] = field(default_factory=list)
    """Requests that ended, with their figures before trim."""

    def emit(self, transition: str, sid: str | None, rid: str | None, **params: int) -> None:
        self.events.append((transition, sid, rid, params))

    def tell_session(self, type: str, sid: str, message: str) -> None:
        """``type``: opened, refused or closed."""
        self.messages.append({"type": type, "session": sid, "message": message})

    def tell_finish(self, rid: str, reason: str, tokens: list[int], message: str) -> None:
        """The one final answer of a request. ``reason``: length, stop or abort."""
        self.messages.append(
            {"type": "finish", "rid": rid, "reason": reason, "tokens": tokens, "message": message}
        )

    def clear(self) -> None:
        """New lists, so that those taken before stay as they were."""
        self.events, self.messages, self.ended = [], [], []
