"""Fixtures: scenes (an engine after some commands, and one more iteration), and command lines."""

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
"""A finished turn with 6 prompt tokens and 4 output tokens. The slot holds the KV of 9."""


class Scene:
    """A referee after some commands, and the next snapshot, not yet judged."""

    def __init__(self, commands: Sequence[Command], config: EngineConfig, engine: Engine) -> None:
        self.referee = Setup(config).referee(engine)
        for command in commands:
            assert self.referee.do(command) == []
        (snapshot,) = engine.do(STEP)
        self.snapshot: Snapshot = copy.deepcopy(snapshot)

    def only(self, oracle: str) -> None:
        """Switch off every other oracle."""
        self.referee.oracles = {oracle: ORACLES[oracle]}

    def judge(self) -> list[Violation]:
        """Return the snapshot's violations. A second call judges it as the next iteration's."""
        violations = self.referee.judge(copy.deepcopy(self.snapshot))
        self.snapshot["iter"] += 1
        return violations

    def clauses(self) -> set[str]:
        return {violation.clause for violation in self.judge()}


@pytest.fixture
def scene() -> Callable[..., Scene]:
    """``scene(commands, config)``: by default turn 1 is over and turn 2 is running."""

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
    """Runner of command lines in this process, and reader of their output."""

    def __init__(self, capfd: pytest.CaptureFixture[str], out: Path) -> None:
        self._capfd, self._out = capfd, out

    def _status(self, argv: Sequence[str]) -> int:
        """Run a command line. A journal goes to this test's folder, not to the shared default."""
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
        """Return the error message of a wrong command line: one line."""
        out, err = self._read(argv, 2)
        assert out == "" and err.startswith("slotproof: ")
        assert err.count("\n") == 1 and err.endswith("\n")
        return err


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> CommandLine:
    return CommandLine(capfd, tmp_path / "journal")


@pytest.fixture
def earned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen examples are enough. test_earned.py tests how many a verdict needs."""
    monkeypatch.setattr(report, "missing", lambda *_: None)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


EVIL = (
    "</script></style><script>window.owned=1</script><img src=x onerror='window.owned=1'>"
    "\"'`|;#{}{{7*7}}{%raw%}\\u202e\u202e*/]]>-->\"\"\"'''\n\r\x1b[2J$(id)\n    - [x](javascript:a)"
)
"""Ends scripts, styles, attributes, strings, comments, fences and tables. Colours a terminal."""


@pytest.fixture
def hostile() -> Trace:
    """A trace made by no engine: every string tries to escape its context in the output.

    One of its pages is lost, and one has two owners.
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
    """Processes started with its environment. The fixture kills them at the end of the test."""
    processes = Descent()
    yield processes
    processes.end()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built as by `make site`. With --quiet mkdocs counts no warnings."""
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
