"""An engine of a stranger in this process: believed no more than one behind a pipe.

What it raises is its own crash; what it shows is taken as it would come through a pipe, and has
to follow the schema. So whatever is raised later, while it is judged, is ours.
"""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from slotproof.conformance import jsontext
from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable, miscounted
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.messages import RECOMPUTED
from slotproof.conformance.protocol.shapes import Shape
from slotproof.conformance.protocol.snapshot import SNAPSHOTS, Snapshot

T = TypeVar("T")


class CheckedEngine:
    """Passes everything on to the engine it was given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name, self.version = engine.name, engine.version
        self.capabilities = engine.capabilities

    def reset(self, config: EngineConfig, seed: int) -> None:
        _its_own(lambda: self.engine.reset(config, seed))

    def do(self, command: Command) -> list[Snapshot]:
        shown = _its_own(lambda: self.engine.do(command))
        found: list[Snapshot] = _through_a_pipe(SNAPSHOTS, {"snapshots": shown})["snapshots"]
        wrong = miscounted(command, found)
        if wrong is not None:
            raise EngineFailed("crash", f"what it shows is no snapshot: {wrong}", fault="nonsense")
        return found

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        said = _its_own(lambda: self.engine.recompute(tokens, count))
        found: list[int] | None = _through_a_pipe(RECOMPUTED, {"tokens": said})["tokens"]
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception, SystemExit):  # all is said by then
            self.engine.close()


def _its_own(call: Callable[[], T]) -> T:
    try:
        return call()
    except (EngineFailed, EngineUnusable):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a stranger's engine raises
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise EngineFailed("crash", text, traceback.format_exc()) from None


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
