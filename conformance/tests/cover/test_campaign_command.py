"""``slotproof campaign``: what is typed in the evening, and what is there in the morning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotproof.reports.trace import load_trace

NOISE = "22213-double-count"
SMALL = ["--config", "p1", "--task", "5", "--step-timeout", "600"]


@pytest.mark.slow
def test_the_command_goes_on_and_reports(tmp_path: Path, cli: Any) -> None:
    """What a nightly job types, and in the morning."""
    argv = ["--engine", f"reference:{NOISE}", "--journal", tmp_path / "night", *SMALL]
    code, first = cli.ran("campaign", *argv, "--examples", 15)
    assert code == 1 and first["examples"] == 15 and first["how_sure"]["rounds"] == 5
    (cause,) = first["causes"]
    (found,) = cause["findings"]
    assert found["id"] == "INV-SUM-FULL.reported@T-RESTORE" and found["minimal"]
    assert Path(found["trace"]).parent == tmp_path / "night" / "traces"
    again = load_trace(Path(found["trace"]))
    assert again.states and len(again.rows) == 5
    code, second = cli.ran("campaign", *argv, "--examples", 25)
    assert code == 1 and second["examples"] == 25 and second["causes"] == first["causes"]
    code, told = cli.ran("campaign", "--journal", tmp_path / "night")
    assert code == 1 and told["causes"] == second["causes"]
    text = (tmp_path / "night" / "status.html").read_text()
    assert "All examples that were asked for" in text and found["id"] in text
    assert f'href="traces/{Path(found["trace"]).name.replace("@", "%40")}"' in text


@pytest.mark.slow
def test_a_merged_journal_goes_on_without_its_seed(tmp_path: Path, cli: Any) -> None:
    """It was given one of its own, which nobody has to know; one that is named has to be it."""
    argv = ["--engine", "reference", *SMALL]
    for seed in (1, 2):
        cli.ran(
            "campaign", *argv, "--journal", tmp_path / f"j{seed}", "--examples", 5, "--seed", seed
        )
    both = [word for seed in (1, 2) for word in ("--merge", tmp_path / f"j{seed}")]
    cli.ran("campaign", *both, "--journal", tmp_path / "both")
    on = [*argv, "--journal", tmp_path / "both", "--examples", 15]
    assert cli.ran("campaign", *on)[1]["examples"] == 15
    assert "--seed was" in cli.wrong(["campaign", *map(str, on), "--seed", "0"])


@pytest.mark.slow
def test_what_is_known_is_no_finding(tmp_path: Path, cli: Any) -> None:
    group = {"name": "noise", "engine": "reference *", "reason": "known"}
    seen = {"seen_as": ["INV-SUM-FULL.reported@T-RESTORE"], "traces": []}
    known = tmp_path / "known.json"
    known.write_text(json.dumps({"slotproof_baseline": 2, "groups": [{**group, **seen}]}))
    argv = ["--engine", f"reference:{NOISE}", "--journal", tmp_path / "j", *SMALL]
    code, said = cli.ran("campaign", *argv, "--examples", 20, "--baseline", known)
    assert code == 3 and said["causes"] == [], "few examples reach few transitions"
    error = cli.wrong(["campaign", *map(str, argv), "--examples", "20"])
    assert "--baseline was " in error and "and is none now" in error


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "say how far it goes: --seconds 28800 for a night, or --examples N"),
        (["--examples", "0"], "--examples must be at least 1"),
        (["--examples", "1", "--task", "0"], "--task must be at least 1"),
        (["--examples", "1", "--config", "p3"], "unknown configuration 'p3'"),
        (["--examples", "1", "--jobs", "0"], "--jobs must be at least 1"),
        (["--examples", "1", "--baseline", "nowhere.json"], "nowhere.json"),
        (["--merge", "x"], "--merge needs --journal"),
        (["--journal", "nowhere"], "nowhere/journal.jsonl: No such file"),
        (["--merge", "y", "--journal", "x", "--seconds", "3"], "searches nothing"),
        (["--merge", "nowhere", "--journal", "x"], "nowhere/journal.jsonl: No such file"),
        (["--examples", "1", "--journal", "/dev/null/x"], "--journal"),
    ],
)
def test_wrong_usage(argv: list[str], says: str, here: Path, cli: Any) -> None:
    assert says in cli.wrong(["campaign", *argv])
    assert list(here.iterdir()) == []
