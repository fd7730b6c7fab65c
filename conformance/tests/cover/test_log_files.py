"""Logs of several files, growing ones, and those with hashes in the place of tokens."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.drivers.sglang.slotproof_sglang.recording.lines import Files, TooMuch
from slotproof.drivers.sglang.slotproof_sglang.recording.settings import Settings
from slotproof.drivers.sglang.slotproof_sglang.recording.tokens import Keyed, Open
from slotproof.logs import following, judging, report
from slotproof.logs.files import files_of
from slotproof.logs.following import follow
from slotproof.logs.format import BadLog
from slotproof.protocol.snapshot import token_hash
from tests.recordings import Recording

WAYS = [
    pytest.param(every, key, id=f"every{every}-{'tokens' if key is None else 'hashes'}")
    for every in (1, 7)
    for key in (None, "k" * 16)
]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for file in files_of([path]) for line in file.read_bytes().splitlines()
    ]


def nothing(*_: object) -> None:
    """To be told of what is not looked at."""


@pytest.mark.parametrize(("every", "key"), WAYS)
def test_a_recording_of_several_files(every: int, key: str | None, tmp_path: Path) -> None:
    """By its name, its folder or its files; each of them can be judged alone."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 60, every, key).turns(40)
    files = files_of([path])
    assert len(files) > 3 and [file.name for file in files] == sorted(file.name for file in files)
    assert files[0].name == "log.jsonl.000001"
    verdict = judging.validate(path)
    assert not verdict.violations and verdict.lives == 1 and verdict.unseen == [0, 0]
    assert verdict.lines == len(lines_of(path))
    assert verdict.coverage.checked["INV-HISTORY"] and verdict.coverage.checked["INV-ANSWER"]
    for named in ([tmp_path], files):
        assert report.summary(judging.validate(named)) == report.summary(verdict) | {
            "log": report.summary(judging.validate(named))["log"]
        }
    alone = judging.validate(files[2])
    assert not alone.violations and alone.coverage.checked["INV-HISTORY"]
    before = sum(len(lines_of(file)) for file in files[:2])
    assert alone.unseen[0] == before
    missing = report.not_observed(alone)["lines"]
    assert missing.startswith(f"{before} are in files that are gone, up to iteration ")


@pytest.mark.parametrize("key", [None, "k" * 16])
def test_what_a_client_was_told_is_compared_over_files(key: str | None, tmp_path: Path) -> None:
    """INV-HISTORY: a turn's prompt is history and new tokens, also where only hashes say so."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 40, 1, key).turns(12)
    for file in files_of([path])[1:]:
        lines = lines_of(file)
        for line in lines:
            for view in line.get("snapshot", {}).get("requests", {}).values():
                if view["hash"] is not None and view["kind"] == "turn":
                    view["hash"] ^= 1
                    break
            else:
                continue
            break
        else:
            continue
        changed = tmp_path / "changed.jsonl"
        changed.write_text("".join(json.dumps(each) + "\n" for each in lines))
        found = judging.validate(changed)
        assert found.line == lines.index(line) + 1
        assert {each.clause for each in found.violations} == {"INV-HISTORY.prompt"}
        return
    pytest.fail("no file begins in the middle of a turn")


def test_a_hash_says_nothing_without_its_key() -> None:
    """Two keys, two hashes; hashes of lists that grow are those of the whole lists."""
    one, other = Keyed.under("a" * 16), Keyed.under("")
    assert one.more([1, 2]).more([3]).hash == one.more([1, 2, 3]).hash != one.more([1, 2]).hash
    assert Keyed.under("a" * 16).more([5]).hash == one.more([5]).hash != other.more([5]).hash
    assert Keyed.under("").more([5]).hash != other.more([5]).hash
    assert Open().more([1]).more([]).more([2, 3]).hash == token_hash([1, 2, 3])


def test_no_token_is_written(tmp_path: Path) -> None:
    """Lengths and hashes; no list of tokens, no list of stop tokens, no key."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 2).turns(8)
    said = [line["command"] for line in lines_of(path) if "command" in line]
    submits = [command for command in said if command["do"] == "submit"]
    assert len(submits) == 8
    assert all(set(each["tokens"]) == {"count", "hash"} and not each["stop"] for each in submits)
    assert "k" * 16 not in path.with_name("log.jsonl.000001").read_text()


def test_the_oldest_files_go(tmp_path: Path) -> None:
    """SLOTPROOF_RECORD_MEGABYTES is for all of them; what is gone is told, the rest is judged."""
    path = tmp_path / "log.jsonl"
    most = 200_000
    recording = Recording(path, most, 8)
    for _ in range(12):
        recording.turns(5)
        assert sum(file.stat().st_size for file in files_of([path])) <= most
    files = files_of([path])
    assert 2 < len(files) <= 9 and files[0].name != "log.jsonl.000001"
    verdict = judging.validate(path)
    assert not verdict.violations and verdict.lives == 1
    assert verdict.unseen[0] + verdict.lines == recording.files.lines
    files[2].unlink()
    verdict = judging.validate(path)
    assert not verdict.violations and verdict.lives == 2
    assert verdict.unseen[0] + verdict.lines == recording.files.lines


def test_files_that_can_not_be_written(tmp_path: Path) -> None:
    """No room for a single line, a line that nobody reads, a name that is taken."""
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
    """One line: an empty folder, one with two recordings, a file that goes on from nowhere."""
    with pytest.raises(BadLog, match=f"^{tmp_path}: Is a directory with no recording$"):
        judging.validate(tmp_path)
    text = tmp_path / "server.log"
    text.write_text("[12:00:00] pool memory leak detected! [full] total=64\n")
    with pytest.raises(BadLog, match=r"line 1: not JSON: .*: docs/how-to/validate-a-log\.md$"):
        judging.validate(text)
    text.unlink()
    Recording(tmp_path / "a", 1 << 20, 2).turns(1)
    Recording(tmp_path / "b", 1 << 20, 2).turns(1)
    with pytest.raises(BadLog, match="Is a directory with the recordings a, b: name one"):
        judging.validate(tmp_path)
    assert not judging.validate(tmp_path / "a").violations
    header = lines_of(tmp_path / "a")[0]
    known = {"sessions": {}, "requests": {}, "paused": False}
    header["continues"] = {"file": 2, "lines": 3, "iter": 4, "clients": known}
    path = tmp_path / "c.jsonl"
    events = {"snapshot": {"iter": 4, "events": []}}
    path.write_text(json.dumps(header) + "\n" + json.dumps(events) + "\n")
    with pytest.raises(BadLog, match="line 2: a file that goes on begins with a state"):
        judging.validate(path)


# Growing -------------------------------------------------------------------------------------


def comes_to(verdict: judging.Verdict) -> dict[str, Any]:
    """What must not depend on how a log was read."""
    return report.summary(verdict) | {"log": ""}


@pytest.mark.parametrize(("every", "key"), WAYS)
@pytest.mark.parametrize("broken", [False, True])
def test_cut_anywhere_and_gone_on(
    every: int, key: str | None, broken: bool, tmp_path: Path
) -> None:
    """Judged up to a byte, and from there on by another judge: the verdict of one judge."""
    path = tmp_path / "log.jsonl"
    Recording(path, 1 << 20, 30, every, key).turns(12)
    files = files_of([path])
    whole = [file.read_bytes() for file in files]
    if broken:
        lines = [json.loads(line) for line in whole[-1].splitlines()]
        at = max(n for n, line in enumerate(lines) if "pools" in line.get("snapshot", {}))
        lines[at]["snapshot"]["pools"]["full"]["available"] -= 4
        whole[-1] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        files[-1].write_bytes(whole[-1])
    expected = comes_to(judging.validate(path))
    assert expected["status"] == int(broken)
    rng = random.Random(7)
    for round_ in range(3):
        state = tmp_path / f"state{round_}.json"
        cuts = sorted(rng.randrange(200, sum(map(len, whole))) for _ in range(2))
        for cut in (*cuts, sum(map(len, whole))):
            left = cut
            for file, data in zip(files, whole, strict=True):
                file.unlink(missing_ok=True)
                if left > 0:
                    file.write_bytes(data[:left])
                left -= len(data)
            verdict = follow([path], None, (), nothing, nothing, state)
        assert comes_to(verdict) == expected


def test_a_growing_log_is_told_of_as_it_grows(tmp_path: Path) -> None:
    """Every line that can't be explained, when it is there; the judge goes on after it."""
    path, grown = tmp_path / "log.jsonl", tmp_path / "grown" / "log.jsonl"
    Recording(path, 1 << 20, 30).turns(24)
    grown.parent.mkdir()
    rest = [(file.name, line) for file in files_of([path]) for line in file.open("rb")]
    bad = [n for n, (_, line) in enumerate(rest) if b'"pools"' in line and n > 40 and n % 23 == 0]
    assert len(bad) > 2
    for number in bad:
        name, line = rest[number]
        document = json.loads(line)
        document["snapshot"]["pools"]["full"]["available"] -= 4
        rest[number] = name, json.dumps(document).encode() + b"\n"
    told: list[tuple[str, int]] = []
    at = {n: n + 1 - [name for name, _ in rest].index(rest[n][0]) for n in bad}
    done = 0

    def more() -> bool:
        nonlocal done
        assert {(str(grown.parent / rest[n][0]), at[n]) for n in bad if n < done} <= set(told)
        for name, line in rest[done : done + 10]:
            with (grown.parent / name).open("ab") as file:
                file.write(line)
        done += 10
        return done < len(rest) + 20

    more()
    verdict = follow(
        [grown],
        None,
        (),
        lambda found, _: told.append((found.file, found.line)),
        nothing,
        None,
        more,
    )
    assert len(bad) <= len(told) <= 2 * len(bad), "a state, and perhaps the one that comes of it"
    assert verdict.lines == len(rest)
    assert verdict.times["INV-SUM-FULL.equation"] >= len(bad)
    assert (verdict.found.file, verdict.line) == told[0] if verdict.found else False


@pytest.mark.parametrize("every", [1, 16])
def test_after_events_that_the_spec_can_not_explain(every: int, tmp_path: Path) -> None:
    """What follows up to the next state is left out and counted; from there on it is judged."""
    path = tmp_path / "log.jsonl"
    Recording(path, 8 << 20, 2, every).turns(24)
    lines = lines_of(path)
    at = next(
        n for n, line in enumerate(lines) if n > 30 and line.get("snapshot", {}).get("events")
    )
    lines[at]["snapshot"]["events"].insert(0, ["T-CLOSE", "nobody", None, {"u": 0, "swa_u": 0}])
    file = tmp_path / "changed.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told: list[int] = []
    verdict = follow(
        [file], None, (), lambda found, _: told.append(found.line), nothing, None, lambda: False
    )
    assert told == [at + 1] and verdict.lines == len(lines)
    assert (verdict.skipped > 0) == (every > 1)
    if every > 1:
        text = f"{verdict.skipped} iterations up to the next state"
        assert report.not_observed(verdict)["after a violation"] == text


@pytest.mark.slow
def test_a_long_log_takes_no_more_memory(tmp_path: Path) -> None:
    """Ten times the lines, the same judge: nothing is kept of a line but what comes next needs."""
    path = tmp_path / "log.jsonl"
    recording = Recording(path, 64 << 20, 4, every=8)
    turns, kept = 0, []

    def more() -> bool:
        nonlocal turns
        kept.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        recording.turns(20)
        tracemalloc.start()
        turns += 20
        return turns <= 500

    recording.turns(200)
    tracemalloc.start()
    try:
        verdict = follow([path], None, (), nothing, nothing, None, more)
    finally:
        tracemalloc.stop()
    assert not verdict.violations and verdict.lines > 3000
    assert len(kept) > 20 and max(kept[1:]) < 200_000


def test_states_that_are_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line, status 2: garbage, a change, another log, other choices; nothing is written."""
    path, state = tmp_path / "log.jsonl", tmp_path / "state.json"
    Recording(path, 1 << 20, 2).turns(2)
    argv = ["validate", str(path), "--resume", str(state)]
    assert status(argv) == 0 and status(argv) == 0
    good = state.read_text()
    other = tmp_path / "other" / "log.jsonl"
    other.parent.mkdir()
    Recording(other, 1 << 20, 2).turns(2)
    for text, more, words in (
        ("{", [], "not JSON"),
        ("[]", [], "no state of `validate`"),
        (good.replace("T-OPEN", "T-APEN"), [], "was changed"),
        (good.replace('"slotproof-follow": 2', '"slotproof-follow": 1'), [], "another version"),
        (good, ["--ignore", "INV-ONCE.reported"], "another --profile or --ignore"),
    ):
        state.write_text(text)
        capfd.readouterr()
        assert status([*argv, *more]) == 2
        out, err = capfd.readouterr()
        assert not out and err.count("\n") == 1 and words in err
        assert state.read_text() == text
    state.write_text(good)
    assert status(["validate", str(other), "--resume", str(state)]) == 2
    assert "of another log" in capfd.readouterr().err
    file = files_of([path])[0]
    file.write_bytes(file.read_bytes().replace(b'"reference"', b'"referenze"', 1))
    assert status(argv) == 2
    assert "another file than the one that was judged" in capfd.readouterr().err
    assert status([*argv[:-1], str(tmp_path / ("x" * 300))]) == 2


def test_a_file_that_went_while_nobody_looked(tmp_path: Path) -> None:
    """The state names a file that is gone: judging begins at the next, and the gap is told."""
    path, state = tmp_path / "log.jsonl", tmp_path / "state.json"
    recording = Recording(path, 1 << 20, 30)
    recording.turns(6)
    first = follow([path], None, (), nothing, nothing, state)
    recording.turns(30)
    files = files_of([path])
    for file in files[:-3]:
        file.unlink()
    verdict = follow([path], None, (), nothing, nothing, state)
    assert not verdict.violations
    assert verdict.lines + verdict.unseen[0] == recording.files.lines
    assert 0 < first.lines < verdict.lines and verdict.unseen[0]


@pytest.mark.parametrize("broken", [False, True])
def test_ctrl_c_ends_it_with_the_report_so_far(broken: bool, tmp_path: Path) -> None:
    """Status and report as ever; what was found was told before."""
    path, state = tmp_path / "log.jsonl", tmp_path / "state.json"
    Recording(path, 1 << 20, 2).turns(3)
    if broken:
        (file,) = files_of([path])
        file.write_bytes(file.read_bytes().replace(b'"protected":4', b'"protected":8', 1))
    argv = [sys.executable, "-m", "slotproof.cli.app", "validate", str(path)]
    process = subprocess.Popen(
        [*argv, "--follow", "--resume", str(state)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for _ in range(600):
        if state.exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == int(broken), err.decode()
    assert err == b""
    text = out.decode()
    assert ("conforms: the spec explains all" in text) == (not broken)
    assert text.count("INV-SUM-FULL.equation violated by reference") == int(broken)
    assert ("counterexample: line" in text) == broken
    assert following.BadState.__name__ not in text
