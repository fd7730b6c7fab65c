"""Builds for tests, each started once. `SLOTPROOF_RELEASES` names the releases to test, separated
by spaces. Default: all releases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.engines.releases import of_release
from slotproof.support.children import Child
from tests.selecting import only_releases

SCRIPTS = Path(__file__).parents[3] / "docs" / "findings" / "scripts"
FORKED = Path(__file__).with_name("forked.py")


class Lent:
    """A shared engine: the borrower's ``close`` does nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def close(self) -> None:
        pass


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[[str], Engine]]:
    """Start a build by its ``--engine`` argument, once: a start takes 10 seconds."""
    engines: dict[str, Engine] = {}
    opened = EngineSpec.open  # tests may put another in its place

    def once(text: str, patches: tuple[str, ...] = ()) -> Any:
        key = " ".join((text, *patches))
        if key not in engines:
            engines[key] = opened(EngineSpec(text, step_timeout=30, patches=patches))
        return Lent(engines[key])

    yield once
    for engine in engines.values():
        engine.close()


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], Path]:
    """The interpreter of a release's environment, which is created if missing."""
    return lambda release: of_release(f"sglang=={release}").python


@dataclass
class Done:
    """Result of a script."""

    status: int
    stdout: str
    stderr: str


Run = Callable[[Path, str], Done]


@pytest.fixture(scope="session")
def run(python_of: Callable[[str], Path]) -> Iterator[Run]:
    """``run(path, release)``: run a script in a fork of a process with SGLang imported."""
    started: dict[str, Child] = {}

    def one(path: Path, release: str) -> Done:
        if release not in started:
            command = [python_of(release), FORKED, SCRIPTS]
            started[release] = Child(command, stdin=PIPE, stdout=PIPE)
        process = started[release].process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{path}\n".encode())
        process.stdin.flush()
        return Done(**json.loads(process.stdout.readline()))

    yield one
    for child in started.values():
        child.kill()  # nothing is lost, and SGLang takes long to end


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only_releases("SLOTPROOF_RELEASES", config, items, _release)


def _release(item: pytest.Item) -> str | None:
    if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
        return None
    params = item.callspec.params
    if "path" in params:  # A finding: sglang-RELEASE-NAME.itf.json.
        return str(params["path"].name.split("-")[1])
    named = next((params[name] for name in ("release", "build") if name in params), None)
    return named and str(named).removeprefix("sglang==")
