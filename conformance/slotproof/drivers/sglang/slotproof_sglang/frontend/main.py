"""The front end's messages: JSON lines on standard input and output, one answer to each."""

from __future__ import annotations

import importlib
from typing import Any

from slotproof_driver import serving
from slotproof_driver.usage import UsageError, one_line

LIMIT = 60.0
"""Seconds that a client waits for an answer unless told otherwise."""


class FrontEnd(serving.Driver):
    """Starts the build's `Engine` and lets clients play on it."""

    name = "sglang"

    def __init__(self) -> None:
        super().__init__()
        self.server: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, without its id."""
        op, limit = request.get("op"), float(request.get("limit", LIMIT))
        answer: dict[str, Any] = {}
        if op == "start":
            answer = self.begin(request)
        elif op in ("play", "alone") and self.server is None:
            raise UsageError("nothing was started")
        elif op == "play":
            answer["noted"] = self.server.clients.play(request["scripts"], limit)
        elif op == "alone":
            answer["noted"] = self.server.clients.alone(request["requests"], limit)
        elif op != "bye":
            raise UsageError(f"unknown op {op!r}")
        return {"ok": True, "result": answer}

    def begin(self, request: dict[str, Any]) -> dict[str, Any]:
        """Start the `Engine`; `UsageError`, one line, where that fails."""
        if self.server is not None:
            raise UsageError("it was started before")
        try:
            module = importlib.import_module("slotproof_sglang.frontend.server")
            self.server = module.Server(request["config"], list(request.get("mends", ())))
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"its front end does not start: {one_line(error)}") from error
        return {"version": self.server.version}

    def end(self) -> None:
        """Let go of what was started."""
        if self.server is not None:
            self.server.end()


def main() -> None:
    """Serve until the end of input."""
    FrontEnd().run()
