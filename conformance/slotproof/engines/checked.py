"""An engine of someone else's module, in this process: checked as one behind a pipe is.

What it raises is its own crash; what it shows is taken as it would come through a pipe, and has
to follow the schema. So whatever is raised later, while it is judged, is ours.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from slotproof.engines.base import Engine, EngineFailed, its_own_fault, miscounted
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import RECOMPUTED
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot
from slotproof.support import jsontext


class CheckedEngine:
    """Passes everything on to the engine it was given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name, self.version = engine.name, engine.version
        self.capabilities = engine.capabilities

    def reset(self, config: EngineConfig, seed: int) -> None:
        with its_own_fault():
            self.engine.reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        with its_own_fault():
            shown = self.engine.do(command)
        found: list[Snapshot] = _through_a_pipe(SNAPSHOTS, {"snapshots": shown})["snapshots"]
        wrong = miscounted(command, found)
        if wrong is not None:
            raise EngineFailed("crash", f"what it shows is no snapshot: {wrong}", fault="nonsense")
        return found

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        with its_own_fault():
            said = self.engine.recompute(tokens, count)
        found: list[int] | None = _through_a_pipe(RECOMPUTED, {"tokens": said})["tokens"]
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # all is said by then
            self.engine.close()


def _through_a_pipe(shape: Shape, shown: Any) -> Any:
    try:
        plain = jsontext.parse(json.dumps(shown).encode())
        wrong = shape.line(plain)
    except (TypeError, ValueError, RecursionError) as error:
        plain, wrong = None, str(error)
    if wrong is not None:
        text = f"what it shows is no snapshot: {wrong}"[:300]
        raise EngineFailed("crash", text, fault="nonsense")
    return plain
