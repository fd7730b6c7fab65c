"""Messages to clients. The scheduler's output is stored, not sent."""

from __future__ import annotations

import sys
from typing import Any

#: End of each request ID inside the engine. The engine aborts every ID that *begins* with the ID
#: of an abort, so an abort of r1 would abort r10 as well.
END = ";"


def inner_rid(rid: str) -> str:
    """Return the engine's ID of a request."""
    return rid + END


def outer_rid(rid: str) -> str:
    """Return the client's ID of a request, given the engine's ID."""
    return rid.removesuffix(END)


class Mailbox:
    """Collector of messages, in order and in the format of the protocol."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.unknown: set[str] = set()
        #: True if tokens of a running request were sent since the last snapshot.
        self.streamed = False
        self._tokens: dict[str, list[int]] = {}

    def install(self) -> None:
        """Redirect the engine's senders to this mailbox, away from their sockets."""

        def send_output(_: Any, output: Any, recv_obj: Any = None) -> None:
            self.deliver(output)

        for module in list(sys.modules.values()):
            sender = getattr(module, "SenderWrapper", None)
            if isinstance(sender, type) and hasattr(sender, "send_output"):
                sender.send_output = send_output

    def deliver(self, output: Any) -> None:
        """Translate one message of the engine."""
        kind = type(output).__name__
        if kind == "OpenSessionReqOutput":
            word = "opened" if output.success else "refused"
            self._add({"type": word, "session": output.session_id, "message": ""})
        elif kind == "AbortReq":
            reason = output.finished_reason or {}
            self._finish(output.rid, "abort", str(reason.get("message") or ""))
        elif kind.startswith("BatchTokenIDOut"):
            self._batch(output)
        elif kind != "FlushCacheReqOutput":
            self.unknown.add(kind)

    def take(self) -> list[dict[str, Any]]:
        """Return the messages since the last call."""
        taken, self.messages = self.messages, []
        return taken

    def _batch(self, output: Any) -> None:
        for index, rid in enumerate(output.rids):
            if output.output_ids is not None:
                tokens = [int(token) for token in output.output_ids[index]]
                self._tokens.setdefault(rid, []).extend(tokens)
            reason = output.finished_reasons[index]
            self.streamed |= reason is None
            if reason is not None:
                word = reason.get("type", "?")
                self._finish(rid, word, str(reason.get("message") or ""))

    def _finish(self, rid: str, reason: str, message: str) -> None:
        tokens, ended = self._tokens.pop(rid, []), {"type": "finish", "rid": outer_rid(rid)}
        self._add({**ended, "reason": reason, "tokens": tokens, "message": message})

    def _add(self, message: dict[str, Any]) -> None:
        self.messages.append(message)
