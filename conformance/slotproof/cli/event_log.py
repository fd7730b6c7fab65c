"""``--log FILE``: an engine whose commands and answers are written to an event log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.engines.base import Engine
from slotproof.logs.writer import LoggedEngine
from slotproof.support.terminal import complain


@contextmanager
def logged(engine: Engine, path: Path | None) -> Iterator[Engine]:
    """Yield the engine, with an event log if ``path`` is given. Close engine and log at the end."""
    with closing(engine):
        try:
            recorded = LoggedEngine(engine, path) if path is not None else None
        except OSError as error:
            raise UsageProblem(f"--log {path}: {error.strerror}") from None
        try:
            yield recorded or engine
        finally:
            if recorded is not None:
                recorded.stop()
                if recorded.problem:
                    complain(recorded.problem)
