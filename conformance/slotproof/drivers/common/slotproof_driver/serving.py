"""Message loop of a driver. Each line of JSON on standard input gets one line as its answer."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import patches
from .usage import UsageError, one_line

PROTOCOL = 2
TURN = {"do": "submit", "session": "s", "max_new": 2, "stop": []}
REHEARSAL: list[dict[str, Any]] = [
    {"do": "open", "session": "s"},
    {**TURN, "rid": "r1", "tokens": [1, 2, 3]},
    {"do": "step", "n": 4},
    {**TURN, "rid": "r2", "tokens": [4, 5]},
    {"do": "step", "n": 4},
    {"do": "close", "session": "s"},
    {"do": "step", "n": 1},
]
"""Commands that a driver tries on a build before it answers the request `hello`."""


class Driver:
    """Base class of an engine's driver. It reads the protocol's requests and answers them."""

    name = ""
    """Name of the engine."""

    def __init__(self, asked: Sequence[str]) -> None:
        """``asked``: names of the requested patches, or `patches.ALL`."""
        self.version = ""
        self.asked = asked
        self.patched: list[str] = []
        """Names of the applied patches."""

    @classmethod
    def patches(cls) -> Path:
        """Return the folder of the engine's patches."""
        return Path(__file__).parents[2] / cls.name / "patches"

    @classmethod
    def parser(cls) -> argparse.ArgumentParser:
        """Return a parser for the arguments that all drivers have."""
        parser = argparse.ArgumentParser(prog=f"drivers/{cls.name}")
        available = ", ".join(patches.names(cls.patches()))
        words = f"patch for a known bug: {available}, or {patches.ALL} for every patch that fits"
        parser.add_argument("--patch", action="append", default=[], metavar="NAME", help=words)
        return parser

    # Methods of an engine's driver ------------------------------------------------------

    def load(self) -> str:
        """Import the engine and return its version."""
        raise NotImplementedError

    def capabilities(self) -> dict[str, Any]:
        """Return the build's capabilities, in the format of the protocol."""
        raise NotImplementedError

    def reset(self, config: dict[str, Any]) -> None:
        """Build a fresh engine. Raise `UsageError` for an impossible configuration."""
        raise NotImplementedError

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command and return its answer."""
        raise NotImplementedError

    def recompute(self, tokens: list[int], count: int) -> dict[str, Any]:
        """Return an answer with the ``count`` tokens after ``tokens``, computed without a cache."""
        raise NotImplementedError

    def end(self) -> None:
        """Kill the driver's processes and release its resources."""

    # Methods common to all drivers -------------------------------------------------------

    def start(self) -> None:
        """Patch and import the engine once. If a step fails, raise `UsageError` in one line."""
        if self.version:
            return
        try:
            self.patched = patches.apply(self.asked, self.patches(), self.name)
            self.version = self.load()
        except UsageError:
            raise
        except Exception as error:
            text = f"{self.name} can't be imported: {type(error).__name__}: {error}"
            raise UsageError(text) from error

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request, without its id."""
        op = request.get("op")
        if op == "hello":
            if request.get("protocol") != PROTOCOL:
                raise UsageError(
                    f"protocol {request.get('protocol')!r} is unknown, expected {PROTOCOL}"
                )
            self.start()
            return result(self.hello())
        if op == "reset":
            self.start()
            self.reset(request.get("config") or {})
            return result({})
        if op == "do":
            command = request.get("command")
            if not isinstance(command, dict):
                raise UsageError("do: the command is missing")
            return self.do(command)
        if op == "recompute":
            tokens, count = request.get("tokens"), request.get("count")
            if not isinstance(tokens, list) or not isinstance(count, int) or count < 1:
                raise UsageError("recompute: takes tokens and a count of at least 1")
            return self.recompute(tokens, count)
        if op == "bye":
            return result({})
        raise UsageError(f"unknown op {op!r}")

    def hello(self) -> dict[str, Any]:
        """Return the engine's name, version and capabilities."""
        return {
            "protocol": PROTOCOL,
            "engine": {"name": self.name, "version": self.version},
            "capabilities": {**self.capabilities(), "patches": self.patched},
        }

    def serve(self, lines: Any, out: Any) -> None:
        """Answer each line until `bye` or the end of input."""
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
                answer = {"ok": False, "kind": "usage", "error": one_line(error)}
            if isinstance(request, dict) and "id" in request:
                answer = {**answer, "id": request["id"]}
            out.write(json.dumps(answer, separators=(",", ":")) + "\n")
            out.flush()
            if isinstance(request, dict) and request.get("op") == "bye":
                return

    def run(self) -> None:
        """Serve requests. The engine prints to standard error, the driver to standard output."""
        wire = os.dup(1)
        os.dup2(2, 1)
        os.set_inheritable(wire, False)
        with os.fdopen(wire, "w", encoding="utf-8") as out:
            try:
                self.serve(sys.stdin, out)
            finally:
                self.end()
        sys.stderr.flush()
        os._exit(0)  # Torch exits slowly, and a driver must exit within a second.


def result(value: Any) -> dict[str, Any]:
    """Return the answer to a request that succeeded."""
    return {"ok": True, "result": value}
