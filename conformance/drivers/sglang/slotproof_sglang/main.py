"""The driver's messages: JSON lines on standard input and output.

This process imports the engine once and holds no scheduler. For each shape of
configuration it forks a *template*, which builds a scheduler (SGLang has globals: one per
process); for each example the template forks a *child*, so that every example starts from
the same state and a crash takes only the child. See `processes.py`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from . import boot, processes
from .boot import UsageError

PROTOCOL = 2


class Driver:
    """Answers the protocol's requests, most of them through a child."""

    def __init__(self) -> None:
        self.version = ""
        self.templates = processes.Templates()

    def start(self) -> None:
        """Import the engine, once; `UsageError`, one line, where that fails."""
        if self.version:
            return
        try:
            self.version = boot.import_engine()
        except Exception as error:
            raise UsageError(
                f"sglang can't be imported: {type(error).__name__}: {error}"
            ) from error

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, without its id."""
        op = request.get("op")
        if op == "hello":
            if request.get("protocol") != PROTOCOL:
                raise UsageError(
                    f"protocol {request.get('protocol')!r} is unknown, this is {PROTOCOL}"
                )
            self.start()
            return result(self.hello())
        if op == "reset":
            self.start()
            self.templates.reset(boot.normalise(request.get("config") or {}))
            return result({})
        if op == "do":
            command = request.get("command")
            if not isinstance(command, dict):
                raise UsageError("do: there is no command")
            return self.templates.ask({"command": command})
        if op == "recompute":
            tokens, count = request.get("tokens"), request.get("count")
            if not isinstance(tokens, list) or not isinstance(count, int) or count < 1:
                raise UsageError("recompute: takes tokens and a count of at least 1")
            return self.templates.recompute(tokens, count)
        if op == "bye":
            return result({})
        raise UsageError(f"unknown op {op!r}")

    def hello(self) -> dict[str, Any]:
        """Who this is and what it can do; asks a scheduler, for its layout decides."""
        capabilities = self.templates.probe(boot.normalise({}))
        return {
            "protocol": PROTOCOL,
            "engine": {"name": "sglang", "version": self.version},
            "capabilities": capabilities,
        }

    def serve(self, lines: Any, out: Any) -> None:
        """Answer line by line until `bye` or the end of input."""
        for line in lines:
            if not line.strip():
                continue
            request: dict[str, Any] = {}
            try:
                request = json.loads(line)
                if not isinstance(request, dict):
                    raise UsageError("a request is a JSON object")
                answer = self.answer(request)
            except (UsageError, json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                answer = usage(error)
            if isinstance(request, dict) and "id" in request:
                answer = {**answer, "id": request["id"]}
            out.write(json.dumps(answer, separators=(",", ":")) + "\n")
            out.flush()
            if isinstance(request, dict) and request.get("op") == "bye":
                return


def result(value: Any) -> dict[str, Any]:
    """A good answer."""
    return {"ok": True, "result": value}


def usage(error: Exception) -> dict[str, Any]:
    """The request made no sense, or is not possible here."""
    text = " ".join(str(error).split())
    if not isinstance(error, UsageError):
        text = f"{type(error).__name__}: {text}"
    return {"ok": False, "kind": "usage", "error": text}


def main() -> None:
    """Keep standard output for answers: whatever the engine prints goes to standard error."""
    wire = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(wire, False)
    driver = Driver()
    with os.fdopen(wire, "w", encoding="utf-8") as out:
        try:
            driver.serve(sys.stdin, out)
        finally:
            driver.templates.end()
    sys.stderr.flush()
    os._exit(0)  # torch takes its time to leave; a driver is gone within a second
