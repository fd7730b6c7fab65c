"""A verdict needs examples of every configuration on every build, and enough reached transitions.

Counts cover everything that was run. Progress names the build and the step.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import progress_line
from slotproof.cli.app import status
from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.search import campaign, report
from slotproof.search.campaign import Outcome
from slotproof.search.plan import FLOOR, Plan
from slotproof.support.statuses import FOUND, INCONCLUSIVE

DOUBLE, LEAK = "22213-double-count", "leak-full"
GATE = ["gate", "--base", "reference", "--config", "p1", "--examples", "3"]
NAMES = [*CONFIGS][:12]


pytestmark = pytest.mark.usefixtures("workdir")


# Needs of a gate ---------------------------------------------------------------------------------


def test_three_examples_are_no_verdict(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """Text, JUnit and the job summary name each build and its missing examples and transitions."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(workdir / "summary.md"))
    last = cli([*GATE, "--engine", "reference", "--junit", "junit.xml"], INCONCLUSIVE).splitlines()[
        -1
    ]
    assert last.startswith("inconclusive: base had under 20 examples in 1 of 1 configurations (p1)")
    assert "; head had under 20" in last and "T-OOM" in last and "may be enough" in last
    for file in ("junit.xml", "summary.md"):
        text = (workdir / file).read_text()
        assert "base had under 20 examples" in text and "head had under 20" in text, file
    assert 'errors="1"' in (workdir / "junit.xml").read_text()


def test_what_is_new_fails_whatever_was_not_run(cli: Any) -> None:
    said = cli.json([*GATE[:-1], "6", "--engine", f"reference:{DOUBLE}", "--json"], FOUND)
    assert said["new"] and [build["build"] for build in said["unearned"]["builds"]] == [
        "base",
        "head",
    ]
    head = said["unearned"]["builds"][1]
    assert head["few"]["p1"] == said["search"]["examples"] < FLOOR and "T-OOM" in head["never"]


def searched(run: dict[str, int], seconds: float, *never: str) -> tuple[Outcome, dict[str, Any]]:
    """Return a search in which every example took equally long."""
    outcome = Outcome("x", "reference", configs=[*run], run=Counter(run), seconds=seconds)
    share = round(1000 * seconds / sum(run.values()))
    outcome.spent = Counter({name: share * count for name, count in run.items()})
    for of, what in report.WANTED:
        outcome.covered["p1"].reached[of][what] += 1
    return outcome, {"transitions": {"never": [*never]}}


def plan(**more: Any) -> Plan:
    return Plan({name: EngineConfig() for name in NAMES}, floor=True, **more)


def test_what_is_missing_and_how_long_it_would_take() -> None:
    whole = searched(dict.fromkeys(NAMES, FLOOR), 240.0)
    half = searched({name: 10 if index < 4 else 20 for index, name in enumerate(NAMES)}, 200.0)
    timed = plan(examples=None, seconds=200.0)
    assert report.missing({"base": whole, "head": whole}, timed) is None
    shortfall = report.missing({"base": half, "head": whole}, timed)
    assert shortfall is not None and [build["build"] for build in shortfall["builds"]] == ["base"]
    names = ", ".join(NAMES[:3])
    assert shortfall["text"] == (
        f"base had under 20 examples in 4 of 12 configurations ({names} and 1 more); "
        "--seconds 270 is enough"
    ), "240 examples at one a second, and a tenth more"
    counted = report.missing({"the build": half}, plan(examples=200))
    assert counted is not None and counted["examples"] == 240
    assert counted["text"].endswith("; --examples 240 (about 270 s) is enough")


def test_only_configurations_of_both_builds_count() -> None:
    less = searched(dict.fromkeys(NAMES[1:], 20), 100.0)
    more = searched({name: 20 if index else 3 for index, name in enumerate(NAMES)}, 100.0)
    timed = plan(examples=None, seconds=100.0)
    assert report.missing({"base": less, "head": more}, timed) is None
    assert report.missing({"base": more, "head": more}, timed) is not None
    other = searched({"p4": 20}, 100.0)
    shortfall = report.missing({"base": searched({"p1": 20}, 100.0), "head": other}, timed)
    assert shortfall is not None and "no configuration in common" in shortfall["text"]


def test_a_transition_that_was_not_reached_is_named() -> None:
    shortfall = report.missing(
        {"the build": searched(dict.fromkeys(NAMES, 20), 100.0, "T-OOM")},
        plan(examples=None, seconds=100.0),
    )
    assert shortfall is not None and shortfall["builds"][0]["few"] == {}
    assert shortfall["text"] == "the build never reached T-OOM; --seconds 650 may be enough"


@pytest.mark.slow
def test_the_floor_comes_before_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example and each replay takes a second. Shrinking waits for the examples of all
    configurations."""
    now, reset = [0.0], InProcessEngine.reset

    def ticking(*args: Any) -> None:
        now[0] += 1
        reset(*args)

    monkeypatch.setattr(InProcessEngine, "reset", ticking)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    configs = {name: CONFIGS[name] for name in ("p1", "p4", "p1-draft")}
    timed = Plan(configs, examples=None, seconds=75.0, distinct=None, floor=True)
    outcome = campaign.run(InProcessEngine(LEAK), "x", timed)
    assert min(outcome.run.values()) >= FLOOR
    assert outcome.findings and outcome.replays


# Counts ------------------------------------------------------------------------------------------


class Counting(InProcessEngine):
    lives = 0

    def reset(self, config: EngineConfig, seed: int) -> None:
        self.lives += 1
        super().reset(config, seed)


@pytest.mark.parametrize("distinct", [4, None])
def test_everything_that_was_run_is_counted(distinct: int | None) -> None:
    """Examples after the first finding count too. Replays for shrinking are counted separately."""
    engine, small = Counting(LEAK), Plan({"p1": CONFIGS["p1"]}, examples=25, distinct=distinct)
    outcome = campaign.run(engine, "x", small)
    assert engine.lives == outcome.examples + outcome.replays
    said = report.summary(outcome, small, engine.capabilities)
    first = said["up_to_the_first"]
    assert 0 < first["examples"] <= said["examples"] and 0 < first["commands"] <= said["commands"]
    if distinct:
        assert first["examples"] < said["examples"]
    lines = [line.strip() for line in report.text(said)]
    assert f"{first['commands']} in {first['examples']} examples up to the first finding" in lines
    assert f"{said['replays']} more replays for shrinking" in lines


def test_an_example_is_counted_in_its_configuration(cli: Any) -> None:
    """A finding's number is that of an example run in its configuration."""
    argv = ["run", "--engine", f"reference:{DOUBLE}", "--all", "--config", "p1", "--config", "p4"]
    said = cli.json([*argv, "--examples", "40", "--json"], FOUND)
    findings = [finding for cause in said["causes"] for finding in cause["findings"]]
    for finding in findings:
        assert 1 <= finding["example"] <= said["examples_of"][finding["configuration"]]["run"]
    shown = cli([*argv, "--examples", "40"], FOUND)
    first = findings[0]
    where = f"example {first['example']} of configuration {first['configuration']}"
    assert where in shown


# Progress ----------------------------------------------------------------------------------------


def test_progress_says_which_build_and_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.0)
    status([*GATE[:-1], "6", "--engine", f"reference:{DOUBLE}"])
    said = capsys.readouterr().err
    for words in (
        "base, p1, 1 of 6",
        "head, p1, 1 of 6",
        "head, shrinking, 1 of",
        "head, replaying more slowly, ",
        "base, replaying new findings",
        "head, replaying in a fresh process, 0 of 1",
    ):
        assert words in said, words


def test_a_phase_that_tells_nothing_has_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_line, "EVERY", 0.05)
    monkeypatch.setattr(progress_line, "_TICK", 0.01)
    with progress_line.progress_bar(True) as tell:
        tell("base, explaining", 0, 1)
        time.sleep(0.3)
    assert capsys.readouterr().err.count("base, explaining, 0 of 1\n") >= 2
