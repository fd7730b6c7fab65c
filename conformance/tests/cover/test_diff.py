"""`slotproof replay --against`: the same commands on two builds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.reports.trace import load_trace
from slotproof.traces import itf

ROOT = Path(__file__).parents[3]
TRACE = str(ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json")
MUTANT = "reference:22213-double-count"
FINDING = ROOT / "docs" / "findings" / "sglang-0.5.23-two-first-turns.itf.json"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the terminal wide, so that no expected text is wrapped."""
    monkeypatch.setenv("COLUMNS", "140")


def test_no_difference(cli: Any) -> None:
    assert "behave alike in all 5 commands" in cli(
        ["replay", TRACE, "--engine", "reference", "--against", "reference"]
    )


def test_from_the_first_command_at_which_they_differ(cli: Any) -> None:
    """#22213: the builds count alike until a slot is on loan."""
    shown = cli(["replay", TRACE, "--against", "reference"], 1)
    assert "alike in the first 4 of 5 commands:" in shown
    assert "1 + 2 = 65 ≠ 64" in shown
    assert "the builds first differ in command 5: full, its own check, violated" in shown


def test_a_document(cli: Any) -> None:
    comparison = cli.json(["replay", TRACE, "--against", "reference", "--json"], 1)
    assert (comparison["status"], comparison["first"]) == (1, 5)
    (only,) = comparison["differences"]
    assert only["aspects"]["full, its own check"] == [
        "62 + 0 + 0 + 1 + 2 = 65 ≠ 64",
        "62 + 0 + 0 + 0 + 2 = 64",
    ]
    assert only["aspects"]["violated"][1] == ""


def test_what_was_recorded_is_a_side(tmp_path: Path) -> None:
    """An old trace has fewer fields and is compared by the fields that it has."""
    assert status(["replay", TRACE, "--engine", MUTANT, "--against", TRACE]) == 0
    again = tmp_path / "again.itf.json"
    assert status(["replay", TRACE, "--engine", "reference", "--out", str(again)]) == 0
    assert status(["replay", TRACE, "--against", str(again)]) == 1
    assert status(["replay", str(again), "--engine", "reference", "--against", str(again)]) == 0


def test_a_trace_without_states_is_no_side(tmp_path: Path, cli: Any) -> None:
    """Nothing to compare is not "the same". The trace's commands can be replayed."""
    bare = tmp_path / "bare.itf.json"
    itf.save(load_trace(Path(TRACE)).without_states(), bare)
    err = cli.wrong(["replay", TRACE, "--against", str(bare)])
    assert f"{bare} has no states to compare: slotproof replay {bare} --engine E --out FILE" in err
    assert status(["replay", str(bare), "--against", TRACE]) == 0


def test_a_build_that_dies_goes_no_further(cli: Any) -> None:
    """#9173 ends the engine. The reference continues."""
    argv = ["replay", str(FINDING), "--engine", "reference", "--against", str(FINDING)]
    shown = cli(argv, 1)
    assert "INV-ALIVE.crash" in shown


def test_both_go_on_after_a_violation(cli: Any, tmp_path: Path) -> None:
    """A lockstep run ends at the first violation, a comparison does not."""
    document = json.loads(Path(TRACE).read_text())
    document["states"] += [document["states"][-1]] * 2
    longer = tmp_path / "longer.itf.json"
    longer.write_text(json.dumps(document))
    comparison = cli.json(["replay", str(longer), "--against", "reference", "--json"], 1)
    assert len(comparison["commands"]) == 7
    assert comparison["first"] == 5
    assert "not reached" not in json.dumps(comparison)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([str(FINDING), "--against", "reference"], "give --engine sglang==0.5.23"),
        ([TRACE, "--against", "nothing"], "unknown engine"),
        (
            [TRACE, "--against", str(FINDING)],
            "differs from the trace in commands, configuration or seed",
        ),
        ([TRACE, "--against", "x.json"], "x.json"),
        ([TRACE, "--against", "reference:leak-full@p"], "device 'p' can't be used"),
        ([TRACE, "--against", "reference", "--out", "x.itf.json"], "leave out --out and --log"),
    ],
)
def test_wrong_use(argv: list[str], says: str, cli: Any) -> None:
    assert says in cli.wrong(["replay", *argv])


def test_a_build_that_can_not_run_the_commands(cli: Any) -> None:
    toy = ROOT / "conformance" / "slotproof" / "drivers" / "examples" / "toy.py"
    drafts = ROOT / "docs" / "findings" / "sglang-0.5.10.post1-draft-tail.itf.json"
    argv = ["replay", str(drafts), "--engine", f"cmd:{sys.executable} {toy}"]
    assert "toy 1 does not offer “draft”" in cli.wrong([*argv, "--against", str(drafts)])
