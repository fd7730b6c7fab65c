"""Scenes: an engine that has lived a little, and one more iteration to be judged."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines.base import Engine
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.oracles import ORACLES
from slotproof.lockstep.referee import Setup
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search import report
from slotproof.traces.frames import Frame
from slotproof.traces.record import Row
from tests.processes import Descent, finished
from tests.turns import OPEN, STEP, turn


def submit(
    rid: str, session: str | None = "s1", length: int = 3, max_new: int = 4, first: int = 1
) -> Command:
    return turn(rid, length, max_new, session, first)


TURN_1: list[Command] = [OPEN, submit("r1", length=6), {"do": "step", "n": 6}]
"""A finished turn: 6 tokens of prompt, 4 of output; the slot holds the KV of 9."""


class Scene:
    """What a referee saw, and the next snapshot, not yet judged."""

    def __init__(self, commands: Sequence[Command], config: EngineConfig, engine: Engine) -> None:
        self.referee = Setup(config).referee(engine)
        for command in commands:
            assert self.referee.do(command) == []
        (snapshot,) = engine.do(STEP)
        self.snapshot: Snapshot = copy.deepcopy(snapshot)

    def only(self, oracle: str) -> None:
        """Every other oracle is switched off."""
        self.referee.oracles = {oracle: ORACLES[oracle]}

    def judge(self) -> list[Violation]:
        """What is wrong with it; judged again it is that of the next iteration."""
        found = self.referee.judge(copy.deepcopy(self.snapshot))
        self.snapshot["iter"] += 1
        return found

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
def commands() -> Any:
    """Short forms of commands: ``commands.submit("r1")``, ``commands.STEP``, ``TURN_1``."""

    class Commands:
        pass

    made = Commands()
    vars(made).update(submit=submit, STEP=STEP, OPEN=OPEN, TURN_1=TURN_1)
    return made


class CommandLine:
    """Runs command lines in this process, and reads what they print."""

    def __init__(self, capfd: pytest.CaptureFixture[str], out: Path) -> None:
        self._capfd, self._out = capfd, out

    def _status(self, argv: Sequence[str]) -> int:
        """Run it; a journal is this test's own, as another test may write to that of the default
        folder."""
        self._capfd.readouterr()
        own = "--all" in argv and argv[0] == "run" and "--out" not in argv
        return status([*argv, *(["--out", str(self._out)] if own else [])])

    def _read(self, argv: Sequence[str], ends: int) -> tuple[str, str]:
        assert self._status(argv) == ends
        return self._capfd.readouterr()

    def __call__(self, argv: Sequence[str], ends: int = 0) -> str:
        """Return standard output."""
        return self._read(argv, ends)[0]

    def json(self, argv: Sequence[str], ends: int = 0) -> Any:
        return json.loads(self(argv, ends))

    def ran(self, *argv: object) -> tuple[int, Any]:
        """Return the status, and the document of ``--json``."""
        code = self._status([*map(str, argv), "--json"])
        out, err = self._capfd.readouterr()
        assert out, err
        return code, json.loads(out)

    def wrong(self, argv: Sequence[str]) -> str:
        """Return the one line that a command line with a mistake gives."""
        out, err = self._read(argv, 2)
        assert out == "" and err.startswith("slotproof: ")
        assert err.count("\n") == 1 and err.endswith("\n")
        return err


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    return CommandLine(capfd, tmp_path / "journal")


@pytest.fixture
def earned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen examples are enough here. What a verdict needs is tested in test_earned.py."""
    monkeypatch.setattr(report, "missing", lambda *_: None)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


EVIL = (
    "</script></style><script>window.owned=1</script><img src=x onerror='window.owned=1'>"
    "\"'`|;#{}{{7*7}}{%raw%}\\u202e\u202e*/]]>-->\"\"\"'''\n\r\x1b[2J$(id)\n    - [x](javascript:a)"
)
"""Ends scripts, styles, attributes, strings, comments, fences, tables; colours a terminal."""


@pytest.fixture
def hostile() -> Trace:
    """A trace whose every string tries to get out of where it is put; no engine made it.

    Its pages: one is lost, one has two owners.
    """
    figures: dict[str, Any] = {"total": 8, "available": 4, "evictable": 1, "protected": 0}
    figures |= {"held": 1, "uncached": 1}
    slot: dict[str, Any] = {"row": 0, "C": 1, "A": 1, "Q": 0, "E": 0, "lent": False}
    frame = Frame(
        events=[{"transition": EVIL, "session": EVIL, "request": EVIL, "params": {EVIL: 1}}],
        told=[
            {"type": EVIL, "session": EVIL, "message": EVIL},
            {"type": "finish", "rid": EVIL, "reason": EVIL, "tokens": 2, "message": EVIL},
        ],
        pools={"full": figures, EVIL: figures},
        shares={"full": {"held": 1, "uncached": 2}},
        sessions={EVIL: {"open": True, "inflight": EVIL}},
        slots={EVIL: slot},
        requests={EVIL: {"kind": EVIL, "phase": EVIL}},
        pages={
            "full": [
                {"kind": "free", "pages": "0-3"},
                {"kind": "tree", "locks": 0, "pages": "4"},
                {"kind": "slot", "name": EVIL, "pages": "5", "reads": "4"},
                {"kind": "request", "name": EVIL, "pages": "5-6"},
            ]
        },
        check={"ran": True, "verdict": EVIL, "message": EVIL},
        differs=[{"what": EVIL, "spec": 1, "at": EVIL}],
    )
    rows = [
        Row({"do": "open", "session": EVIL}),
        Row(
            {"do": "submit", "session": EVIL, "rid": EVIL, "tokens": [1], "max_new": 1, "stop": []}
        ),
        Row(
            {"do": "step", "n": 1},
            [EVIL],
            frame.pools,
            frame.sessions,
            frame.slots,
            frame.requests,
            [frame],
        ),
    ]
    return Trace(
        EVIL,
        EVIL,
        EVIL,
        CONFIGS["p1"],
        0,
        rows,
        [Violation(EVIL, EVIL, EVIL, EVIL, said=EVIL)],
        minimal=False,
        config_name=EVIL,
        chosen_profile=EVIL,
        ignored=(EVIL,),
    )


@pytest.fixture
def descent() -> Iterator[Descent]:
    """What a test starts with its environment is gone when the test is over."""
    found = Descent()
    yield found
    found.end()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as `make site` does it. With --quiet mkdocs counts no warnings."""
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    built = finished(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    assert "Documentation built" in built.stderr and "WARNING" not in built.stderr, built.stderr
    return folder
