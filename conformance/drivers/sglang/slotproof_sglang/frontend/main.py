"""The front end's messages: JSON lines on standard input and output, one answer to each."""

from __future__ import annotations

import importlib
from typing import Any

from slotproof_driver import serving
from slotproof_driver.usage import UsageError, one_line

LIMIT = 60.0
"""Seconds that a client waits for an answer unless told otherwise."""


class FrontEnd(serving.Driver):  # type: ignore[misc]  # found as it is run
    """Starts the build's `Engine` and lets clients play on it."""

    name = "sglang"

    def __init__(self) -> None:
        super().__init__()
        self.server: Any = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, without its id."""
        op, limit = request.get("op"), float(request.get("limit", LIMIT))
        if op == "start":
            return serving.result(self.begin(request))
        if op == "bye":
            return serving.result({})
        if self.server is None:
            raise UsageError("nothing was started")
        if op == "play":
            return serving.result({"noted": self.server.clients.play(request["scripts"], limit)})
        if op == "alone":
            return serving.result({"noted": self.server.clients.alone(request["requests"], limit)})
        raise UsageError(f"unknown op {op!r}")

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
