"""The exact text of the command line's output.

``SLOTPROOF_UPDATE_SNAPSHOTS=1 pytest conformance/tests/snapshots`` rewrites the files beside this
one. Look at the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

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
def short_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in texts are short, and the same everywhere."""
    monkeypatch.chdir(HERE)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    "what", ["engines", "mutants", "transitions", "invariants", "profiles", "configs"]
)
def test_list(what: str, cli: Any) -> None:
    compare(f"list-{what}", cli(["list", what]))


def test_show(cli: Any) -> None:
    """A stored trace of #22213: its text depends on the trace and on nothing else."""
    compare("show", cli(["show", "--format", "text", TRACE]))


@pytest.mark.parametrize("form", ["text", "markdown", "pytest"])
def test_show_in_every_form(form: str, cli: Any) -> None:
    """A stored trace of #22862 with its iterations. Tests in a browser cover the page."""
    compare(f"show-{form}", cli(["show", "--format", form, DETAILED]))


def test_show_as_an_issue(cli: Any) -> None:
    """An issue to paste upstream. Its folded script contains the harness."""
    trace = HERE.parents[2] / "docs" / "findings" / "sglang-0.5.18-stub-takes-slot.itf.json"
    shown = cli(["show", "--format", "issue", str(trace)])
    compare(
        "show-issue", re.sub(r"(?s)(<summary>.*?</summary>).*(?=</details>)", r"\1\n…\n", shown)
    )


def test_diff(cli: Any) -> None:
    compare("diff", cli(["replay", DETAILED, "--against", "reference"], 1))


def test_replay(cli: Any) -> None:
    compare("replay", cli(["replay", TRACE], 1))


def test_replay_on_the_reference(cli: Any) -> None:
    compare("replay-reference", cli(["replay", TRACE, "--engine", "reference"]))


def without_speed(text: str) -> str:
    """Commands per second differ between machines."""
    return re.sub(r"; \d+ per second", "; N per second", text)


def test_run_that_is_inconclusive(tmp_path: Path, cli: Any) -> None:
    argv = ["run", "--config", "p1", "--config", "p4", "--examples", "4", "--steps", "6"]
    compare(
        "run-inconclusive", without_speed(cli([*argv, "--seed", "7", "--out", str(tmp_path)], 3))
    )


@pytest.mark.slow
def test_run_that_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["run", "--engine", "reference:21499-one-pool-check", "--config", "p1-swa"]
    compare("run-found", without_speed(cli([*argv, "--out", "traces"], 1)))


def test_run_help(cli: Any) -> None:
    compare("run-help", cli(["run", "--help"]))
