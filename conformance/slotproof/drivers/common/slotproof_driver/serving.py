"""The frame around a driver: JSON lines on standard input and output, one answer to each."""

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
"""Commands that a build is tried with before the driver says hello."""


class Driver:
    """Answers the protocol's requests; an engine's driver says what each of them does."""

    name = ""
    """The engine's."""

    def __init__(self, asked: Sequence[str]) -> None:
        """``asked``: names of patches, or `patches.ALL`."""
        self.version = ""
        self.asked = asked
        self.patched: list[str] = []
        """Patches that are in place."""

    @classmethod
    def patches(cls) -> Path:
        """The folder of the engine's patches."""
        return Path(__file__).parents[2] / cls.name / "patches"

    @classmethod
    def parser(cls) -> argparse.ArgumentParser:
        """The arguments that every driver takes."""
        parser = argparse.ArgumentParser(prog=f"drivers/{cls.name}")
        there = ", ".join(patches.names(cls.patches()))
        words = f"repair a known bug: {there}, or {patches.ALL} that fit"
        parser.add_argument("--patch", action="append", default=[], metavar="NAME", help=words)
        return parser

    # What an engine's driver does -------------------------------------------------------

    def load(self) -> str:
        """Import the engine; its version."""
        raise NotImplementedError

    def capabilities(self) -> dict[str, Any]:
        """What the build can do, by the protocol."""
        raise NotImplementedError

    def reset(self, config: dict[str, Any]) -> None:
        """A fresh engine of this configuration; `UsageError` for what can't be had."""
        raise NotImplementedError

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """The answer to a command."""
        raise NotImplementedError

    def recompute(self, tokens: list[int], count: int) -> dict[str, Any]:
        """The answer with the tokens that follow without a cache."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of what was started."""

    # What all do -------------------------------------------------------------------------

    def start(self) -> None:
        """Patch and import the engine, once; `UsageError`, one line, where that fails."""
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
            self.reset(request.get("config") or {})
            return result({})
        if op == "do":
            command = request.get("command")
            if not isinstance(command, dict):
                raise UsageError("do: there is no command")
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
        """Who this is and what it can do."""
        return {
            "protocol": PROTOCOL,
            "engine": {"name": self.name, "version": self.version},
            "capabilities": {**self.capabilities(), "patches": self.patched},
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
                answer = {"ok": False, "kind": "usage", "error": one_line(error)}
            if isinstance(request, dict) and "id" in request:
                answer = {**answer, "id": request["id"]}
            out.write(json.dumps(answer, separators=(",", ":")) + "\n")
            out.flush()
            if isinstance(request, dict) and request.get("op") == "bye":
                return

    def run(self) -> None:
        """Keep standard output for answers: whatever the engine prints goes to standard error."""
        wire = os.dup(1)
        os.dup2(2, 1)
        os.set_inheritable(wire, False)
        with os.fdopen(wire, "w", encoding="utf-8") as out:
            try:
                self.serve(sys.stdin, out)
            finally:
                self.end()
        sys.stderr.flush()
        os._exit(0)  # torch takes its time to leave; a driver is gone within a second


def result(value: Any) -> dict[str, Any]:
    """A good answer."""
    return {"ok": True, "result": value}
