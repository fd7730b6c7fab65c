"""Event logs: written by any engine, judged without it; nothing in them is trusted."""

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

Line = dict[str, Any]
Write = Callable[[list[Line]], Path]


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
def write(tmp_path: Path) -> Write:
    """Lines as a file."""

    def make(lines: list[Line]) -> Path:
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return make


def snapshots(lines: list[Line]) -> list[Line]:
    return [line["snapshot"] for line in lines if "snapshot" in line]


def wrong(path: Path) -> str:
    """The one line that a bad log gives."""
    with pytest.raises(BadLog) as bad:
        judging.validate(path)
    text = str(bad.value)
    assert text.startswith(str(path)) and "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_a_log_of_the_reference_conforms(record: Any, write: Write) -> None:
    """Every oracle but the one that asks the engine, without the engine."""
    lines = record()
    verdict = judging.validate(write(lines))
    assert not verdict.violations and verdict.cut is None
    assert verdict.lines == len(lines)
    assert verdict.seen["iterations"] == verdict.seen["pages"] == len(snapshots(lines))
    seen = verdict.coverage.transitions
    assert {"T-OPEN", "T-MATCH", "T-RESTORE", "T-DECODE", "T-SAVE", "T-CLOSE"} <= set(seen)
    checked = verdict.coverage.checked
    names = ("STEP", "OWNER", "LOCK", "HISTORY", "CONTENT", "CHECKER", "ANSWER", "ONCE")
    assert all(checked[f"INV-{name}"] for name in names)
    assert "tokens without a cache" in report.not_observed(verdict)


def test_a_finding_names_line_transition_field_and_values(record: Any, write: Write) -> None:
    """INV-STEP.state: the first line that the spec can't explain."""
    lines = record()
    at = next(
        number
        for number, line in enumerate(lines)
        if "T-RESTORE" in [event[0] for event in line.get("snapshot", {}).get("events", [])]
    )
    lines[at]["snapshot"]["requests"]["r2"]["C"] -= 1
    verdict = judging.validate(write(lines))
    assert verdict.line == at + 1
    document = report.summary(verdict)
    found = [each for each in document["violated"] if each["clause"] == "INV-STEP.state"]
    assert found[0]["field"] == "s1 req.C" and found[0]["spec"] == found[0]["seen"] + 1
    assert found[0]["transition"] == "T-EXTEND"
    clause = verdict.violations[0].clause
    *_, last = report.text(verdict)
    assert last == f"counterexample: line {at + 1} of {verdict.found.file}: {clause}"  # type: ignore[union-attr]


def test_a_transition_that_is_not_enabled(record: Any, write: Write) -> None:
    """INV-STEP.guard: told with the condition that fails."""
    lines = record()
    events = next(
        s["events"] for s in snapshots(lines) if s["events"][:1] == [["T-OPEN", "s1", None, {}]]
    )
    events.append(["T-OPEN", "s1", None, {}])
    verdict = judging.validate(write(lines))
    assert [each.clause for each in verdict.violations][:1] == ["INV-STEP.guard"]
    assert verdict.violations[0].transition == "T-OPEN"


def test_a_mutants_log_is_found_out(record: Any, write: Write) -> None:
    """INV-ONCE.reported, from the figures of the engine's own check alone."""
    verdict = judging.validate(write(record("22213-double-count")))
    assert "INV-ONCE.reported" in {each.clause for each in verdict.violations}
    passed = judging.validate(
        write(record("22213-double-count")), set_aside=[each.clause for each in verdict.violations]
    )
    assert passed.line is None or passed.line > (verdict.line or 0)
    assert passed.coverage.set_aside


def test_what_a_recorder_leaves_out_is_not_judged(record: Any, write: Write) -> None:
    """Pages, check and KV content: said in the report, never a finding."""
    lines = record()
    snapshots(lines)[0]["pools"]["full"]["free"].pop()
    assert "INV-OWNER" in {each.invariant for each in judging.validate(write(lines)).violations}
    for snapshot in snapshots(lines):
        for name in ("tree", "checker", "content"):
            snapshot.pop(name, None)
        del snapshot["pools"]["full"]["free"], snapshot["rows"]["used"]
    verdict = judging.validate(write(lines))
    assert not verdict.violations
    assert not verdict.coverage.checked["INV-OWNER"] and verdict.coverage.checked["INV-STEP"]
    count = len(snapshots(lines))
    missing = report.not_observed(verdict)
    assert missing["pages (free list, tree, rows)"] == f"not recorded in {count} of {count} states"
    assert missing["the engine's own check"] == f"not recorded in {count} of {count} iterations"


STATE = ("pools", "tree", "rows", "sessions", "slots", "requests", "checker", "content")


@pytest.mark.parametrize("every", [2, 3, 100])
def test_the_state_in_some_lines_only(every: int, record: Any, write: Write) -> None:
    """The spec follows the events in between, and the next state is where they led."""

    def thinned() -> list[Line]:
        lines: list[Line] = record()
        for number, snapshot in enumerate(snapshots(lines)):
            if number % every:
                for name in STATE:
                    snapshot.pop(name, None)
        return lines

    verdict = judging.validate(write(thinned()))
    assert not verdict.violations
    assert verdict.seen["state"] == -(-verdict.seen["iterations"] // every)
    assert f"of {verdict.seen['iterations']}" in report.not_observed(verdict)["state"]
    lines = thinned()
    blind = [line for line in lines if "snapshot" in line and "pools" not in line["snapshot"]]
    blind[-2]["snapshot"]["events"].append(["T-DECODE", "s1", "r2", {"d": 1, "k": 1}])
    found = judging.validate(write(lines))
    assert found.line == lines.index(blind[-2]) + 1, "a guard that fails is told at its own line"


def test_idle_iterations_that_are_not_there_starve_nobody(
    commands: Any, tmp_path: Path, write: Write
) -> None:
    """INV-PROGRESS.starved: a server without work writes nothing; each request that then comes has
    all its time."""
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
    verdict = judging.validate(write(lines))
    assert verdict.violations == [] and verdict.seen["gaps"] == 7


def test_without_clients_nothing_is_said_of_histories(record: Any, write: Write) -> None:
    """A recorder that keeps prompts to itself: INV-HISTORY and INV-ANSWER are not checked."""
    lines = [
        line for line in record() if line.get("command", {"do": "step"})["do"] in ("step", "tick")
    ]
    lines[0]["records"] = ["events"]
    verdict = judging.validate(write(lines))
    assert not verdict.violations
    assert (
        not verdict.coverage.checked["INV-HISTORY"] and not verdict.coverage.checked["INV-ANSWER"]
    )
    assert report.not_observed(verdict)["clients"] == "commands and messages were not recorded"


def test_without_events_steps_are_guessed_at(record: Any, write: Write) -> None:
    lines = record()
    lines[0]["records"] = ["commands", "messages"]
    for snapshot in snapshots(lines):
        del snapshot["events"]
    verdict = judging.validate(write(lines))
    assert not verdict.violations
    assert report.not_observed(verdict)["steps"] == "events were not recorded"


def test_steps_need_not_be_announced(record: Any, write: Write) -> None:
    """A live engine steps by itself: a snapshot line is an iteration."""
    lines = [line for line in record() if line.get("command", {}).get("do") not in ("step", "tick")]
    ticked = next(i for i, line in enumerate(lines) if line.get("command", {}).get("do") == "close")
    for line in lines[ticked:]:
        if "snapshot" in line:
            line["snapshot"]["iter"] += 100  # idle iterations that nobody wrote down
    snapshots(lines)[-1]["iter"] += 1
    assert not judging.validate(write(lines)).violations


def test_a_log_that_breaks_off(record: Any, write: Write) -> None:
    """Judged up to there; one line says so; status 0."""
    path = write(record())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 40])
    verdict = judging.validate(path)
    assert not verdict.violations
    assert verdict.cut == verdict.lines + 1
    said = f"cut off         line {verdict.cut} is not whole: judged up to line {verdict.lines}"
    assert said in list(report.text(verdict))
    assert status(["validate", str(path)]) == 0


def test_several_engines_in_one_file(record: Any, write: Write) -> None:
    """A header begins a fresh engine; what is told is that of the last one."""
    one = record()
    verdict = judging.validate(write([*one, *one]))
    assert not verdict.violations and verdict.lives == 2
    bad = judging.validate(write([*one, *record("22213-double-count")]))
    assert bad.line is not None and bad.line > len(one)
    assert bad.header.version == "1 with 22213-double-count"


def test_an_engine_that_failed(record: Any, write: Write) -> None:
    """INV-ALIVE at the line in which the recorder saw it."""
    lines = [*record()[:4], {"failed": {"how": "crash", "error": "CUDA error"}}]
    verdict = judging.validate(write(lines))
    assert (verdict.line, str(verdict.violations[0])) == (5, "INV-ALIVE.crash: CUDA error")


def test_why_the_recorder_stopped_is_told(record: Any, write: Write) -> None:
    lines = record()
    verdict = judging.validate(write([*lines, {"end": "no more room"}]))
    assert f"recorder        stopped at line {len(lines) + 1}: no more room" in report.text(verdict)
    assert "a line after the end" in wrong(write([*lines, {"end": "x"}, lines[1]]))


def test_a_header_alone_is_inconclusive(record: Any, write: Write) -> None:
    assert status(["validate", str(write(record()[:1]))]) == 3


def change(path: str, value: Any) -> Callable[[list[Line]], None]:
    """Set what a path of keys leads to, in the first line that has it; ``...`` removes it."""

    def apply(lines: list[Line]) -> None:
        first, *rest = path.split("/")
        target: Any = next(line for line in reversed(lines) if first in line)
        for key in (first, *rest)[:-1]:
            target = target[int(key) if isinstance(target, list) else key]
        last = (first, *rest)[-1]
        if value is ...:
            del target[last]
        else:
            target[int(last) if isinstance(target, list) else last] = value

    return apply


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (change("slotproof-log", 4), "line 1: the log is of version 4, this is 3"),
        (change("slotproof-log", 2), "line 1: the log is of version 2, this is 3"),
        (change("engine", {}), "line 1: engine/name: Field required"),
        (change("profile", "lmdeploy"), "line 1: unknown profile 'lmdeploy'"),
        (change("config/page_size", 3), "line 1: config: total_tokens=64 is no multiple"),
        (change("config/turbo", 1), "line 1: config/turbo: Extra inputs are not permitted"),
        (change("command/do", "jump"), "unknown command 'jump'"),
        (change("snapshot/iter", ...), "iter: Field required"),
        (change("snapshot/iter", 1), "out of order: iteration 1 after iteration"),
        (change("snapshot/slots", ...), "snapshot: pools comes with rows, sessions, slots"),
        (change("snapshot/pools/full/available", 2**53), "available: Input should be less than"),
        (
            change("snapshot/pools/full/available", 1.5),
            "available: Input should be a valid integer, not 1.5",
        ),
        (change("snapshot/rows/total", -1), "rows/total: Input should be greater than or equal"),
        (
            change("snapshot/pools/full/free", [True]),
            "full/free/0: Input should be a valid integer",
        ),
        (
            change("snapshot/rows/used", {"1": []}),
            "rows/used/1: Input should be a valid dictionary",
        ),
        (
            change("snapshot/rows/used", {"1": {"full": 7}}),
            "used/1/full: Input should be a valid list",
        ),
        (change("snapshot/tree/full", [[1]]), "tree/full/0/1: Field required"),
        (change("snapshot/tree/full", 3), "tree/full: Input should be a valid list, not 3"),
        (change("snapshot/events", [["T-MAGIC", None, None, {}]]), 'no transition "T-MAGIC"'),
        (
            change("snapshot/messages", [{"type": "finish"}]),
            "messages/0/finish/rid: Field required",
        ),
        (change("snapshot/pools/swa", {}), "pools/swa/total: Field required"),
    ],
)
def test_a_bad_line_is_named(edit: Any, text: str, record: Any, write: Write) -> None:
    lines = record()
    edit(lines)
    assert text in wrong(write(lines))


def test_parts_that_do_not_fit_each_other(record: Any, write: Write) -> None:
    """Valid by the schema, and still nothing that can be looked at: the line is named."""
    lines = record(config="p1-swa")
    number = next(n for n, line in enumerate(lines, 1) if "pools" in line.get("snapshot", {}))
    del lines[number - 1]["snapshot"]["pools"]["swa"]
    text = wrong(write(lines))
    assert f"line {number}: the figures make no sense together: there is a sliding window" in text


def test_an_error_of_ours_is_not_blamed_on_the_log(
    record: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of an oracle on a line that makes sense is our own bug, and is seen."""

    def slip(*_: object) -> None:
        raise KeyError("row")

    path = write(record())
    monkeypatch.setattr("slotproof.lockstep.referee.abstract", slip)
    with pytest.raises(KeyError, match="row"):
        judging.validate(path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the log is empty"),
        (b"Welcome!\n", "line 1: not JSON"),
        (b"\xff\xfe\n", "line 1: not JSON"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON"),
        (b"[]\n", "line 1: a line has one of slotproof-log, command"),
        (b'{"command": {"do": "flush"}, "snapshot": {}}\n', "line 1: a line has one of"),
        (b'{"command": {"do": "flush"}}\n', "line 1: the log has no header"),
        (b'{"slotproof-log": 1' + b"0" * 5000 + b"}\n", "line 1: not JSON"),
        (b'{"slotproof-log": NaN}\n', "line 1: not JSON"),
    ],
)
def test_what_is_no_log(content: bytes, text: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    assert text in wrong(path)


def test_garbage_in_the_middle_is_no_cut(record: Any, write: Write) -> None:
    path = write(record())
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"{broken\n", *lines[5:]]))
    assert wrong(path).startswith("line 6: not JSON")


def test_an_iteration_that_was_announced_and_is_not_there(record: Any, write: Write) -> None:
    lines = record()
    first = next(i for i, line in enumerate(lines) if line.get("command", {}).get("n") == 6)
    del lines[first + 6]
    text = wrong(write(lines))
    assert f"out of order: line {first + 1} announced an iteration that is not there" in text


def test_bad_logs_are_one_line_and_status_2(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((tmp_path, "Is a directory"), (tmp_path / "none", "No such file")):
        assert status(["validate", str(path)]) == 2
        out, err = capfd.readouterr()
        assert out == "" and err.count("\n") == 1 and text in err
    assert status(["validate", "x", "--profile", "lmdeploy"]) == 2
    assert status(["validate", "x", "--ignore", "INV-X.y"]) == 2


def test_run_and_replay_leave_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every example of a run is an engine of its own; a log ends with the counterexample."""
    log, again = tmp_path / "run.jsonl", tmp_path / "replay.jsonl"
    argv = ["run", "--config", "p1", "--out", str(tmp_path), "--log", str(log)]
    assert status([*argv, "--examples", "3", "--steps", "5", "--json"]) == 3
    capsys.readouterr()
    assert status(["validate", str(log), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["examples"] == 3 and document["status"] == 0
    assert (
        status(
            [*argv, "--engine", "reference:leak-full", "--seed", "4", "--examples", "20", "--json"]
        )
        == 1
    )
    found = json.loads(capsys.readouterr().out)
    assert status(["validate", str(log), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["line"] == document["lines"] == len(log.read_text().splitlines())
    assert {"INV-OWNER.lost"} <= {each["clause"] for each in document["violated"]}
    assert status(["replay", found["trace"], "--log", str(again), "--json"]) == 1
    capsys.readouterr()
    assert status(["validate", str(again)]) == 1
    assert "counterexample: line" in capsys.readouterr().out


def test_a_log_that_can_not_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No file: status 2. A full disk: told, and the run goes on."""
    argv = ["run", "--config", "p1", "--examples", "2", "--steps", "3", "--out", str(tmp_path)]
    assert status([*argv, "--log", str(tmp_path / "no" / "log")]) == 2
    assert "No such file or directory" in capfd.readouterr().err
    if Path("/dev/full").exists():
        assert status([*argv, "--log", "/dev/full"]) == 3
        assert "No space left on device: the log ends early" in capfd.readouterr().err


def test_failures_are_logged(tmp_path: Path) -> None:
    """An engine that breaks on reset or later: the log says how."""

    class Broken(InProcessEngine):
        broken_from_birth = False

        def reset(self, config: Any, seed: int) -> None:
            if self.broken_from_birth:
                raise EngineFailed("hang", "no answer within 10 s")
            super().reset(config, seed)

        def do(self, command: Command) -> Any:
            raise EngineFailed("crash", "boom")

    def begin_and_step(engine: LoggedEngine) -> None:
        engine.reset(CONFIGS["p1"], 0)
        engine.do({"do": "step", "n": 1})

    for born, clause in ((False, "INV-ALIVE.crash"), (True, "INV-ALIVE.hang")):
        engine = Broken()
        engine.broken_from_birth = born
        logged = LoggedEngine(engine, tmp_path / "log.jsonl")
        with pytest.raises(EngineFailed):
            begin_and_step(logged)
        logged.close()
        (violation,) = judging.validate(tmp_path / "log.jsonl").violations
        assert violation.clause == clause


def test_a_long_log_is_forgotten_as_it_is_read(
    record: Any, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answered requests are let go of; nothing is found that is not there."""
    monkeypatch.setattr("slotproof.logs.recorded._KEPT", 0)
    assert not judging.validate(write(record())).violations


def test_the_example_of_the_document(tmp_path: Path) -> None:
    """docs/reference/log.md."""
    document = Path(__file__).parents[3] / "docs" / "reference" / "log.md"
    example = document.read_text().split("## Example")[1].split("```")[1].lstrip()
    path = tmp_path / "example.jsonl"
    path.write_text(example)
    assert status(["validate", str(path)]) == 0
