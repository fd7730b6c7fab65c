"""What clients said and heard, as far as a log's reader has to know it.

Keeps of each open session and each unanswered request what the next line about it needs, and so
what a file of the log must begin with for a reader who has none of the files before.
"""

from __future__ import annotations

from typing import Any

from .tokens import Keyed, Open, Running


class Clients:
    """Turns commands and messages into what is written of them."""

    def __init__(self, empty: Keyed | Open) -> None:
        self.empty: Running = empty
        self.whole = isinstance(empty, Open)
        self.sessions: dict[str, Running] = {}
        #: Not answered yet: session, its tokens with the request's at their end, how many are the
        #: request's, the limit.
        self.requests: dict[str, tuple[str | None, Running, int, int]] = {}
        self.paused = False
        #: Sessions that keep no slot, and of whose opening nothing was said yet.
        self.slotless: set[str] = set()

    def says(self, command: dict[str, Any]) -> dict[str, Any]:
        """A command, as it is written."""
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
        """An answer, as it is written."""
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
        """For the beginning of a file."""
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
