"""Writer of an event log: the commands to an engine and its answers, line by line."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from slotproof.engines.base import Engine, EngineFailed, built
from slotproof.logs.lines import VERSION
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.support.files import open_stream


class LoggedEngine:
    """Engine wrapper that writes a log of the engine's run.

    A line is written once the engine's answer is complete, so an interrupt loses at most the last
    line. A full disk ends the log but not the run: see ``problem``. Raises :class:`OSError` if the
    file can't be created.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self.name, self.version = engine.name, engine.version
        self.capabilities = engine.capabilities
        self.identity = partial(built, engine)
        self._file: TextIO | None = open_stream(path)
        self.path = path
        self.problem = ""
        """Reason why the log is incomplete. Empty if the log is complete."""

    def reset(self, config: EngineConfig, seed: int) -> None:
        """Reset the engine and write a header."""
        try:
            self._engine.reset(config, seed)
        except EngineFailed as failure:
            self._write(self._header(config, seed))
            self._failed(failure)
            raise
        self._write(self._header(config, seed))

    def do(self, command: Command) -> list[Snapshot]:
        """Write a command, run it, and write the result."""
        self._write({"command": command})
        try:
            snapshots = self._engine.do(command)
        except EngineFailed as failure:
            self._failed(failure)
            raise
        for snapshot in snapshots:
            self._write({"snapshot": snapshot})
        return snapshots

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """Return the engine's recomputed tokens. A log does not record them."""
        return self._engine.recompute(tokens, count)

    def close(self) -> None:
        """Close the engine and the file."""
        self.stop()
        self._engine.close()

    def stop(self) -> None:
        """Close the file. Later lines are not written."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _header(self, config: EngineConfig, seed: int) -> dict[str, Any]:
        capabilities = self.capabilities
        told = ["commands", "messages"]
        return {
            "slotproof-log": VERSION,
            "engine": {"name": self.name, "version": self.version},
            "profile": capabilities.profile,
            "config": config.to_json(),
            "seed": seed,
            "records": [*told, "events"] if capabilities.events else told,
            "transitions": sorted(capabilities.transitions),
            "not_observed": capabilities.not_observed,
        }

    def _failed(self, failure: EngineFailed) -> None:
        self._write({"failed": {"how": failure.how, "error": str(failure)}})

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}: the log ends early"
            self.stop()
