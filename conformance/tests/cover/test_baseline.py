"""Baselines: known findings pass, new ones fail, and the file can be committed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.cli.app import status
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.search import baseline
from slotproof.conformance.search.baseline import Baseline, Entry

NOISE = "INV-SUM-FULL.reported@T-RESTORE"
RUN = ["run", "--engine", "reference:22213-double-count", "--config", "p1", "--examples", "12"]


def written(path: Path, *findings: dict[str, str]) -> Path:
    path.write_text(json.dumps({"slotproof_baseline": 1, "findings": list(findings)}))
    return path


def run(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    result = status([*RUN, *more, "--json"])
    return result, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_life_of_a_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found, written, explained by hand, known from then on, and gone one day."""
    path, out = tmp_path / "baseline.json", ["--out", str(tmp_path / "out")]
    code, summary = run(capsys, "--all", *out)
    assert code == 1 and [each["id"] for each in summary["findings"]] == [NOISE]
    assert Path(summary["findings"][0]["trace"]).exists()

    code, summary = run(capsys, "--baseline", str(path), "--update-baseline", *out)
    assert code == 0 and summary["new"] == 0
    assert summary["known"] == {NOISE: baseline.TO_EXPLAIN}

    document = json.loads(path.read_text())
    document["findings"][0]["reason"] = "#22213, mended in the next release"
    gone = {"id": "INV-OWNER.lost@T-CLOSE", "reason": "last year"}
    document["findings"].append(gone)
    path.write_text(json.dumps(document))
    code, summary = run(capsys, "--baseline", str(path), *out)
    assert code == 0 and summary["findings"] == []
    assert summary["known"] == {NOISE: "#22213, mended in the next release"}
    assert summary["gone"] == ["INV-OWNER.lost@T-CLOSE"]

    code, summary = run(capsys, "--baseline", str(path), "--update-baseline", *out)
    reasons = {each.id: each.reason for each in baseline.load(path).entries}
    assert reasons[NOISE].startswith("#22213") and reasons["INV-OWNER.lost@T-CLOSE"] == "last year"


def test_the_text_says_what_is_known_and_what_was_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path / "b.json",
        {"id": NOISE, "reason": "known"},
        {"id": "INV-ALIVE.crash@step:KeyError", "reason": "x"},
    )
    assert status([*RUN, "--baseline", str(path), "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"known           {NOISE}: known" in lines
    warning = "INV-ALIVE.crash@step:KeyError is in the baseline and was not seen"
    assert f"warning         {warning}" in lines
    assert lines[-1] == "nothing new, 1 known (seed 0)"
    assert not [*(tmp_path / "out").rglob("*.json")]


def test_an_entry_of_another_engine_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"id": NOISE, "engine": "sglang 0.5.10*", "reason": "x"}
    path = written(tmp_path / "b.json", other)
    code, summary = run(capsys, "--baseline", str(path), "--out", str(tmp_path))
    assert code == 1 and summary["new"] == 1 and summary["gone"] == []


def test_an_update_keeps_order_and_reasons() -> None:
    old = Baseline((Entry("INV-OWNER.lost@T-SAVE", "r", "e*"),))
    new = old.updated("e 1", {"INV-OWNER.lost@T-SAVE": None, "INV-OWNER.lost@T-CLOSE": "t.json"})
    assert new.entries[0] == old.entries[0]
    assert new.entries[1:] == (
        Entry("INV-OWNER.lost@T-CLOSE", baseline.TO_EXPLAIN, "e 1", "t.json"),
    )


GOOD = '{"id": "INV-OWNER.lost@T-CLOSE", "reason": "x"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"slotproof_baseline": 1,\n', "b.json: not JSON: EOF while parsing a value at line 3"),
        ("[]", "b.json: Input should be a valid dictionary, not a list"),
        ('{"slotproof_baseline": 2, "findings": []}', "b.json: Input should be 1, not 2"),
        (f'[{GOOD}, {{"id": "INV-OWNER.lost@T-SAVE"}}]', "entry 2, reason: Field required"),
        ('[{"id": "lost", "reason": "x"}]', "entry 1, id: String should match pattern"),
        (f'[{GOOD[:-1]}, "why": 1}}]', "entry 1, why: Extra inputs are not permitted"),
        ('[{"id": "INV-OWNER.gone@T-SAVE", "reason": "x"}]', "no clause 'INV-OWNER.gone'"),
        (f"[{GOOD}, {GOOD}]", "entry 2: INV-OWNER.lost@T-CLOSE of * is there twice"),
    ],
)
def test_a_broken_baseline_is_one_line(
    text: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.json"
    whole = (
        text
        if text[0] == "{" or text == "[]"
        else (f'{{"slotproof_baseline": 1, "findings": {text}}}')
    )
    path.write_text(whole)
    assert status([*RUN, "--baseline", str(path)]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith("slotproof: --baseline: ") and message in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--baseline", "/no/such/file"], "No such file or directory; --update-baseline makes one"),
        (["--update-baseline"], "--update-baseline needs --baseline FILE"),
        (["--jobs", "2"], "--jobs goes with --all"),
        (["--all", "--jobs", "0"], "--jobs must be at least 1"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_wrong_usage(more: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert status([*RUN, *more]) == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 1 and message in err


class Teller(InProcessEngine):
    """Tells of a transition that there is not, and calls itself like a pattern."""

    name = "mine[a]"

    def do(self, command: Command) -> list[Snapshot]:
        shown = super().do(command)
        for snapshot in shown:
            snapshot["events"] = [("T-X/../../../else é", None, None, {}), *snapshot["events"]]
        return shown


def test_a_strangers_words_are_in_no_identity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 12: an identity is part of file names and of baselines, which have to be read again."""
    monkeypatch.setitem(sys.modules, "stranger", sys.modules[__name__])
    path, out = tmp_path / "b.json", tmp_path / "deep" / "er" / "out"
    more = ["--engine", "stranger:Teller", "--baseline", str(path), "--out", str(out)]
    code, summary = run(capsys, *more, "--update-baseline")
    assert code in (0, 3) and "INV-STEP.unknown@event" in summary["known"]
    files = {each for each in tmp_path.rglob("*") if each.is_file()} - {path}
    assert files and all(each.parent == out for each in files)
    assert not [name for name in summary["transitions"]["counts"] if "T-X" in name]
    code, summary = run(capsys, *more)
    assert code in (0, 3) and summary["new"] == 0
