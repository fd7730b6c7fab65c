"""Ctrl-C is no evidence about an engine. An interrupted example is not judged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import list as listing
from slotproof.cli.app import status
from slotproof.cli.errors import UsageProblem
from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports import sides
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.examples import Search, Searched
from slotproof.search.plan import Plan
from slotproof.support import interrupts
from slotproof.traces.record import rows_of
from slotproof_model.proofs import pool
from tests.interrupting import RUNS, interrupt
from tests.turns import OPEN, STEP

pytestmark = pytest.mark.slow

PLAN = Plan({"p1": CONFIGS["p1"], "p4": CONFIGS["p4"]}, examples=200)


class Torn(InProcessEngine):
    """Correct until Ctrl-C comes in the middle of its n-th command. Later snapshots are wrong.

    The interrupt does not end the command, as in a destructor.
    """

    def __init__(self, at: int, failing: bool = False, times: int = 1) -> None:
        super().__init__()
        self.left, self.failing, self.times = at, failing, times
        self.torn = False
        self.after = 0
        """Number of commands received after the interrupt."""

    def do(self, command: Command) -> list[Snapshot]:
        self.after += self.torn
        self.left -= 1
        if self.left == 0:
            self.torn = True
            for _ in range(self.times):
                try:
                    signal.raise_signal(signal.SIGINT)
                except KeyboardInterrupt:
                    continue
        shown = super().do(command)
        if self.torn:
            if self.failing:
                raise EngineFailed("crash", "the driver answered message 2770")
            for snapshot in shown:
                snapshot["pools"]["full"]["available"] -= 1
        return shown


@pytest.mark.parametrize("distinct", [4, None])
@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("at", [1, 20, 75, 76, 77, 333])
def test_an_example_that_was_interrupted_is_not_judged(
    distinct: int | None, failing: bool, times: int, at: int
) -> None:
    """No command, teardown or second run of the example is judged. The engine gets no more
    commands."""
    engine = Torn(at, failing, times)
    outcome = campaign.run(engine, "x", replace(PLAN, distinct=distinct))
    assert outcome.interrupted and outcome.findings == []
    assert engine.torn and engine.after == 0


def test_what_was_found_before_stays() -> None:
    """The interrupt arrives while the finding is shrunk."""

    class Leaking(InProcessEngine):
        def do(self, command: Command) -> list[Snapshot]:
            if kept:
                signal.raise_signal(signal.SIGINT)
            return super().do(command)

    kept: list[Any] = []
    outcome = campaign.run(Leaking("leak-full"), "x", PLAN, keep=kept.append)
    assert outcome.interrupted and len(outcome.findings) == 1
    assert outcome.trace is not None
    assert outcome.trace.violations and not outcome.trace.minimal


@pytest.fixture
def trace() -> Trace:
    """Return a trace that conforms."""
    commands: list[Command] = [OPEN, STEP, STEP, {"do": "close", "session": "s1"}, STEP]
    log = play(InProcessEngine(), Setup(CONFIGS["p1"]), commands).log
    return Trace("reference 1", "x", "reference", CONFIGS["p1"], 0, rows_of(log), [], False)


@pytest.mark.parametrize("failing", [False, True])
def test_a_replay_says_nothing_either(failing: bool, trace: Trace) -> None:
    """``replay`` and ``replay --against`` pass on the interrupt and report nothing else."""
    for again in (
        lambda engine: play(engine, trace.setup, trace.commands),
        lambda engine: sides.play(engine, trace),
    ):
        engine = Torn(2, failing)
        with pytest.raises(KeyboardInterrupt), interrupts.noted():
            again(engine)
        assert engine.torn and engine.after == 0


def test_an_interrupt_while_an_engine_is_made_fresh() -> None:
    class Slow(InProcessEngine):
        def reset(self, config: EngineConfig, seed: int) -> None:
            signal.raise_signal(signal.SIGINT)
            raise EngineFailed("crash", "the driver exited with status 1")

    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        Setup(CONFIGS["p1"]).referee(Slow())


# The flag ---------------------------------------------------------------------


def test_it_is_raised_where_nothing_holds_it() -> None:
    with interrupts.noted():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.arrived()
    assert not interrupts.arrived()


def test_held_it_is_raised_when_an_engine_is_asked() -> None:
    with interrupts.noted(), interrupts.held():
        signal.raise_signal(signal.SIGINT)
        assert interrupts.arrived()
        with pytest.raises(KeyboardInterrupt), interrupts.released():
            pytest.fail("the engine was asked")
        signal.raise_signal(signal.SIGINT)  # and a second one is held


def test_released_it_is_raised_at_once() -> None:
    with interrupts.noted(), interrupts.held():
        with pytest.raises(KeyboardInterrupt), interrupts.released():
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # and is held again


def test_a_second_one_does_not_cut_the_clearing_up_short() -> None:
    """The second interrupt arrives while the first is on its way out."""
    cleared = []

    def twice() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            cleared.append(True)

    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        twice()
    assert cleared


def test_the_outermost_counts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts.noted(), interrupts.held():
        with interrupts.noted():
            signal.raise_signal(signal.SIGINT)
        assert interrupts.arrived(), "the inner one does not forget it"
    assert signal.getsignal(signal.SIGINT) is before


def test_who_ignores_interrupts_goes_on_ignoring_them() -> None:
    """``nohup``."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.noted():
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.arrived()
    finally:
        signal.signal(signal.SIGINT, before)


def test_none_is_lost_while_processes_are_started() -> None:
    with interrupts.noted(), interrupts.held():
        with pool._deaf():
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.arrived()
        assert interrupts.arrived()


# Whole commands ----------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("name", ["here", "served, all"])
def test_two_in_a_row_are_no_accident_of_hypothesis(name: str, tmp_path: Path) -> None:
    left = interrupt(RUNS[name], 2.5, tmp_path / "here", times=2)
    assert left.status == 3 and not left.traces and not left.processes
    assert "hypothesis" not in left.err.lower() and not left.ours, left.err


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("after", [0.0, 0.3, 4.0], ids="{}s".format)
def test_sigterm_to_all_processes_of_a_run(after: float, tmp_path: Path) -> None:
    """``timeout 60 slotproof run --jobs 2``: from their first moment on, the workers stay until the
    summary is printed."""
    left = interrupt(RUNS["jobs"], after, tmp_path / "here", workers=2)
    assert left.clean, left
    assert left.err == "" and "inconclusive: interrupted, nothing found so far" in left.out


def test_a_command_that_was_interrupted_late_is_not_a_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An interrupt during the last oracles still counts, though the engine gets no command."""
    end = Search.run

    def late(*args: Any) -> Searched:
        result = end(*args)
        os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(Search, "run", late)
    assert status(["run", "--config", "p1", "--examples", "5", "--out", str(tmp_path)]) == 3


# A process and its end ----------------------------------------------------------


def ended(code: str) -> tuple[int, str, str]:
    """Return status, output and errors of ``slotproof list mutants``, after running ``code``."""
    begin = 'import signal, sys\nsys.argv = ["slotproof", "list", "mutants"]\n'
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}{code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


WHILE_IMPORTED = """
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "slotproof.{}":
            {}
sys.meta_path.insert(0, Interrupts())
from slotproof.cli import app
app.main()
"""


IN_A_CLASS = """
class Named:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize("module", ["cli.streams", "support.terminal", "cli.commands"])
@pytest.mark.parametrize(
    "how", ["signal.raise_signal(signal.SIGTERM)", "type('Made', (), {'named': Named()})"]
)
def test_an_interrupt_while_modules_are_imported(module: str, how: str) -> None:
    """Status 3 from the start: the first modules take most of a second. While a class is being
    made, Python 3.11 raises RuntimeError instead."""
    assert ended(IN_A_CLASS + WHILE_IMPORTED.format(module, how)) == (3, "", "")


def test_an_interrupt_of_code_that_is_text(tmp_path: Path) -> None:
    """If a module is the program, Python remembers the interrupt, caught or not, and dies of the
    signal. dataclasses run code from text while modules are imported."""
    text = 'exec("signal.raise_signal(signal.SIGINT)")'
    begin = 'import signal, sys\nsys.argv = ["slotproof", "list", "mutants"]'
    (tmp_path / "begins.py").write_text(begin + WHILE_IMPORTED.format("cli.commands", text))
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "begins"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, b"", b"")


AT_THE_END = """
import os
class Falls:
    kill, number, pid = staticmethod(os.kill), signal.{}, os.getpid()
    def __del__(self):
        self.kill(self.pid, self.number)
falls = Falls()
falls.me = falls  # for the last collection of all
from slotproof.cli import app
exec("app.main()", {{"__name__": {!r}, "app": app}})
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("caller", ["__main__", "another"])
def test_an_interrupt_while_python_exits(number: str, caller: str) -> None:
    """By then Python has removed its handlers. The verdict is settled, and printed in full."""
    code, out, err = ended(AT_THE_END.format(number, caller))
    assert (code, err) == (0, "") and "leak-full" in out


def test_who_calls_main_goes_on() -> None:
    """main() sets the status of the process only if it is the program."""
    code = """
from slotproof.cli import app
try:
    exec("app.main()", {"__name__": "another", "app": app})
except SystemExit:
    sys.exit(7)
"""
    assert ended(code)[0] == 7


def test_what_an_interrupt_left_half_made_says_nothing() -> None:
    """A destructor fails because its constructor was interrupted. No traceback is printed."""
    code = """
from slotproof.cli import app, list as listing
class Half:
    def __init__(self, what):
        signal.raise_signal(signal.SIGINT)
        self.owner = True
    def __del__(self):
        assert self.owner
listing._table = Half
app.main()
"""
    assert ended(code) == (3, "", "")


def test_what_destructors_lack_is_told_where_nothing_was_interrupted() -> None:
    code = """
from slotproof.cli import app, list as listing
table = listing._table
class Half:
    def __del__(self):
        assert self.owner
def made(what):
    Half()
    return table(what)
listing._table = made
app.main()
"""
    code_, out, err = ended(code)
    assert code_ == 0 and out and "no attribute 'owner'" in err


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("half made"), 3), (UsageProblem("no such thing"), 2)],
    ids=["of a library", "of the user"],
)
def test_what_fails_after_an_interrupt_is_no_bug(
    error: Exception, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of an interrupted library counts as the interrupt. Wrong usage stays the same."""

    def table(_: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr(listing, "_table", table)
    assert status(["list", "mutants"]) == expected


def test_what_fails_without_an_interrupt_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def table(_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(listing, "_table", table)
    assert status(["list", "mutants"]) == 70
