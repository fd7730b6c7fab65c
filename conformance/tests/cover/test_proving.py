"""`prove --mutant`, `prove --progress`, `run`'s word on shorter traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotproof.lockstep.observation import Violation
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search.report import compare
from slotproof.traces.record import Row
from slotproof_model.proofs import prove as proofs


def test_a_mutant_is_refuted(workdir: Path, cli: Any) -> None:
    result = cli.json(["prove", "--mutant", "22790d-two-in-flight", "--json"], 1)
    meta = result["itf"]["#meta"]["slotproof-spec"]
    assert meta["minimal"] == {"depth": 3, "unsat_below": 2}
    assert meta["config"]["width"] >= 1
    assert "INV-INFLIGHT-STEP.keeps" in meta["violated"]
    assert "shortest: 3 transitions" in cli(["prove", "--mutant", "22790d-two-in-flight"], 1)
    assert (workdir / "slotproof-traces" / "spec-22790d-two-in-flight.itf.json").exists()


def test_the_spec_itself_is_searched(cli: Any) -> None:
    assert "no counterexample of up to 2 transitions" in cli(
        ["prove", "--mutant", "spec", "--depth", "2", "--page-size", "4"]
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_how_far_a_proof_is(jobs: int) -> None:
    """Progress counts transitions times page sizes, in this process or in several."""
    told: list[tuple[int, int]] = []
    only = ["T-OPEN", "T-PARK"]
    proofs.prove(page_sizes=[1, 4], jobs=jobs, only=only, tell=lambda *counts: told.append(counts))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["prove", "--mutant", "nobody"], "no mutant 'nobody'"),
        (["prove", "--mutant", "spec", "--depth", "0"], "--depth must be at least 1, not 0"),
        (["prove", "--mutant"], "Option '--mutant' requires an argument"),
        (["prove", "--jobs", "-1"], "--jobs must be at least 0, not -1"),
    ],
)
def test_what_makes_no_sense_is_one_line(argv: list[str], text: str, cli: Any) -> None:
    assert text in cli.wrong(argv)


def _trace(transitions: int, clause: tuple[str, str] = ("INV-SUM-FULL", "equation")) -> Trace:
    submit = {"do": "submit", "session": "s1", "rid": "r1", "tokens": [1], "max_new": 1, "stop": []}
    rows = [Row(submit), Row({"do": "step", "n": 1}, ["T-EXTEND"] * transitions)]
    spec = "reference:22790a-abort-drops-row"
    violations = [Violation(*clause, "")]
    return Trace("e", spec, "reference", EngineConfig(), 0, rows, violations, minimal=True)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (_trace(5), "no trace is shorter"),
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


# Progress -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_progress_is_a_theorem_with_its_rank_and_its_choice(cli: Any) -> None:
    said = cli(["prove", "--progress", "--page-size", "4"])
    for word in ("theorem", "rank", "choice          T-DISCARD", "obligations proved", "rests on"):
        assert word in said
    result = cli.json(["prove", "--progress", "--any", "--profile", "sglang", "--json"])
    assert result["failed"] == [] and result["itf"] is None
    assert result["page_sizes"] == ["any"] and len(result["rank"]) == 4
    assert result["explored"]["waiting"] > 100


@pytest.mark.parametrize("argv", [["--without", "T-DISCARD"], ["--profile", "vllm"]])
def test_without_the_choice_an_idle_session_keeps_others_waiting(
    argv: list[str], workdir: Path, cli: Any
) -> None:
    """docs/findings/idle-session-pins.md, of the spec."""
    said = cli(["prove", "--progress", "--page-size", "1", *argv], 1)
    assert "refuted: PROGRESS [cases] / CASES.covered / P=1" in said
    assert "INV-PROGRESS.starved violated by the spec without T-DISCARD: r1 waits forever" in said
    assert "  6  T-PLAIN-SUBMIT prompt=2" in said
    (trace,) = workdir.glob("slotproof-traces/*.itf.json")
    assert "again: slotproof prove --progress --without T-DISCARD" in cli(["show", str(trace)])


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--progress", "--without", "T-OPEN"], "--without 'T-OPEN' changes nothing"),
        (["--progress", "--profile", "nobody"], "unknown profile 'nobody'"),
        (["--without", "T-OPEN"], "--without applies only to --progress"),
        (["--profile", "vllm"], "--profile applies only to --progress"),
        (["--progress", "--jobs", "2"], "--jobs applies only to the proof of the invariants"),
        (["--progress", "--mutant", "spec"], "--mutant and --progress exclude each other"),
        (["--mutant", "spec", "--any"], "--any applies only to the proof of the invariants and"),
        (["--depth", "2"], "--depth applies only to --mutant"),
        (["--progress", "--depth", "0"], "--depth applies only to --mutant"),
        (["--transition", "T-NOBODY"], "there is no transition 'T-NOBODY'"),
    ],
)
def test_what_a_proof_does_not_take_is_one_line(argv: list[str], text: str, cli: Any) -> None:
    assert text in cli.wrong(["prove", *argv])
