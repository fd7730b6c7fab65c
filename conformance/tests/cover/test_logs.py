"""Event logs: written by any engine, judged without it, and never trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.logs import judging, report
from slotproof.logs.format import BadLog
from slotproof.logs.writer import LoggedEngine
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from tests.recordings import give, write

Line = dict[str, Any]
Judge = Callable[..., judging.Verdict]


@pytest.fixture
def record(tmp_path: Path, commands: Any) -> Callable[..., list[Line]]:
    """``record(mutant)``: the lines of two turns of a session on page size 4."""

    def make(mutant: str | None = None, config: str = "p4") -> list[Line]:
        path = tmp_path / "recorded.jsonl"
        engine = LoggedEngine(InProcessEngine(mutant), path)
        engine.reset(CONFIGS[config], 0)
        script: list[Command] = [*commands.TURN_1, commands.submit("r2"), {"do": "step", "n": 6}]
        for command in (*script, {"do": "close", "session": "s1"}, {"do": "tick", "seconds": 1}):
            engine.do(command)
        engine.do(commands.STEP)
        engine.close()
        return [json.loads(line) for line in path.read_text().splitlines()]

    return make


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a log is written."""
    return tmp_path / "log.jsonl"


@pytest.fixture
def judge(path: Path) -> Judge:
    """``judge(lines)``: the verdict on the lines. ``conforms`` asserts that it has no violation."""

    def make(lines: list[Line], conforms: bool = False) -> judging.Verdict:
        write(path, lines)
        verdict = judging.validate(path)
        assert not (conforms and verdict.violations)
        return verdict

    return make


@pytest.fixture
def wrong(path: Path) -> Callable[[list[Line] | bytes], str]:
    """The error of a bad log, in one line."""

    def make(content: list[Line] | bytes) -> str:
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            write(path, content)
        with pytest.raises(BadLog) as bad:
            judging.validate(path)
        text = str(bad.value)
        assert text.startswith(str(path)) and "\n" not in text
        return text.removeprefix(f"{path}: ")

    return make


def snapshots(lines: list[Line]) -> list[Line]:
    return [line["snapshot"] for line in lines if "snapshot" in line]


def test_a_log_of_the_reference_conforms(record: Any, judge: Judge) -> None:
    """Every oracle runs without the engine, except the oracle that asks the engine."""
    lines = record()
    verdict = judge(lines, conforms=True)
    assert verdict.cut is None
    assert verdict.lines == len(lines)
    assert verdict.seen["iterations"] == verdict.seen["pages"] == len(snapshots(lines))
    seen = verdict.coverage.transitions
    assert {"T-OPEN", "T-MATCH", "T-RESTORE", "T-DECODE", "T-SAVE", "T-CLOSE"} <= set(seen)
    checked = verdict.coverage.checked
    names = ("STEP", "OWNER", "LOCK", "HISTORY", "CONTENT", "CHECKER", "ANSWER", "ONCE")
    assert all(checked[f"INV-{name}"] for name in names)
    assert "tokens without a cache" in report.not_observed(verdict)


def test_a_finding_names_line_transition_field_and_values(record: Any, judge: Judge) -> None:
    """INV-STEP.state: the first line not explained by the spec."""
    lines = record()
    at = next(
        number
        for number, line in enumerate(lines)
        if "T-RESTORE" in [event[0] for event in line.get("snapshot", {}).get("events", [])]
    )
    lines[at]["snapshot"]["requests"]["r2"]["C"] -= 1
    verdict = judge(lines)
    assert verdict.line == at + 1
    document = report.summary(verdict)
    violations = [
        violation for violation in document["violated"] if violation["clause"] == "INV-STEP.state"
    ]
    assert (
        violations[0]["field"] == "s1 req.C" and violations[0]["spec"] == violations[0]["seen"] + 1
    )
    assert violations[0]["transition"] == "T-EXTEND"
    clause = verdict.violations[0].clause
    *_, last = report.text(verdict)
    assert last == f"counterexample: line {at + 1} of {verdict.found.file}: {clause}"  # type: ignore[union-attr]


def test_a_transition_that_is_not_enabled(record: Any, judge: Judge) -> None:
    """INV-STEP.guard: reported with the condition that fails."""
    lines = record()
    events = next(
        s["events"] for s in snapshots(lines) if s["events"][:1] == [["T-OPEN", "s1", None, {}]]
    )
    events.append(["T-OPEN", "s1", None, {}])
    verdict = judge(lines)
    assert [violation.clause for violation in verdict.violations][:1] == ["INV-STEP.guard"]
    assert verdict.violations[0].transition == "T-OPEN"


def test_a_mutants_log_is_found_out(record: Any, judge: Judge, path: Path) -> None:
    """INV-ONCE.reported, from the figures of the engine's own check alone."""
    verdict = judge(record("22213-double-count"))
    assert "INV-ONCE.reported" in {violation.clause for violation in verdict.violations}
    passed = judging.validate(path, ignore=[violation.clause for violation in verdict.violations])
    assert passed.line is None or passed.line > (verdict.line or 0)
    assert passed.coverage.ignored


def test_what_a_recorder_leaves_out_is_not_judged(record: Any, judge: Judge) -> None:
    """Missing pages, check and KV content are listed in the report, and are never a finding."""
    lines = record()
    snapshots(lines)[0]["pools"]["full"]["free"].pop()
    assert "INV-OWNER" in {violation.invariant for violation in judge(lines).violations}
    for snapshot in snapshots(lines):
        for name in ("tree", "checker", "content"):
            snapshot.pop(name, None)
        del snapshot["pools"]["full"]["free"], snapshot["rows"]["used"]
    verdict = judge(lines, conforms=True)
    assert not verdict.coverage.checked["INV-OWNER"] and verdict.coverage.checked["INV-STEP"]
    count = len(snapshots(lines))
    missing = report.not_observed(verdict)
    assert missing["pages (free list, tree, rows)"] == f"not recorded in {count} of {count} states"
    assert missing["the engine's own check"] == f"not recorded in {count} of {count} iterations"


STATE = ("pools", "tree", "rows", "sessions", "slots", "requests", "checker", "content")


@pytest.mark.parametrize("every", [2, 3, 100])
def test_the_state_in_some_lines_only(every: int, record: Any, judge: Judge) -> None:
    """The spec follows the events between states, and the next state must match."""

    def thinned() -> list[Line]:
        lines: list[Line] = record()
        for number, snapshot in enumerate(snapshots(lines)):
            if number % every:
                for name in STATE:
                    snapshot.pop(name, None)
        return lines

    verdict = judge(thinned(), conforms=True)
    assert verdict.seen["state"] == -(-verdict.seen["iterations"] // every)
    assert f"of {verdict.seen['iterations']}" in report.not_observed(verdict)["state"]
    lines = thinned()
    blind = [line for line in lines if "snapshot" in line and "pools" not in line["snapshot"]]
    params = {"at": 17, "d": 1, "k": 1, "told": 1}
    blind[-2]["snapshot"]["events"].append(["T-DECODE", "s1", "r2", params])
    failing = judge(lines)
    assert failing.line == lines.index(blind[-2]) + 1, "a guard that fails is told at its own line"
    assert [violation.guard for violation in failing.violations] == ["running"]


def test_idle_iterations_that_are_not_there_starve_nobody(
    commands: Any, tmp_path: Path, judge: Judge
) -> None:
    """INV-PROGRESS.starved: an idle server writes nothing, so a later request has all its time."""
    path = tmp_path / "recorded.jsonl"
    engine = LoggedEngine(InProcessEngine(), path)
    engine.reset(CONFIGS["p1"], 0)
    for number in range(8):
        engine.do({**commands.submit(f"r{number}"), "session": None, "max_new": 6})
        for _ in range(9):
            engine.do(commands.STEP)
    engine.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    idle = -100
    for line in lines:
        if line.get("command", {}).get("do") == "submit":
            idle += 100
        elif "snapshot" in line:
            line["snapshot"]["iter"] += idle
    lines = [line for line in lines if line.get("command", {}).get("do") != "step"]
    verdict = judge(lines)
    assert verdict.violations == [] and verdict.seen["gaps"] == 7


def test_without_clients_nothing_is_said_of_histories(record: Any, judge: Judge) -> None:
    """Without recorded prompts INV-HISTORY and INV-ANSWER are not checked."""
    lines = [
        line for line in record() if line.get("command", {"do": "step"})["do"] in ("step", "tick")
    ]
    lines[0]["records"] = ["events"]
    verdict = judge(lines, conforms=True)
    assert (
        not verdict.coverage.checked["INV-HISTORY"] and not verdict.coverage.checked["INV-ANSWER"]
    )
    assert report.not_observed(verdict)["clients"] == "commands and messages were not recorded"


def test_without_events_steps_are_guessed_at(record: Any, judge: Judge) -> None:
    lines = record()
    lines[0]["records"] = ["commands", "messages"]
    for snapshot in snapshots(lines):
        del snapshot["events"]
    verdict = judge(lines, conforms=True)
    assert report.not_observed(verdict)["steps"] == "events were not recorded"


def test_steps_need_not_be_announced(record: Any, judge: Judge) -> None:
    """A live engine steps by itself: a snapshot line is an iteration."""
    lines = [line for line in record() if line.get("command", {}).get("do") not in ("step", "tick")]
    ticked = next(i for i, line in enumerate(lines) if line.get("command", {}).get("do") == "close")
    for line in lines[ticked:]:
        if "snapshot" in line:
            line["snapshot"]["iter"] += 100  # idle iterations, which no recorder writes
    snapshots(lines)[-1]["iter"] += 1
    named = sum("command" in line for line in lines)
    assert judge(lines, conforms=True).commands == named


def test_a_log_that_breaks_off(record: Any, path: Path) -> None:
    """Judged up to the break, reported in one line, status 0."""
    write(path, record())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 40])
    verdict = judging.validate(path)
    assert not verdict.violations
    assert verdict.cut == verdict.lines + 1
    said = f"cut off         line {verdict.cut} is incomplete: judged up to line {verdict.lines}"
    assert said in list(report.text(verdict))
    assert status(["validate", str(path)]) == 0


def test_several_engines_in_one_file(record: Any, judge: Judge) -> None:
    """A header begins a fresh engine. The report is about the last engine."""
    one = record()
    verdict = judge([*one, *one], conforms=True)
    assert verdict.lives == 2
    bad = judge([*one, *record("22213-double-count")])
    assert bad.line is not None and bad.line > len(one)
    assert bad.header.version == "1 with 22213-double-count"


def test_an_engine_that_failed(record: Any, judge: Judge) -> None:
    """INV-ALIVE at the line where the recorder saw the failure."""
    lines = [*record()[:4], {"failed": {"how": "crash", "error": "CUDA error"}}]
    verdict = judge(lines)
    assert (verdict.line, str(verdict.violations[0])) == (5, "INV-ALIVE.crash: CUDA error")


def test_why_the_recorder_stopped_is_told(record: Any, judge: Judge, wrong: Any) -> None:
    lines = record()
    verdict = judge([*lines, {"end": "no more room"}])
    assert f"recorder        stopped at line {len(lines) + 1}: no more room" in report.text(verdict)
    assert "the line comes after the end" in wrong([*lines, {"end": "x"}, lines[1]])


def test_a_header_alone_is_inconclusive(record: Any, judge: Judge) -> None:
    assert report.status(judge(record()[:1])) == 3


@pytest.mark.parametrize(
    ("keys", "value", "text"),
    [
        ("slotproof-log", 2, "line 1: the log has version 2, expected 3"),
        ("slotproof-log", 4, "line 1: the log has version 4, expected 3"),
        ("engine", {}, "line 1: engine/name: Field required"),
        ("profile", "lmdeploy", "line 1: unknown profile 'lmdeploy'"),
        ("config/page_size", 3, "line 1: config: total_tokens=64 is no multiple"),
        ("config/turbo", 1, "line 1: config/turbo: Extra inputs are not permitted"),
        ("command/do", "jump", "unknown command 'jump'"),
        ("snapshot/iter", ..., "iter: Field required"),
        ("snapshot/iter", 1, "out of order: iteration 1 comes after iteration"),
        ("snapshot/slots", ..., "snapshot: pools comes with rows, sessions, slots"),
        ("snapshot/pools/full/available", 2**53, "available: Input should be less than"),
        (
            "snapshot/pools/full/available",
            1.5,
            "full/available: Input should be a valid integer, not 1.5",
        ),
        ("snapshot/pools/full/counters", {}, "pools/full/counters: Extra inputs"),
        ("snapshot/rows/total", -1, "rows/total: Input should be greater than or equal"),
        ("snapshot/pools/full/free", [True], "full/free/0: Input should be a valid integer"),
        ("snapshot/rows/used", {"1": []}, "rows/used/1: Input should be a valid dictionary"),
        ("snapshot/rows/used", {"1": {"full": 7}}, "used/1/full: Input should be a valid list"),
        ("snapshot/tree/full", [[1]], "tree/full/0/1: Field required"),
        ("snapshot/tree/full", 3, "tree/full: Input should be a valid list, not 3"),
        ("snapshot/events", [["T-MAGIC", None, None, {}]], 'no transition "T-MAGIC"'),
        ("snapshot/messages", [{"type": "finish"}], "messages/0/finish/rid: Field required"),
        ("snapshot/pools/swa", {}, "pools/swa/total: Field required"),
    ],
)
def test_a_bad_line_is_named(keys: str, value: Any, text: str, record: Any, wrong: Any) -> None:
    """Change a field, given by its path of keys, in the last line with it (``...`` deletes)."""
    lines = record()
    *path, last = keys.split("/")
    target: Any = next(line for line in reversed(lines) if keys.split("/", maxsplit=1)[0] in line)
    for key in path:
        target = target[key]
    target[last] = value
    if value is ...:
        del target[last]
    assert text in wrong(lines)


def test_parts_that_do_not_fit_each_other(record: Any, wrong: Any) -> None:
    """Lines that fit the schema and contradict themselves: the message names the line."""
    lines = record(config="p1-swa")
    number = next(n for n, line in enumerate(lines, 1) if "pools" in line.get("snapshot", {}))
    del lines[number - 1]["snapshot"]["pools"]["swa"]
    text, words = wrong(lines), "the configuration has a sliding window"
    assert f"line {number}: the values contradict each other: {words}" in text


def test_an_error_of_ours_is_not_blamed_on_the_log(
    record: Any, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of an oracle on a valid line is a bug in slotproof, and is raised."""

    def slip(*_: object) -> None:
        raise KeyError("row")

    lines = record()
    monkeypatch.setattr("slotproof.lockstep.referee.abstract", slip)
    with pytest.raises(KeyError, match="row"):
        judge(lines)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the log is empty"),
        (b"Welcome!\n", "line 1: not JSON"),
        (b"\xff\xfe\n", "line 1: not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON"),
        (b"[]\n", "line 1: a line has one of the keys slotproof-log, command"),
        (b'{"command": {"do": "flush"}, "snapshot": {}}\n', "line 1: a line has one of"),
        (b'{"command": {"do": "flush"}}\n', "line 1: the log has no header"),
        (b'{"slotproof-log": 1' + b"0" * 5000 + b"}\n", "line 1: not JSON"),
        (b'{"slotproof-log": NaN}\n', "line 1: not JSON"),
    ],
)
def test_what_is_no_log(
    content: bytes, text: str, wrong: Any, path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and status 2, for a file and for standard input."""
    assert text in wrong(content)
    for command in ("validate", "show"):
        for name, shown in ((str(path), str(path)), ("-", "standard input")):
            give(monkeypatch, content)
            assert f"{shown}: {text}" in cli.wrong([command, name])


def test_garbage_in_the_middle_is_no_cut(record: Any, wrong: Any) -> None:
    lines = [json.dumps(line).encode() for line in record()]
    assert wrong(b"\n".join([*lines[:5], b"{broken", *lines[5:]])).startswith("line 6: not JSON")


def test_an_iteration_that_was_announced_and_is_not_there(record: Any, wrong: Any) -> None:
    lines = record()
    first = next(i for i, line in enumerate(lines) if line.get("command", {}).get("n") == 6)
    del lines[first + 6]
    text = wrong(lines)
    assert f"out of order: line {first + 1} announced an iteration that is missing" in text


def test_bad_logs_are_one_line_and_status_2(tmp_path: Path, cli: Any) -> None:
    for command, path, text in (
        ("validate", tmp_path, "Is a directory"),
        ("validate", tmp_path / "none", "No such file"),
        ("show", tmp_path / "none.jsonl", "none.jsonl: No such file"),
    ):
        assert text in cli.wrong([command, str(path)])
    assert status(["validate", "x", "--profile", "lmdeploy"]) == 2
    assert status(["validate", "x", "--ignore", "INV-X.y"]) == 2


def test_run_and_replay_leave_logs(tmp_path: Path, cli: Any) -> None:
    """Every example of a run is a separate engine. A log ends with the counterexample."""
    log, again = tmp_path / "run.jsonl", tmp_path / "replay.jsonl"
    argv = ["run", "--config", "p1", "--out", str(tmp_path), "--log", str(log)]
    ran = cli.json([*argv, "--examples", "3", "--steps", "5", "--json"], 3)
    document = cli.json(["validate", str(log), "--json"])
    assert document["examples"] == 3 and document["status"] == 0
    assert document["commands"] == ran["commands"], "both count what was sent"
    argv += ["--engine", "reference:leak-full", "--seed", "4", "--examples", "20", "--json"]
    summary = cli.json(argv, 1)
    document = cli.json(["validate", str(log), "--json"], 1)
    assert document["line"] == document["lines"] == len(log.read_text().splitlines())
    assert {"INV-OWNER.lost"} <= {violation["clause"] for violation in document["violated"]}
    assert status(["replay", summary["trace"], "--log", str(again), "--json"]) == 1
    assert "counterexample: line" in cli(["validate", str(again)], 1)


def test_a_log_that_can_not_be_written(
    tmp_path: Path, cli: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """An impossible path: status 2. A full disk: reported, and the run continues."""
    argv = ["run", "--config", "p1", "--examples", "2", "--steps", "3", "--out", str(tmp_path)]
    assert "No such file or directory" in cli.wrong([*argv, "--log", str(tmp_path / "no" / "log")])
    if Path("/dev/full").exists():
        assert status([*argv, "--log", "/dev/full"]) == 3
        assert "No space left on device: the log ends early" in capfd.readouterr().err


@pytest.mark.parametrize(("born", "clause"), [(0, "INV-ALIVE.crash"), (1, "INV-ALIVE.hang")])
def test_failures_are_logged(born: int, clause: str, path: Path) -> None:
    """An engine that breaks on reset or later: the log has the reason."""

    class Broken(InProcessEngine):
        def reset(self, config: Any, seed: int) -> None:
            if born:
                raise EngineFailed("hang", "no answer within 10 s")
            super().reset(config, seed)

        def do(self, command: Command) -> Any:
            raise EngineFailed("crash", "boom")

    logged = LoggedEngine(Broken(), path)
    with pytest.raises(EngineFailed):  # noqa: PT012  # either of them
        logged.reset(CONFIGS["p1"], 0)
        logged.do({"do": "step", "n": 1})
    logged.close()
    (violation,) = judging.validate(path).violations
    assert violation.clause == clause


def test_a_long_log_is_forgotten_as_it_is_read(
    record: Any, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered requests are dropped, and no false finding follows."""
    monkeypatch.setattr("slotproof.logs.recorded._KEPT", 0)
    judge(record(), conforms=True)


def test_the_example_of_the_document(path: Path) -> None:
    """docs/reference/log.md."""
    document = Path(__file__).parents[3] / "docs" / "reference" / "log.md"
    example = document.read_text().split("## Example")[1].split("```")[1].lstrip()
    path.write_text(example)
    assert status(["validate", str(path)]) == 0
