"""Engines over a pipe: every fault of a driver has a name, and no driver hangs the suite."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.pipe import Pipe
from slotproof.engines.process import ProcessEngine, last_words, not_started
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.reports import text
from slotproof.reports.trace import Trace, load_trace
from slotproof.search import campaign
from slotproof.search.findings import mark
from slotproof.search.plan import Plan
from slotproof.traces import itf
from slotproof.traces.record import rows_of

DRIVERS = Path(__file__).parent / "drivers"
STEP = {"do": "step", "n": 1}
SMALL = EngineConfig(total_tokens=8)
Open = Callable[..., ProcessEngine]


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Open]:
    """``toy(mode)``: a driver that fails once, then behaves."""
    engines = contextlib.ExitStack()

    def start(mode: str, step_timeout: float = 20.0) -> ProcessEngine:
        argv = [sys.executable, str(DRIVERS / "toy.py"), mode, str(tmp_path / "struck")]
        engine = ProcessEngine(argv, step_timeout)
        engines.callback(engine.close)
        return engine

    with engines:
        yield start


def test_a_driver_that_behaves(toy: Open) -> None:
    engine = toy("fine")
    assert (engine.name, engine.version) == ("toy", "7")
    assert engine.capabilities.page_sizes == (1,)
    assert not engine.capabilities.events
    referee = Setup(SMALL).referee(engine)
    assert referee.do({"do": "open", "session": "s1"}) == []
    assert referee.do(STEP) == []
    assert referee.snapshot["pools"]["full"]["total"] == 8
    assert engine.recompute([1], 2) is None


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("exit", r"does not start: the driver exited with status 4: no such device$"),
        ("other-protocol", r"the driver speaks protocol 3, expected 2$"),
        ("old-protocol", r"the driver speaks protocol 1, expected 2$"),
        ("garbage-hello", r"does not start: garbage on the wire: b'Welcome!' \(not JSON"),
        ("refuses-hello", r"the driver refuses the hello \(protocol 2\): protocol 1 only$"),
        ("bad-hello", r"the driver's hello: engine/name: Field required$"),
    ],
)
def test_a_driver_that_does_not_start_is_unusable(toy: Open, mode: str, text: str) -> None:
    with pytest.raises(EngineUnusable, match=text):
        toy(mode)


LOG = "[2026-11-26 21:40:11] WARNING server_args.py:12: no GPU\n"
WARNS = (
    "/v/site-packages/sglang/kernels/ops/attention/fla/utils.py:223: UserWarning: Triton is not "
    "supported on current platform, roll back to CPU.\n  warnings.warn(\n"
)
RAISED = (
    "Traceback (most recent call last):\n"
    '  File "/v/drivers/sglang/__main__.py", line 9, in <module>\n'
    "    main()\n"
    "    ~~~~^^\n"
)
NO_CUDA = "ImportError: libcuda.so.1: cannot open shared object file\n"
DURING = "During handling of the above exception, another exception occurred:"
FATAL = "Fatal Python error: Segmentation fault"
LEAVING = "Exception ignored in: <function Pool.__del__ at 0x7f02>\n"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (RAISED + NO_CUDA, NO_CUDA.strip()),
        (RAISED + NO_CUDA + WARNS + LOG, NO_CUDA.strip()),
        (WARNS + RAISED + "zmq.error.Again: busy\n" + LOG, "zmq.error.Again: busy"),
        (
            RAISED
            + "RuntimeError: CUDA error: no device\nFor debugging pass CUDA_LAUNCH_BLOCKING=1\n",
            "RuntimeError: CUDA error: no device",
        ),
        (
            f"{RAISED}KeyError: 'x'\n\n{DURING}\n\n{RAISED}driver.UsageError: no layout\n",
            "driver.UsageError: no layout",
        ),
        (RAISED + NO_CUDA + LEAVING + RAISED + "TypeError: 'NoneType'\n", NO_CUDA.strip()),
        ('  File "x.py", line 1\n    a b\n      ^\nSyntaxError: bad\n', "SyntaxError: bad"),
        (f"{FATAL}\n\nThread 0x7f (most recent call first):\n  File ...\n\nExtension: x\n", FATAL),
        ("usage: m [-h]\nm: error: unrecognized arguments: -x\n" + WARNS, "m: error: unrecogn"),
        ("no such device\n" + LOG + WARNS, "no such device"),
        ("waiting\nW1126 21:40:11.000 12 x.py:3] slow\nwarning: old kernel\n", "waiting"),
        (WARNS + LOG, ""),
        ("", ""),
    ],
)
def test_the_line_that_names_a_failure_is_no_warning(said: str, words: str) -> None:
    line = last_words(EngineFailed("crash", "it died", said))
    assert line.startswith(words) and bool(line) == bool(words)


def test_a_driver_that_only_warned_says_nothing_else() -> None:
    text = not_started(EngineFailed("hang", "no answer within 2 s", WARNS))
    assert "the driver printed: warnings only on standard error; --step-timeout" in text


def test_a_driver_that_never_says_hello(tmp_path: Path) -> None:
    """One line: the message sent, the answer expected, the output, and how to wait longer."""
    argv = [sys.executable, str(DRIVERS / "toy.py"), "mute"]
    with pytest.raises(EngineUnusable) as caught:
        ProcessEngine(argv, start_timeout=2.0)
    assert str(caught.value) == (
        'the driver does not start: no answer within 2 s; sent {"op": "hello", "protocol": 2}, '
        "expected one line of JSON with protocol, engine and capabilities; the driver printed: "
        "waiting for a device (on standard error); --step-timeout raises the limit"
    )


def test_a_driver_that_does_not_read_is_a_hang() -> None:
    """A message that fills the pipe does not block the suite."""
    pipe = Pipe([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        with pytest.raises(EngineFailed, match=r"does not read a line within 0\.3 s"):
            pipe.send("x" * 4_000_000, 0.3)
    finally:
        pipe.kill()


def test_a_line_without_end_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotproof.support.bounds.LINE_BYTES", 100_000)
    pipe = Pipe([sys.executable, "-c", "print('x' * 1_000_000)"])
    try:
        with pytest.raises(EngineFailed, match="garbage on the wire: a line of over 100000 bytes"):
            pipe.line(60.0)
    finally:
        pipe.kill()


def test_a_driver_that_was_killed_is_told_by_its_signal() -> None:
    pipe = Pipe([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    try:
        with pytest.raises(EngineFailed, match="the driver was ended by SIGKILL"):
            pipe.line(60.0)
    finally:
        pipe.kill()


def test_what_a_driver_said_when_it_died_is_in_the_trace(toy: Open, tmp_path: Path) -> None:
    """INV-ALIVE.crash: the end of standard error is stored in the file and shown."""
    referee = Setup(SMALL).referee(toy("die"))
    (violation,) = referee.do(STEP)
    assert violation.said == "first line\nout of memory\n"
    trace = Trace("toy 7", "cmd:", "reference", SMALL, 0, rows_of(referee.log), [violation], False)
    itf.save(trace, tmp_path / "died.itf.json")
    again = load_trace(tmp_path / "died.itf.json")
    assert again.violations[0].said == violation.said
    assert "    | first line\n    | out of memory\n" in text.render(again)


def test_a_run_over_a_driver_that_dies_keeps_the_trace() -> None:
    """INV-ALIVE.crash: the driver is started again for every replay, and the trace is shrunk."""
    engine = ProcessEngine([sys.executable, str(DRIVERS / "toy.py"), "die"], 60.0)
    try:
        outcome = campaign.run(engine, "cmd:", Plan({"p1-one": SMALL}, 3, shrink=20))
    finally:
        engine.close()
    assert outcome.trace is not None
    assert [command["do"] for command in outcome.trace.commands] == ["step"]
    assert outcome.trace.violations[0].said.endswith("out of memory\n")


def test_a_usage_answer_to_a_legal_command_names_the_command(toy: Open) -> None:
    engine = toy("refuses-step")
    engine.reset(SMALL, 0)
    with pytest.raises(
        EngineUnusable, match="toy refuses a legal command, one scheduler iteration: not today"
    ):
        engine.do(STEP)


def test_a_program_that_does_not_exist_is_unusable() -> None:
    with pytest.raises(EngineUnusable, match="can't start /no/such/driver: No such file"):
        ProcessEngine(["/no/such/driver"])


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (EngineConfig(page_size=4), "toy 7: page size 4 is not offered"),
        (EngineConfig(window=2, swa_tokens=8), "toy 7: the engine has no sliding-window pool"),
        (EngineConfig(draft=2), r"toy 7: draft can only be \[0\]"),
    ],
)
def test_a_configuration_that_is_not_offered(toy: Open, config: EngineConfig, text: str) -> None:
    with pytest.raises(EngineUnusable, match=text):
        toy("fine").reset(config, 0)


def test_a_usage_answer_is_unusable(toy: Open) -> None:
    with pytest.raises(EngineUnusable, match="chunk can't be 4 here"):
        toy("usage").reset(SMALL, 0)


FAULTS = {
    "garbage": ("crash", "garbage on the wire: b'Segmentation fault (core dumped)'"),
    "list": ("crash", "garbage on the wire: answer: Input should be a valid dictionary"),
    "die": ("crash", "the driver exited with status 3"),
    "crash": ("crash", "RuntimeError: boom"),
    "neither": ("crash", "garbage on the wire: ok: Input should be True"),
    "wrong-id": ("crash", "the driver answered message 999"),
    "no-rows": ("crash", "garbage on the wire: snapshots/0/rows: Field required"),
    "negative-iter": ("crash", "garbage on the wire: snapshots/0/iter: Input should be greater"),
}


KINDS = {"die": ":death", "crash": ":RuntimeError-boom"}
"""Suffixes of a finding's identity. All other faults are garbage."""


@pytest.mark.parametrize("mode", FAULTS)
def test_a_fault_of_the_driver_itself_is_one_finding_of_its_kind(toy: Open, mode: str) -> None:
    """One fault of a driver gives one finding. A crash reported by the driver is the engine's."""
    referee = Setup(SMALL).referee(toy(mode))
    (violation,) = referee.do(STEP)
    who = "step" if mode == "crash" else "driver"
    name = f"INV-ALIVE.crash@{who}{KINDS.get(mode, ':garbage')}"
    assert mark(referee.log[-1], violation).id == name


@pytest.mark.parametrize("mode", FAULTS)
def test_a_fault_in_mid_run_is_a_finding_and_the_driver_comes_back(toy: Open, mode: str) -> None:
    """INV-ALIVE.crash, with its reason. The next reset works."""
    how, text = FAULTS[mode]
    engine = toy(mode)
    referee = Setup(SMALL).referee(engine)
    (violation,) = referee.do(STEP)
    assert violation.clause == f"INV-ALIVE.{how}"
    assert violation.detail.startswith(text)
    assert Setup(SMALL).referee(engine).do(STEP) == []


def test_a_hang_is_a_finding_and_the_driver_comes_back(toy: Open) -> None:
    """INV-ALIVE.hang: within the step timeout."""
    engine = toy("hang", step_timeout=0.3)
    (violation,) = Setup(SMALL).referee(engine).do(STEP)
    assert violation.clause == "INV-ALIVE.hang"
    assert violation.detail.startswith("no answer within 0.3 s")
    engine._timeout = 20.0
    assert Setup(SMALL).referee(engine).do(STEP) == []


def test_the_timeout_is_per_iteration(toy: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of n iterations has n times the timeout."""
    engine = toy("fine", step_timeout=5.0)
    engine.reset(SMALL, 0)
    asked: list[float] = []
    exchange = engine._exchange

    def noted(pipe: Pipe, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        asked.append(timeout)
        return exchange(pipe, message, timeout)

    monkeypatch.setattr(engine, "_exchange", noted)
    engine.do({"do": "step", "n": 3})
    engine.do({"do": "tick", "seconds": 1})
    assert asked == [15.0, 5.0]


def test_a_snapshot_that_makes_no_sense_is_a_finding(toy: Open) -> None:
    """INV-ALIVE.crash: a finish message without a reason."""
    (violation,) = Setup(SMALL).referee(toy("unknown-session")).do(STEP)
    assert violation.clause == "INV-ALIVE.crash"
    assert "messages/0/finish/reason: Field required" in violation.detail


def test_what_a_driver_shows_is_judged(toy: Open) -> None:
    """INV-OWNER.lost: over the wire as in process."""
    violations = Setup(SMALL).referee(toy("lost-page")).do(STEP)
    assert "INV-OWNER.lost" in {violation.clause for violation in violations}


def test_after_a_driver_died_nothing_is_asked_of_it(toy: Open) -> None:
    engine = toy("die")
    engine.reset(SMALL, 0)
    with pytest.raises(EngineFailed, match="exited with status 3") as caught:
        engine.do(STEP)
    assert caught.value.trace.endswith("out of memory\n"), "what it said last"
    with pytest.raises(EngineFailed, match="the driver is not running"):
        engine.do(STEP)
    engine.reset(SMALL, 0)
    assert len(engine.do(STEP)) == 1


def test_close_never_raises(toy: Open) -> None:
    engine = toy("die")
    engine.reset(SMALL, 0)
    with pytest.raises(EngineFailed):
        engine.do(STEP)
    engine.close()


def wire(mutant: str = "") -> ProcessEngine:
    name = f"reference:{mutant}" if mutant else "reference"
    return ProcessEngine(EngineSpec(name).driver(), 60.0)


def test_tokens_are_recomputed_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """INV-CONTENT.tokens: the driver's answer, and the verdict on another answer."""
    with contextlib.closing(wire()) as engine:
        engine.reset(CONFIGS["p1"], 0)
        expected = InProcessEngine().recompute([1, 2, 3], 4)
        assert engine.recompute([1, 2, 3], 4) == expected
        turn = {"do": "submit", "session": "s1", "rid": "r1", "tokens": [1, 2, 3]}
        commands: list[dict[str, Any]] = [
            {"do": "open", "session": "s1"},
            {**turn, "max_new": 4, "stop": []},
            {"do": "step", "n": 6},
        ]
        certain = [token + 1 for token in expected[:1]]
        monkeypatch.setattr(engine, "recompute", lambda tokens, count: certain)
        log = play(engine, Setup(CONFIGS["p1"]), commands).log
    (violation,) = log[-1].violations
    assert violation.clause == "INV-CONTENT.tokens"
    assert violation.detail == (
        f"output 0 of r1 is {expected[0]}; without a cache it is {expected[0] + 1}; "
        "the KV in the snapshot is correct"
    )


def test_an_answer_to_recompute_that_is_none_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(wire()) as engine:
        engine.reset(CONFIGS["p1"], 0)
        monkeypatch.setattr(engine, "_ask", lambda message, timeout: {"tokens": "abc"})
        with pytest.raises(
            EngineFailed, match="garbage on the wire: tokens: Input should be a valid list"
        ):
            engine.recompute([1], 1)


def test_lockstep_over_the_wire_finds_nothing_on_the_reference_engine() -> None:
    """INV-STEP: the same engine over a pipe conforms, and shows the same snapshots."""
    configs = {name: CONFIGS[name] for name in ("p1-tight", "p4-swa")}
    plan = Plan(configs, examples=10, steps=20)
    engine = wire()
    try:
        outcome = campaign.run(engine, "cmd:", plan)
    finally:
        engine.close()
    assert outcome.trace is None
    inside = campaign.run(InProcessEngine(), "reference", plan)
    assert outcome.coverage.transitions == inside.coverage.transitions
    assert outcome.coverage.holds == inside.coverage.holds


@pytest.mark.slow
def test_a_mutant_is_found_over_the_wire() -> None:
    """INV-SUM-FULL: the same trace as in process."""
    plan = Plan({"p1": CONFIGS["p1"]}, examples=50)
    engine = wire("leak-full")
    try:
        outcome = campaign.run(engine, "cmd:", plan)
    finally:
        engine.close()
    assert outcome.trace is not None and outcome.trace.minimal
    inside = campaign.run(InProcessEngine("leak-full"), "reference", plan).trace
    assert inside is not None
    assert outcome.trace.commands == inside.commands
    assert outcome.trace.violations == inside.violations


def test_an_impossible_configuration_over_the_wire() -> None:
    engine = wire()
    try:
        with pytest.raises(EngineUnusable, match="page size 3 is not offered"):
            engine.reset(EngineConfig(page_size=3, total_tokens=9), 0)
    finally:
        engine.close()
