"""Checks of drivers: the example drivers pass all of them, and every failed check is named."""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from slotproof import driver_checks
from slotproof.cli.run import _sign
from slotproof.driver_checks import (
    CHECKS,
    _made,
    answers,
    check,
    driver as driver_module,
    snapshots,
)
from slotproof.driver_checks.driver import SCRIPT, Driver, ScriptRun
from slotproof.engines.base import EngineUnusable
from slotproof.engines.process import ProcessEngine
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof.support import bounds
from slotproof_engine.mutants import MUTANTS
from tests.cover.drivers import misreading

pytestmark = pytest.mark.slow

DRIVERS = Path(__file__).parent / "drivers"
EXAMPLES = Path(__file__).parents[2] / "slotproof" / "drivers" / "examples"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="toy.js needs Node.js, which is not here")
LANGUAGES = [
    pytest.param([sys.executable, str(EXAMPLES / "toy.py")], id="python"),
    pytest.param([NODE or "node", str(EXAMPLES / "toy.js")], id="node", marks=needs_node),
]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine may need longer than a second to end a process."""
    monkeypatch.setattr(answers, "PATIENCE", 5.0)


def faulty(mode: str) -> list[str]:
    return [sys.executable, str(DRIVERS / "faulty.py"), mode]


def missing(argv: list[str], **limits: float) -> dict[str, list[str]]:
    """Return the checks that are not ok, with their observations."""
    report = check(Driver(argv, step_timeout=limits.get("step_timeout", 30.0)))
    return {entry.check.name: entry.seen for entry in report.results if entry.result == "not ok"}


@pytest.mark.parametrize("argv", LANGUAGES)
def test_the_example_drivers_pass_every_check(argv: list[str]) -> None:
    report = check(Driver(argv))
    assert [(entry.check.name, entry.result, entry.seen) for entry in report.results] == [
        (check.name, "ok", []) for check in CHECKS
    ]
    assert report.clean and report.configs == ["p1"]


def test_what_is_kept_of_a_driver_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a flood of lines, and an id or an error of a megabyte."""
    driver, long = Driver([]), "x" * (1 << 20)
    refusal = json.dumps({"id": long, "ok": False, "error": long})
    lines = itertools.cycle([f"7 {long}", long, refusal])
    pipe = mock.Mock(line=lambda _: next(lines).encode())
    monkeypatch.setattr(Driver, "start", lambda _: pipe)
    for _ in range(100):
        driver.say("{}")
    assert len(driver.noise) == len(driver.numbered) == bounds.SEEN_LINES
    assert max(map(len, driver.noise + driver.numbered)) < 200
    assert "(not JSON: expected value at line 1 column 1)" in driver.noise[1]
    results = [_made(driver, check) for check in CHECKS if check.name in ("bad-line", "counts")]
    assert [entry.result for entry in results] == ["not ok", "not asked"]
    assert max(len(line) for entry in results for line in entry.seen) == bounds.SEEN_CHARS


SEEN = {
    "handshake": "engine/version: Field required",
    "versions": "hello for protocol 999 is answered with protocol 999",
    "unknown-message": "{'op': 'sing'} is answered with a result: {}",
    "bad-line": "the driver exited with status 1: json.decoder.JSONDecodeError",
    "impossible-config": "a configuration with {'total_tokens': -1} is answered with a result",
    "unknown-command": "command {'do': 'dance'} is answered with a result",
    "bad-arguments": "{'do': 'abort'} is answered with a result",
    "snapshot": "after step 6: snapshots/",
    "empty-step": "step 3 shows 1 snapshots",
    "inbox": "a step after `open` and `submit` reports 0 consumed commands",
    "reset": 'sessions after a reset: {"s1"',
    "counts": "p1, iteration 1: full: evictable and protected are 5, the tree has 0 pages",
    "hashes": "the hash of the prompt of r1 is 1420330872, but the hash of its tokens is 39305564",
    "events": "unknown transition 'T-FINISH'",
    "determinism": "iteration 1 differs in pools",
    "bye": "the driver still runs 5 s after bye",
    "end-of-input": "the driver still runs 5 s after the end of its input",
    "ids": "answer null to message 1",
    "quiet": 'a line without an answer: "loading weights: 100%" (not JSON: expected value',
}


@pytest.mark.parametrize("mode", SEEN)
def test_exactly_the_check_that_fails_is_reported(mode: str) -> None:
    """Each check has a driver that fails it and passes all the rest."""
    failures = missing(faulty(mode))
    assert list(failures) == [mode]
    assert SEEN[mode] in " / ".join(failures[mode])


def lined(monkeypatch: pytest.MonkeyPatch, change: misreading.Change) -> Driver:
    """Return a driver without a process: the reference engine, misread."""
    misread = misreading.Misreading
    for module in (driver_checks, driver_module):
        monkeypatch.setattr(module, "Pipe", lambda _: misreading.Line(misread(change)))
    return Driver(["x"])


@pytest.mark.parametrize("name", misreading.CHANGES)
def test_what_a_driver_misread_is_said_and_nothing_else(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages for tokens, a row's pages for its positions, hashes, events: only the check with the
    fitting advice fails. The rest pass, or can't be asked because of it."""
    change, failed, text = misreading.CHANGES[name]
    report = check(lined(monkeypatch, change))
    assert report.configs == ["p1", "p4"]
    failures = {
        entry.check.name: entry.seen for entry in report.results if entry.result == "not ok"
    }
    assert list(failures) == [failed], failures
    assert text in " / ".join(failures[failed])


def test_who_reads_it_rightly_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(lined(monkeypatch, lambda *_: None)).clean


def test_every_check_has_a_driver_that_fails_it_alone() -> None:
    assert {*SEEN, *(failed for _, failed, _ in misreading.CHANGES.values())} == {
        check.name for check in CHECKS
    }


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_of_the_engine_is_not_its_drivers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong figures of the engine itself fail no check of a driver's meanings."""
    monkeypatch.setattr(misreading, "Misreading", lambda _: InProcessEngine(name))
    report = check(lined(monkeypatch, lambda *_: None))
    meant = {check.name for check in CHECKS if check.look.__module__.endswith("meanings")}
    failures = {
        entry.check.name: entry.seen for entry in report.results if entry.result == "not ok"
    }
    assert not meant & failures.keys(), failures


def test_the_message_without_an_answer_is_named_and_what_came_is_quoted() -> None:
    """“No answer” alone names neither the message nor the reason."""
    failures = missing(faulty("hang"), step_timeout=0.5)
    command = '{"op": "do", "command": {"do": "tick", "seconds": 1}'
    assert failures["empty-step"] == [
        f'no answer within 0.5 s to {command}, "id": {n}}}'
        for n in [failures["empty-step"][0].split()[-1][:-1]]
    ]
    failures = missing(faulty("python"), step_timeout=0.5)
    assert """; the driver wrote "{'snapshots': []}" (not JSON: """ in failures["inbox"][0]


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda shown: None, ""),
        (
            lambda shown: shown[0].update(ended=[{"rid": "r1"}]),
            "r1 is listed as ended, and also among the requests",
        ),
        (
            lambda shown: shown[0]["pools"]["full"].update(evicted=5),
            "full: evicted was 5 and is 0, but can only grow",
        ),
    ],
)
def test_what_may_be_left_out_is_checked_where_it_is_shown(
    edit: Callable[[Any], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protocol 2: `ended` and `evicted`."""
    engine = InProcessEngine()
    engine.reset(CONFIGS["p1"], 0)
    told = [(command, engine.do(command)) for command in SCRIPT]
    edit([snapshot for _, shown in told for snapshot in shown])
    monkeypatch.setattr(Driver, "script_runs", lambda _: [ScriptRun("p1", CONFIGS["p1"], told)])
    assert "".join(snapshots.counts.look(Driver([]))).partition(": ")[2] == text


SIGNS = {
    "backwards": ", but the spec follows T-OPEN ",
    "spaces": ", the hash of the ids joined by comma and space, but the hash of its tokens is ",
}


@pytest.mark.parametrize("mode", SIGNS)
def test_a_run_says_where_it_may_be_the_driver(mode: str, tmp_path: Path, cli: Any) -> None:
    """A driver's fault is distinguished from a bug of the engine."""
    spec = f"cmd:{words(faulty(mode))}"
    plan = ["--config", "p1", "--examples", "20", "--out", str(tmp_path)]
    lines = cli(["run", "--engine", spec, *plan], 1).splitlines()
    [line] = [line for line in lines if "the driver may be wrong" in line]
    assert line.startswith(
        "driver          the driver may be wrong, not the engine: p1, iteration "
    )
    assert SIGNS[mode] in line
    assert line.endswith(f"; run slotproof check-driver {shlex.quote(spec)}")


@pytest.mark.parametrize("name", ["22790d-two-in-flight", "22862-no-free-tail", "leak-full"])
def test_a_run_says_nothing_of_the_sort_of_a_bug(name: str) -> None:
    """All mutants are asked for in conformance/tests/quality."""
    engine = InProcessEngine(name)
    trace = campaign.run(engine, "x", Plan(CONFIGS, shrink=0)).trace
    assert trace is not None and not _sign(engine, EngineSpec("mine:engine"), trace)


def test_what_is_raised_is_told_with_its_place() -> None:
    """Before, the advice for an exception was to look for a field of the snapshot."""
    [seen] = missing(faulty("raises"))["snapshot"]
    assert seen.startswith("p1: step 1 is answered with: KeyError: 'r1' (File ")
    assert seen.endswith(", in shown)") and "faulty.py" in seen


def test_standard_error_may_be_anything() -> None:
    assert missing(faulty("stderr")) == {}


def test_what_can_not_be_asked_is_not_called_ok() -> None:
    """Checks that read snapshots neither pass nor fail on unreadable ones."""
    report = check(Driver(faulty("snapshot")))
    results = {entry.check.name: (entry.result, entry.seen) for entry in report.results}
    assert results["counts"] == ("not asked", ["snapshots do not follow the schema"])
    assert not report.clean


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("exit", "does not start: the driver exited with status 4: no such device"),
        ("other-protocol", "the driver speaks protocol 3, expected 2"),
        ("old-protocol", "the driver speaks protocol 1, expected 2"),
        ("mute", 'no answer within 0.5 s; sent {"op": "hello", "protocol": 2}, expected one line'),
    ],
)
def test_a_driver_that_does_not_start(mode: str, text: str) -> None:
    argv = [sys.executable, str(DRIVERS / "toy.py"), mode]
    limit = 0.5 if mode == "mute" else 60.0
    with pytest.raises(EngineUnusable) as caught:
        check(Driver(argv, start_timeout=limit))
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("argv", LANGUAGES)
def test_the_bug_behind_the_switch_is_found(argv: list[str]) -> None:
    """By the default plan of `run`: the first configuration suffices."""
    engine = ProcessEngine([*argv, "--bug"], 60.0)
    try:
        outcome = campaign.run(engine, "cmd:", Plan({"p1": CONFIGS["p1"]}, shrink=300))
    finally:
        engine.close()
    assert outcome.trace is not None
    clauses = {finding.mark.clause for finding in outcome.findings}
    assert clauses & {"INV-SUM-FULL.equation", "INV-ANSWER.never_silent", "INV-COVER.req"}


@pytest.mark.parametrize("argv", LANGUAGES)
def test_without_the_switch_nothing_is_found(argv: list[str]) -> None:
    engine = ProcessEngine(argv, 60.0)
    plan = Plan({name: CONFIGS[name] for name in ("p1", "p1-tight")}, examples=24)
    try:
        outcome = campaign.run(engine, "cmd:", plan)
    finally:
        engine.close()
    assert outcome.trace is None and outcome.coverage.iterations > 100


# The command -------------------------------------------------------------------


def words(argv: list[str]) -> str:
    return " ".join(argv)


def test_the_command_prints_a_checklist(cli: Any) -> None:
    lines = cli(["check-driver", words(faulty("quiet"))], 1).splitlines()
    assert [line.split()[0] for line in lines[:23]] == ["ok"] * 23
    assert lines[23].startswith("not ok     quiet")
    assert lines[24].strip().startswith('seen: a line without an answer: "loading weights')
    assert lines[-2].strip().startswith("fix: print to standard error")
    assert lines[-1] == "toy 1, configuration p1: 23 ok, 1 not ok"


def test_the_command_as_json(cli: Any) -> None:
    argv = [sys.executable, str(EXAMPLES / "toy.py")]
    document = cli.json(["check-driver", f"cmd:{words(argv)}", "--json"])
    assert (document["status"], document["engine"]) == (0, "toy")
    assert {manner["result"] for manner in document["manners"]} == {"ok"}


def test_the_command_takes_engines(cli: Any) -> None:
    """An in-process engine is served through a pipe."""
    out = cli(["check-driver", "reference", "--step-timeout", "60"])
    assert "reference over the wire 1, configurations p1, p4: 24 ok" in out


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ("/no/such/driver", "can't start /no/such/driver: No such file"),
        ("reference:nobody", "there is no mutant 'nobody'"),
        ("sglang==nope", "'nope' is no release number"),
        ("", "names no program"),
    ],
)
def test_what_does_not_start_is_told_in_one_line(driver: str, text: str, cli: Any) -> None:
    assert text in cli.wrong(["check-driver", driver])


@pytest.mark.parametrize("said", ['"' + "no " * 30_000 + '"', "9" * 4_000])
def test_a_refusal_of_any_length_is_a_line(said: str, tmp_path: Path, cli: Any) -> None:
    """Found by fuzzing: a driver answered hello with a number of 4,273 digits as its error."""
    driver = tmp_path / "refuses.py"
    driver.write_text(
        "import json, sys\n"
        "id = json.loads(sys.stdin.readline())['id']\n"
        'print(\'{"id": %d, "ok": false, "kind": "usage", "error": '
        f"{said}}}' % id, flush=True)\n"
    )
    told = cli.wrong(["check-driver", f"{sys.executable} {driver}"])
    assert told.startswith("slotproof: the driver refuses the hello") and len(told) < 1_500
