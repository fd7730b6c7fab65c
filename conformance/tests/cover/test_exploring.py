"""``explore``: the spec and the reference engine, exhaustively within small bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.cli.app import status
from slotproof.conformance.engines.base import EngineUnusable
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.campaign import Plan
from slotproof.conformance.search.exploring import CONFIGS, DEPTH, Reached, explore
from slotproof.conformance.search.exploring_words import Place, alphabet, class_of, place
from slotproof.conformance.traces import itf

SHALLOW = 4
"""Words: one less than the command's own depth, and all is reached already."""
COUNTS = {
    "tiny": Reached(classes=48, expanded=22, pairs=374, depth=4),
    "tiny-one": Reached(classes=65, expanded=27, pairs=461, depth=4),
    "tiny-chunk": Reached(classes=97, expanded=38, pairs=659, depth=4),
    "tiny-draft": Reached(classes=83, expanded=29, pairs=489, depth=4),
    "tiny-swa": Reached(classes=60, expanded=24, pairs=404, depth=4),
    "tiny-aligned": Reached(classes=116, expanded=40, pairs=695, depth=4),
    "tiny-wipe": Reached(classes=81, expanded=29, pairs=495, depth=4),
}


@pytest.mark.slow
def test_the_reference_engine_shows_everything() -> None:
    """Issue 3, done 4: every transition, both outcomes of every guard; the counts are pinned."""
    engine = InProcessEngine()
    outcome, reached = explore(engine, "reference", Plan(CONFIGS), SHALLOW)
    offered = engine.capabilities.transitions
    assert outcome.trace is None
    assert offered <= outcome.coverage.transitions.keys()
    assert outcome.coverage.guards(offered)[2] == []
    assert reached == COUNTS
    assert outcome.coverage.commands == 27690
    assert DEPTH > SHALLOW


# How words find their way ------------------------------------------------------------


def walked(*names: str, config: str = "tiny") -> Referee:
    """A referee after these words."""
    engine = InProcessEngine()
    words = alphabet(CONFIGS[config], engine.capabilities.commands)
    referee = Referee(engine, CONFIGS[config])
    for depth, name in enumerate(names):
        for command in place(referee, depth).spell(words[name]) or ():
            assert referee.do(command) == []
    return referee


def test_sessions_are_interchangeable() -> None:
    first, second = walked("open s1"), walked("open s2")
    assert first.world is not None
    assert second.world is not None
    assert class_of(first.world) == class_of(second.world)


def test_what_guards_ask_keeps_classes_apart() -> None:
    ways: list[tuple[str, ...]] = [
        ("open s1",),
        ("open s1", "large turn"),
        ("open s1", "large turn", "close s1"),
        ("open s1", "small turn"),
        ("open s1", "large turn", "retract"),
        ("plain",),
    ]
    worlds = [walked(*way).world for way in ways]
    assert len({class_of(world) for world in worlds if world is not None}) == len(ways)


def test_aborts_are_aimed() -> None:
    here = place(walked("open s1", "large turn", "plain"), 3)
    assert here.whose == {"s1": "r1", "": "r2"}
    assert here.spell(({"do": "abort", "rid": ""},)) == [{"do": "abort", "rid": "r2"}]
    assert here.spell(({"do": "abort", "rid": "s2"},)) is None


def test_requests_are_numbered_on() -> None:
    turn = {"do": "submit", "session": "s1", "tokens": [1], "max_new": 1, "stop": []}
    spelt = Place(sent=3).spell((turn, turn))
    assert spelt is not None
    assert [command["rid"] for command in spelt] == ["r4", "r5"]


def test_an_engine_is_not_asked_for_what_it_does_not_offer() -> None:
    offered = InProcessEngine().capabilities.commands - {"retract", "evict"}
    words = alphabet(EngineConfig(), offered)
    assert not {"retract", "retract, abort s1", "evict"} & words.keys()
    assert "step" in words


def test_a_configuration_that_nobody_can_run() -> None:
    with pytest.raises(EngineUnusable, match="page size 3 is not offered"):
        explore(InProcessEngine(), "reference", Plan({"odd": EngineConfig(3, 63)}), 1)


# Mutants -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "config", "length", "clause"),
    [
        ("22213-double-count", "tiny", 5, "INV-SUM-FULL.reported"),
        ("22790d-two-in-flight", "tiny", 4, "INV-INFLIGHT.iff"),
        ("22900-trim-forgets-cursor", "tiny-swa", 5, "INV-SUM-SWA.equation"),
        ("20557-empty-key", "tiny", 5, "INV-SUM-FULL.equation"),
    ],
)
def test_mutants_are_found(mutant: str, config: str, length: int, clause: str) -> None:
    plan = Plan({config: CONFIGS[config]})
    outcome, _ = explore(InProcessEngine(mutant), f"reference:{mutant}", plan, SHALLOW)
    assert outcome.trace is not None
    assert outcome.trace.minimal
    assert outcome.trace.violations[0].clause == clause
    assert len(outcome.trace.rows) == length


# The command -------------------------------------------------------------------------


def test_a_finding_is_reported_like_that_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = "reference:22213-double-count"
    assert status(["explore", "--engine", engine, "--config", "tiny", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    (path,) = tmp_path.iterdir()
    assert out.startswith("INV-SUM-FULL.reported violated by reference 1 with 22213-double-count")
    assert f"again: slotproof replay {path} --engine {engine}" in out
    assert out.endswith("counterexample: INV-SUM-FULL.reported\n")
    assert itf.load(path).minimal
    assert status(["replay", str(path)]) == 1


def document(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = status([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_too_shallow_for_everything_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["explore", "--engine", "reference", "--config", "tiny", "--depth", "1"]
    code, found = document(argv, capsys)
    assert code == found["status"] == 3
    assert found["explored"]["tiny"]["expanded"] == 1
    assert "T-SAVE" in found["transitions"]["never"]


def test_no_time_at_all_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = document(["explore", "--engine", "reference", "--seconds", "0.1"], capsys)
    assert code == 3
    assert found["out_of_time"]


def test_the_spec_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explore", "--depth", "4"]) == 3
    out = capsys.readouterr().out
    assert "4 deep, cut off there" in out
    assert "never: " in out
    assert out.endswith(
        "inconclusive: nothing broken, but the depth cut off what was not reached\n"
    )


def test_the_spec_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["explore", "--sessions", "1", "--pages", "2", "--page-size", "2", "--depth", "5"]
    code, found = document(argv, capsys)
    assert code == 3
    assert {(each["bounds"]["pages"], each["bounds"]["page_size"]) for each in found["bounds"]} == {
        (2, 2)
    }
    assert found["violated"] == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--pages", "0"], "--pages must be at least 1, not 0"),
        (["--config", "tiny"], "--config and --seconds are for --engine"),
        (["--engine", "reference", "--pages", "3"], "bound the spec; an engine has --config"),
        (["--engine", "reference", "--config", "x"], "unknown configuration 'x'; there are: tiny"),
        (["--engine", "reference", "--depth", "0"], "--depth must be at least 1, not 0"),
    ],
)
def test_wrong_usage_gets_one_line(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["explore", *argv]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
