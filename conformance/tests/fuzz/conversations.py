"""Recorded answers of a driver, read from a file as if from its pipe."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from slotproof.engines.reference import InProcessEngine
from slotproof.engines.served import Served
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import PROTOCOL
from slotproof.reports.trace import Trace
from slotproof.traces.itf import to_itf
from slotproof.traces.record import Row
from tests.fuzz.seeds import LIVES, SEED

NOBODY = 1 << 22
"""A process ID beyond Linux's maximum: signals to it reach no process."""


class Overheard:
    """The reference engine, driven by protocol messages. Stores its answers."""

    def __init__(self) -> None:
        self._served = Served(InProcessEngine())
        self.name, self.version = "reference", "1"
        self.capabilities = InProcessEngine().capabilities
        self.answers: list[bytes] = []
        self.ask({"op": "hello", "protocol": PROTOCOL})

    def ask(self, message: dict[str, Any]) -> Any:
        """Send a message and return its result."""
        reply = self._served.reply(json.dumps({**message, "id": len(self.answers) + 1}))
        assert reply["ok"], reply
        self.answers.append(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
        return reply["result"]

    def reset(self, config: EngineConfig, seed: int) -> None:
        self.ask({"op": "reset", "config": config.to_json(), "seed": seed})

    def do(self, command: Command) -> Any:
        return self.ask({"op": "do", "command": command})["snapshots"]

    def recompute(self, tokens: list[int], count: int) -> Any:
        return self.ask({"op": "recompute", "tokens": tokens, "count": count})["tokens"]

    def close(self) -> None:
        self.ask({"op": "bye"})


@cache
def answers(life: str) -> tuple[bytes, ...]:
    """Return all answers of a reference driver in this life, from hello to bye."""
    config, commands = LIVES[life]
    engine = Overheard()
    play(engine, Setup(config, SEED), commands)
    engine.close()
    return tuple(engine.answers)


@cache
def script(life: str) -> str:
    """Return a trace with the commands of a life alone, for `replay` on any driver."""
    config, commands = LIVES[life]
    rows = [Row(command) for command in commands]
    return json.dumps(to_itf(Trace("", "reference", "reference", config, SEED, rows, [], False)))


class StandIn:
    """A stand-in for ``subprocess.Popen``: an ended driver with all its output in a file."""

    file: ClassVar[Path]
    """File with the driver's standard output."""

    def __init__(self, args: Sequence[str], **_: object) -> None:
        self.args, self.pid, self.returncode = args, NOBODY, 0
        self.stdin: BinaryIO = open(os.devnull, "wb", buffering=0)  # noqa: PTH123, SIM115
        self.stdout: BinaryIO = self.file.open("rb", buffering=0)
        self.stderr: BinaryIO = open(os.devnull, "rb", buffering=0)  # noqa: PTH123, SIM115

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status."""
        del timeout
        return self.returncode

    def poll(self) -> int:
        """Return the exit status."""
        return self.returncode

    def kill(self) -> None:
        """Do nothing: the process has ended."""
