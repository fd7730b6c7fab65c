"""``--log FILE``: an engine that leaves an event log of what it does."""

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
    """The engine, with a log where one is wanted; closed at the end."""
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


def stop_log(engine: Engine) -> None:
    """What the engine does from here on is not logged."""
    if isinstance(engine, LoggedEngine):
        engine.stop()
