"""Recordings without a server: logs of the reference engine, written by parts of the recorder."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from slotproof.drivers.sglang.slotproof_sglang.recording.clients import Clients
from slotproof.drivers.sglang.slotproof_sglang.recording.lines import Files
from slotproof.drivers.sglang.slotproof_sglang.recording.tokens import Keyed, Open
from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS

Line = dict[str, Any]
STATE = ("pools", "tree", "rows", "sessions", "slots", "requests", "checker")


def files_of(path: Path) -> list[Path]:
    """Return the files of a recording, in order."""
    return sorted(path.parent.glob(f"{path.name}.*"))


def lines_of(file: Path) -> list[Line]:
    """Return the lines of a log."""
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def write(file: Path, lines: list[Line]) -> None:
    """Write lines as a log."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Put bytes on standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


class Recording:
    """Recording of consecutive turns in several sessions.

    ``every``: number of iterations per full state. ``key``: hashes replace the tokens.
    """

    def __init__(
        self, path: Path, most: int, files: int, every: int = 1, key: str | None = "k" * 16
    ) -> None:
        self.files = Files(str(path), most, files)
        empty = Open() if key is None else Keyed.under(key)
        self.clients, self.shadow = Clients(empty), Clients(Open())
        self.hashes: dict[int, int] = {}
        """Recorder's hash, by the reference engine's own hash."""
        self.every, self.iteration, self.number = every, 0, 0
        self.engine = InProcessEngine()
        self.engine.reset(CONFIGS["p4"], 0)
        self.files.begin(self.header())

    def header(self) -> Line:
        return {
            "slotproof-log": 3,
            "engine": {"name": self.engine.name, "version": self.engine.version},
            "profile": self.engine.capabilities.profile,
            "config": CONFIGS["p4"].to_json(),
            "not_observed": {},
        }

    def turns(self, count: int) -> None:
        """Run ``count`` more turns. Every fourth ends its session."""
        for _ in range(count):
            sid, last = f"s{self.number // 4}", self.number % 4
            commands: list[Line] = [] if last else [{"do": "open", "session": sid}]
            submit = {"do": "submit", "session": sid, "rid": f"r{self.number}", "max_new": 3}
            tokens = [1 + (self.number + place) % 50 for place in range(5)]
            commands.append({**submit, "tokens": tokens, "stop": []})
            self.step(*commands)
            for _ in range(4):
                self.step()
            if last == 3:
                self.step({"do": "close", "session": sid})
            self.number += 1

    def step(self, *commands: Line) -> None:
        """Run one iteration."""
        for command in commands:
            self.engine.do(command)
        (snapshot,) = self.engine.do({"do": "step", "n": 1})
        shown: Line = {**snapshot}
        shown.pop("content", None)
        lines = [{"command": self.says(command)} for command in commands]
        shown["messages"] = [self.hears(dict(message)) for message in shown["messages"]]
        for sid in [sid for sid, session in shown["sessions"].items() if not session["open"]]:
            del shown["sessions"][sid]  # A server drops closed sessions.
            for clients in (self.clients, self.shadow):
                clients.sessions.pop(sid, None)
        for session in shown["sessions"].values():
            session["hash"] = self.hashes.get(session["hash"]) if session["history"] else None
        for request in shown["requests"].values():
            request["hash"] = self.hashes.get(request["hash"])
        state = {name: shown[name] for name in STATE}
        self.iteration = shown["iter"]
        if self.iteration % self.every:
            for name in STATE:
                del shown[name]
        self.files.write(*lines, {"snapshot": shown})
        if self.files.full:
            began = {
                "file": self.files.number + 1,
                "lines": self.files.lines,
                "iter": self.iteration,
                "clients": self.clients.known(),
            }
            del state["checker"]
            line = {"snapshot": {"iter": self.iteration, **state}}
            self.files.begin({**self.header(), "continues": began}, line)

    def says(self, command: Line) -> Line:
        self.shadow.says(command)
        said = self.clients.says(command)
        self._learn()
        return said

    def hears(self, message: Line) -> Line:
        self.shadow.hears(message)
        heard = self.clients.hears(message)
        self._learn()
        return heard

    def _learn(self) -> None:
        """Map the reference engine's hashes to the recorder's."""
        for recorded, theirs in (
            (self.clients.sessions, self.shadow.sessions),
            (
                {k: v[1] for k, v in self.clients.requests.items()},
                {k: v[1] for k, v in self.shadow.requests.items()},
            ),
        ):
            for name, tokens in recorded.items():
                self.hashes[theirs[name].hash] = tokens.hash
