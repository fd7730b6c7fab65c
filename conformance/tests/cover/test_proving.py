"""`prove --mutant`, `run`'s word on shorter traces, `matrix --spec`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slotproof.conformance.cli.app import status
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.matrices.spec import collect
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.report import compare
from slotproof.conformance.tests.cover.test_cli import wrong
from slotproof.conformance.traces.trace import Row, Trace
from slotproof.model.kill import Verdict


def test_a_mutant_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status(["prove", "--mutant", "22790d-two-in-flight", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    meta = found["itf"]["#meta"]["slotproof-spec"]
    assert meta["minimal"] == {"depth": 3, "unsat_below": 2}
    assert meta["config"]["width"] >= 1
    assert "INV-INFLIGHT-STEP.keeps" in meta["violated"]
    assert status(["prove", "--mutant", "22790d-two-in-flight"]) == 1
    assert "shortest: 3 transitions" in capsys.readouterr().out
    assert (tmp_path / "slotproof-traces" / "spec-22790d-two-in-flight.itf.json").exists()


def test_a_depth_without_a_mutant_searches_the_spec(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["prove", "--depth", "2", "--page-size", "4"]) == 0
    assert "no counterexample of up to 2 transitions" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["prove", "--mutant", "nobody"], "no mutant 'nobody'"),
        (["prove", "--mutant", "22790d-two-in-flight", "--any"], "--mutant and --depth search"),
        (["prove", "--depth", "0"], "--depth"),
        (["matrix"], "one of --engines"),
        (["matrix", "--spec", "--mutants"], "one of --engines"),
        (["matrix", "--spec", "--jobs", "0"], "--jobs"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    argv: list[str], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert text in wrong(argv, capfd)


def _trace(transitions: int, clause: tuple[str, str] = ("INV-SUM-FULL", "equation")) -> Trace:
    submit = {"do": "submit", "session": "s1", "rid": "r1", "tokens": [1], "max_new": 1, "stop": []}
    rows = [Row(submit), Row({"do": "step", "n": 1}, ["T-EXTEND"] * transitions)]
    spec = "reference:22790a-abort-drops-row"
    found = [Violation(*clause, "")]
    return Trace("e", spec, "reference", EngineConfig(), 0, rows, found, minimal=True)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (_trace(5), "none is shorter"),
        (_trace(6), "needs 5 (slotproof prove --mutant 22790a-abort-drops-row)"),
        (_trace(4), None),
        (_trace(5, ("INV-ANSWER", "once")), None),
    ],
)
def test_what_is_said_of_shorter_traces(trace: Trace, words: str | None) -> None:
    """Nothing where the spec's search and the trace are not about the same thing."""
    said = compare(trace)
    assert (said is None) == (words is None)
    assert said is None or str(words) in str(said["text"])


def test_the_table_of_spec_mutants() -> None:
    table = collect(
        [
            Verdict("T-PARK/drop-guard/running", "killed", "T-PARK / INV-PHASE.row / P=4"),
            Verdict("T-PARK/drop-guard/x", "equivalent", "same steps"),
            Verdict("T-OPEN/drop-guard/y", "survives"),
        ],
        lambda _: None,
    )
    assert table.survivors == ["T-OPEN/drop-guard/y"]
    assert "| T-PARK | 2 | 1 | 1 | 0 |" in table.markdown()
    assert "| INV-PHASE | 1 |" in table.markdown()
    assert "survives: T-OPEN/drop-guard/y" in table.markdown()
    assert table.document()["fates"] == {"killed": 1, "equivalent": 1, "survives": 1}
