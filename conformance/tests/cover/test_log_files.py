"""Logs in several files, logs that still grow, and logs with hashes in place of tokens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.drivers.sglang.slotproof_sglang.recording.lines import Files, TooMuch
from slotproof.drivers.sglang.slotproof_sglang.recording.settings import Settings
from slotproof.drivers.sglang.slotproof_sglang.recording.tokens import Keyed, Open
from slotproof.logs import judging, report
from slotproof.logs.format import STDIN, BadLog
from slotproof.protocol.snapshot import token_hash
from slotproof.reports.trace import load_trace
from tests.recordings import Recording, files_of, lines_of, write

WAYS = [
    pytest.param(every, key, id=f"every{every}-{'tokens' if key is None else 'hashes'}")
    for every in (1, 7)
    for key in (None, "k" * 16)
]


@pytest.mark.parametrize(("every", "key"), WAYS)
def test_a_recording_of_several_files(every: int, key: str | None, tmp_path: Path) -> None:
    """All files in order, the same lines on standard input, and a single file judged alone."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 60, every, key).turns(40)
    files = files_of(path)
    assert len(files) > 3 and [file.name for file in files] == sorted(file.name for file in files)
    assert files[0].name == "log.jsonl.000001"
    verdict = judging.validate(files)
    assert not verdict.violations and verdict.lives == 1 and verdict.unseen == [0, 0]
    assert verdict.lines == sum(len(lines_of(file)) for file in files)
    assert verdict.coverage.checked["INV-HISTORY"] and verdict.coverage.checked["INV-ANSWER"]
    one = tmp_path / "one"
    one.write_bytes(b"".join(file.read_bytes() for file in files))
    summary = report.summary(judging.validate(one))
    assert summary == report.summary(verdict) | {"log": str(one)}
    alone = judging.validate(files[2])
    assert not alone.violations and alone.coverage.checked["INV-HISTORY"]
    before = sum(len(lines_of(file)) for file in files[:2])
    assert alone.unseen[0] == before
    missing = report.not_observed(alone)["lines"]
    assert missing.startswith(f"{before} lines are in missing files, up to iteration ")


@pytest.mark.parametrize("key", [None, "k" * 16])
def test_what_a_client_was_told_is_compared_over_files(key: str | None, tmp_path: Path) -> None:
    """INV-HISTORY: a prompt is the history and new tokens, even if the log has only hashes."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 40, 1, key).turns(12)
    for file in files_of(path)[1:]:
        lines = lines_of(file)
        turns = (
            (number, view)
            for number, line in enumerate(lines, 1)
            for view in line.get("snapshot", {}).get("requests", {}).values()
            if view["hash"] is not None and view["kind"] == "turn"
        )
        for number, view in turns:
            view["hash"] ^= 1
            write(file, lines)
            verdict = judging.validate(file)
            assert verdict.line == number
            assert {violation.clause for violation in verdict.violations} == {"INV-HISTORY.prompt"}
            return
    pytest.fail("no file begins in the middle of a turn")


def test_a_hash_says_nothing_without_its_key() -> None:
    """Two keys give two hashes. The hash of a growing list equals the hash of the whole list."""
    one, other = Keyed.under("a" * 16), Keyed.under("")
    assert one.more([1, 2]).more([3]).hash == one.more([1, 2, 3]).hash != one.more([1, 2]).hash
    assert Keyed.under("a" * 16).more([5]).hash == one.more([5]).hash != other.more([5]).hash
    assert Keyed.under("").more([5]).hash != other.more([5]).hash
    assert Open().more([1]).more([]).more([2, 3]).hash == token_hash([1, 2, 3])


def test_no_token_is_written(tmp_path: Path) -> None:
    """The file has lengths and hashes, but no tokens, no stop tokens and no key."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 2).turns(8)
    (file,) = files_of(path)
    said = [line["command"] for line in lines_of(file) if "command" in line]
    submits = [command for command in said if command["do"] == "submit"]
    assert len(submits) == 8
    assert all(
        set(command["tokens"]) == {"count", "hash"} and not command["stop"] for command in submits
    )
    assert "k" * 16 not in file.read_text()


def test_the_oldest_files_go(tmp_path: Path) -> None:
    """SLOTPROOF_RECORD_MEGABYTES limits all files together. Deleted lines are counted."""
    path = tmp_path / "log.jsonl"
    most = 200_000
    recording = Recording(path, most, 8)
    for _ in range(12):
        recording.turns(5)
        assert sum(file.stat().st_size for file in files_of(path)) <= most
    files = files_of(path)
    assert 2 < len(files) <= 9 and files[0].name != "log.jsonl.000001"
    for remaining, lives in ((files, 1), (files[:2] + files[3:], 2)):
        verdict = judging.validate(remaining)
        assert not verdict.violations and verdict.lives == lives
        assert verdict.unseen[0] + verdict.lines == recording.files.lines


def test_files_that_can_not_be_written(tmp_path: Path) -> None:
    """No room for a single line, a line too long to read, a file name already in use."""
    files = Files(str(tmp_path / "log"), 1000, 4)
    files.begin({"a": 1})
    for line, text in (({"a": "x" * 2000}, "MEGABYTES"), ({"a": "x" * (9 << 20)}, "a line of")):
        with pytest.raises(TooMuch, match=text):
            files.write(line)
    other = Files(str(tmp_path / "log"), 1000, 4)
    other.begin({"a": 1})
    assert other.path == str(tmp_path / f"log.{os.getpid()}")


@pytest.mark.parametrize(
    ("name", "value"),
    [("FILES", "1"), ("KEY", "short"), ("MEGABYTES", "0"), ("TOKENS", "yes"), ("PAGES", "2")],
)
def test_settings_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"SLOTPROOF_RECORD_{name}"):
        Settings.of({"SLOTPROOF_RECORD": "x", f"SLOTPROOF_RECORD_{name}": value})


def test_what_is_no_recording(tmp_path: Path) -> None:
    """One line of error: an engine's own text, or a file that continues nothing."""
    text = tmp_path / "server.log"
    text.write_text("[12:00:00] pool memory leak detected! [full] total=64")
    with pytest.raises(BadLog, match=r"line 1: not JSON \(.*\); .*docs/how-to/validate-a-log\.md$"):
        judging.validate(text)
    Recording(tmp_path / "a", 1 << 20, 2).turns(1)
    with pytest.raises(BadLog, match=r"server\.log: line 1: not JSON"):
        judging.validate([tmp_path / "a.000001", text])
    torn = tmp_path / "torn"
    torn.write_text('{"slotproof-log": 3, "eng')
    assert judging.validate([tmp_path / "a.000001", torn]).cut == 1
    header = lines_of(tmp_path / "a.000001")[0]
    known = {"sessions": {}, "requests": {}, "paused": False}
    header["continues"] = {"file": 2, "lines": 3, "iter": 4, "clients": known}
    path = tmp_path / "c.jsonl"
    write(path, [header, {"snapshot": {"iter": 4, "events": []}}])
    with pytest.raises(BadLog, match="line 2: a continuing file must begin with a state"):
        judging.validate(path)


@pytest.mark.parametrize("every", [1, 16])
def test_after_events_that_the_spec_can_not_explain(every: int, tmp_path: Path) -> None:
    """Iterations up to the next state are skipped and counted. Judging resumes at the state."""
    path = tmp_path / "log.jsonl"
    Recording(path, 8 << 20, 2, every).turns(24)
    (file,) = files_of(path)
    lines = lines_of(file)
    at = next(
        n for n, line in enumerate(lines) if n > 30 and line.get("snapshot", {}).get("events")
    )
    lines[at]["snapshot"]["events"].insert(0, ["T-CLOSE", "nobody", None, {"u": 0, "swa_u": 0}])
    write(file, lines)
    judge = judging.Judge([file], None, ())
    assert [finding.line for finding in judge.findings()] == [at + 1]
    assert judge.verdict.lines == len(lines)
    assert (judge.verdict.skipped > 0) == (every > 1)
    if every > 1:
        text = f"{judge.verdict.skipped} iterations skipped up to the next state"
        assert report.not_observed(judge.verdict)["after a violation"] == text


# Growing -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_log_takes_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the lines need the same memory: the judge stores no line it no longer needs."""
    path = tmp_path / "log.jsonl"
    recording = Recording(path, 64 << 20, 4, every=8)
    recording.turns(200)
    (file,) = files_of(path)
    grown = file.open("rb")
    kept: list[int] = []

    def readline(most: int) -> bytes:
        if not (line := grown.readline(most)) and len(kept) <= 25:
            kept.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
            recording.turns(20)
            tracemalloc.start()
            line = grown.readline(most)
        return line

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(readline=readline)))
    tracemalloc.start()
    try:
        verdict = judging.validate(STDIN)
    finally:
        tracemalloc.stop()
    assert not verdict.violations and verdict.lines > 3000
    assert len(kept) > 20 and max(kept[1:]) < 200_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_log_is_followed_on_standard_input(number: signal.Signals, tmp_path: Path) -> None:
    """``tail -F LOG | slotproof validate -``: the first finding is printed and written at once. An
    interrupt ends the log, and the report follows."""
    path, out, log = tmp_path / "log.jsonl", tmp_path / "x.itf.json", tmp_path / "grown.jsonl"
    Recording(path, 1 << 20, 2).turns(3)
    (file,) = files_of(path)
    log.write_bytes(file.read_bytes().replace(b'"protected":4', b'"protected":8', 1))
    with subprocess.Popen(["tail", "-n", "+1", "-F", log], stdout=subprocess.PIPE) as tail:
        argv = [sys.executable, "-m", "slotproof.cli.app", "validate", "-", "--out", str(out)]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(argv, stdin=tail.stdout, stdout=said, stderr=said)
        deadline = time.monotonic() + 60
        while "At line" not in (tmp_path / "said").read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert load_trace(out, to_run=False).recorded is not None
        process.send_signal(number)
        code = process.wait(60)
        tail.kill()
    text = (tmp_path / "said").read_text()
    assert text.count("INV-SUM-FULL.equation violated by reference") == 1
    if number != signal.SIGKILL:
        assert code == 1
        assert text.rstrip().endswith("of standard input: INV-SUM-FULL.equation")


@pytest.mark.parametrize("count", [0, 5])
def test_a_log_that_was_interrupted_does_not_conform(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """Status 3: the rest of the log is not judged."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 2).turns(1)
    (file,) = files_of(path)
    lines = iter(file.read_bytes().splitlines(keepends=True)[:count])

    def readline(_: int) -> bytes:
        if not (line := next(lines, b"")):
            signal.raise_signal(signal.SIGINT)
        return line

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=SimpleNamespace(readline=readline)))
    last = cli(["validate", "-"], 3).splitlines()[-1:]
    assert last == ["inconclusive: interrupted; the spec explains the first 5 lines"][:count]
