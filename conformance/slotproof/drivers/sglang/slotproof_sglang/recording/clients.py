"""Commands and messages of clients, reduced to what a reader of the log needs.

The recorder stores the facts about open sessions and unanswered requests that later lines need.
Each new file of the log begins with these facts, so that it can be read without the earlier files.
"""

from __future__ import annotations

from typing import Any

from .tokens import Keyed, Open, Running


class Clients:
    """Converter from commands and messages to lines of the log."""

    def __init__(self, empty: Keyed | Open) -> None:
        self.empty: Running = empty
        self.whole = isinstance(empty, Open)
        self.sessions: dict[str, Running] = {}
        #: Unanswered requests: session, the session's tokens including the request's, number of
        #: tokens in the request, max_new.
        self.requests: dict[str, tuple[str | None, Running, int, int]] = {}
        self.paused = False
        #: Sessions without a slot, for which the engine has not yet answered the open.
        self.slotless: set[str] = set()

    def says(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return a command in the form written to the log."""
        word = command["do"]
        if word in ("pause", "continue"):
            self.paused = word == "pause"
        if word != "submit":
            return command
        sid, tokens = command["session"], command["tokens"]
        asked = self.sessions.get(sid, self.empty).more(tokens) if sid else self.empty.more(())
        self.requests.setdefault(command["rid"], (sid, asked, len(tokens), command["max_new"]))
        if self.whole:
            return {**command, "tokens": [int(token) for token in tokens]}
        hidden = {"count": len(tokens), "hash": asked.hash if sid else None}
        return {**command, "tokens": hidden, "stop": []}

    def hears(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return an answer in the form written to the log."""
        if message["type"] == "opened":
            self.sessions[message["session"]] = self.empty
        if message["type"] != "finish":
            return message
        sid, asked, *_ = self.requests.pop(message["rid"], (None, self.empty, 0, 0))
        said = None
        if sid in self.sessions and message["reason"] != "abort":
            said = self.sessions[sid] = asked.more(message["tokens"])
        if self.whole:
            return message
        hidden = {"count": len(message["tokens"]), "hash": said.hash if said else None}
        return {**message, "tokens": hidden}

    def known(self) -> dict[str, Any]:
        """Return the state of the clients. Each file of the log begins with this state."""
        return {
            "sessions": {
                sid: {"count": tokens.count, "hash": tokens.hash}
                for sid, tokens in self.sessions.items()
            },
            "requests": {
                rid: {
                    "session": sid,
                    "tokens": {"count": new, "hash": tokens.hash},
                    "max_new": most,
                }
                for rid, (sid, tokens, new, most) in self.requests.items()
            },
            "paused": self.paused,
        }
