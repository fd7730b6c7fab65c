"""Scenes: an engine that has lived a little, and one more iteration to be judged."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance import oracles
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import CONFIGS, EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.referee import Referee

STEP: Command = {"do": "step", "n": 1}


def submit(
    rid: str, session: str | None = "s1", length: int = 3, max_new: int = 4, first: int = 1
) -> Command:
    tokens = list(range(first, first + length))
    fields = {"session": session, "rid": rid, "tokens": tokens, "max_new": max_new, "stop": []}
    return {"do": "submit", **fields}


OPEN: Command = {"do": "open", "session": "s1"}
TURN_1: list[Command] = [OPEN, submit("r1", length=6), {"do": "step", "n": 6}]
"""A finished turn: 6 tokens of prompt, 4 of output; the slot holds the KV of 9."""


class Scene:
    """What a referee saw, and the next snapshot, not yet judged."""

    def __init__(self, commands: Sequence[Command], config: EngineConfig, engine: Engine) -> None:
        self.referee = Referee(engine, config)
        for command in commands:
            assert self.referee.do(command) == []
        (snapshot,) = engine.do(STEP)
        self.snapshot: Snapshot = copy.deepcopy(snapshot)

    def judge(self) -> list[Violation]:
        return self.referee.judge(copy.deepcopy(self.snapshot))

    def clauses(self) -> set[str]:
        return {violation.clause for violation in self.judge()}


@pytest.fixture
def scene() -> Callable[..., Scene]:
    """``scene(commands, config)``: turn 1 is over and turn 2 runs, unless told otherwise."""

    def make(
        commands: Sequence[Command] = (*TURN_1, submit("r2"), STEP),
        config: str | EngineConfig = "p4",
        mutant: str | None = None,
    ) -> Scene:
        chosen = CONFIGS[config] if isinstance(config, str) else config
        return Scene(commands, chosen, InProcessEngine(mutant))

    return make


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``only(name)``: every other oracle is switched off."""

    def choose(name: str) -> None:
        monkeypatch.setattr("slotproof.conformance.referee.ORACLES", {name: oracles.ORACLES[name]})

    return choose


@pytest.fixture
def commands() -> Any:
    """Short forms of commands: ``commands.submit("r1")``, ``commands.STEP``, ``TURN_1``."""

    class Commands:
        pass

    made = Commands()
    vars(made).update(submit=submit, STEP=STEP, OPEN=OPEN, TURN_1=TURN_1)
    return made


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as `make site` does it. With --quiet mkdocs counts no warnings."""
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert "Documentation built" in built.stderr and "WARNING" not in built.stderr, built.stderr
    return folder
