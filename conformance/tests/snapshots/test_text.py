"""The exact text that people see.

``SLOTPROOF_UPDATE_SNAPSHOTS=1 pytest conformance/tests/snapshots`` writes the
files beside this one anew; look at the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from slotproof.cli.app import status

HERE = Path(__file__).parent
UPDATE = os.environ.get("SLOTPROOF_UPDATE_SNAPSHOTS") == "1"
TRACE = "double-count.itf.json"
DETAILED = "no-free-tail.itf.json"


def compare(name: str, text: str) -> None:
    path = HERE / f"{name}.txt"
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text()


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in texts are short, and the same everywhere."""
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    "what", ["engines", "mutants", "transitions", "invariants", "profiles", "configs"]
)
def test_list(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["list", what]) == 0
    compare(f"list-{what}", capsys.readouterr().out)


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    """A stored trace of #22213: its text depends on the trace and on nothing else."""
    assert status(["show", "--format", "text", TRACE]) == 0
    compare("show", capsys.readouterr().out)


@pytest.mark.parametrize("form", ["text", "markdown", "pytest"])
def test_show_in_every_form(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A stored trace of #22862 with its iterations; the page is tested in a browser."""
    assert status(["show", "--format", form, DETAILED]) == 0
    compare(f"show-{form}", capsys.readouterr().out)


def test_show_as_an_issue(capsys: pytest.CaptureFixture[str]) -> None:
    """What can be pasted upstream; the script that it folds away has the harness in it."""
    trace = HERE.parents[2] / "docs" / "findings" / "sglang-0.5.18-stub-takes-slot.itf.json"
    assert status(["show", "--format", "issue", str(trace)]) == 0
    shown = capsys.readouterr().out
    compare(
        "show-issue", re.sub(r"(?s)(<summary>.*?</summary>).*(?=</details>)", r"\1\n…\n", shown)
    )


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["replay", DETAILED, "--against", "reference"]) == 1
    compare("diff", capsys.readouterr().out)


def test_replay(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["replay", TRACE]) == 1
    compare("replay", capsys.readouterr().out)


def test_replay_on_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["replay", TRACE, "--engine", "reference"]) == 0
    compare("replay-reference", capsys.readouterr().out)


def without_speed(text: str) -> str:
    """Commands per second differ between machines."""
    return re.sub(r"; \d+ per second", "; N per second", text)


def test_run_that_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "--config", "p1", "--config", "p4", "--examples", "4", "--steps", "6"]
    assert status([*argv, "--seed", "7", "--out", str(tmp_path)]) == 3
    compare("run-inconclusive", without_speed(capsys.readouterr().out))


@pytest.mark.slow
def test_run_that_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["run", "--engine", "reference:21499-one-pool-check", "--config", "p1-swa"]
    assert status([*argv, "--out", "traces"]) == 1
    compare("run-found", without_speed(capsys.readouterr().out))


def test_run_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["run", "--help"]) == 0
    compare("run-help", capsys.readouterr().out)
