"""An engine that records its commands."""

from __future__ import annotations

from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot


class Diary(InProcessEngine):
    """The reference engine, with the commands of every life recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: list[list[Command]] = []

    def reset(self, config: EngineConfig, seed: int) -> None:
        self.lives.append([])
        super().reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        self.lives[-1].append(command)
        return super().do(command)
