"""What the clients know: what they sent, what they were told, what must follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.snapshot import Message, Tokens, joined


@dataclass
class Sent:
    """A request as its client sees it."""

    session: str | None
    tokens: Tokens
    max_new: int
    stop: list[int]
    answers: int = 0
    reason: str | None = None
    output: Tokens = field(default_factory=list)
    prompt: Tokens = field(default_factory=list)
    """History and new tokens; known once it was answered."""


class Client:
    """All clients together."""

    def __init__(self) -> None:
        self.requests: dict[str, Sent] = {}
        self.history: dict[str, Tokens] = {}
        """Tokens of the finished turns of each open session."""
        self.unread: list[Command] = []
        """Sent, and not yet read by the engine."""
        self.paused = False
        self.unheard = 0
        """Iterations in which the engine read nothing of what was sent."""
        self.stalled = 0
        """Iterations in which a request waited and nothing changed."""

    def sends(self, command: Command) -> None:
        if command["do"] not in ("step", "tick"):
            self.unread.append(command)
        if command["do"] == "submit" and command["rid"] not in self.requests:
            self.requests[command["rid"]] = Sent(
                command["session"], command["tokens"], command["max_new"], command["stop"]
            )

    def reads(self, count: int) -> None:
        """The engine has read so many commands."""
        for command in self.unread[:count]:
            if command["do"] in ("pause", "continue"):
                self.paused = command["do"] == "pause"
        del self.unread[:count]

    def hears(self, message: Message) -> None:
        """Take an answer in; histories grow by what finished turns said."""
        if message["type"] == "opened":
            self.history[str(message["session"])] = []
        elif message["type"] == "closed":
            self.history.pop(str(message["session"]), None)
        elif message["type"] == "finish":
            sent = self.requests.get(message["rid"])
            if sent is None:
                return
            sent.answers += 1
            sent.reason = message["reason"]
            sent.output = message["tokens"]
            past = self.history.get(sent.session, []) if sent.session else []
            sent.prompt = joined(past, sent.tokens)
            if sent.session in self.history and sent.reason != "abort":
                assert sent.session is not None
                self.history[sent.session] = joined(sent.prompt, sent.output)

    def prompt_of(self, rid: str) -> Tokens | None:
        """The prompt that a live request of this client must have; ``None`` if not known."""
        sent = self.requests.get(rid)
        if sent is None:
            return None
        if sent.session is None:
            return sent.tokens
        past = self.history.get(sent.session)
        return None if past is None else joined(past, sent.tokens)
