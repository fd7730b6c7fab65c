"""`prove --mutant`, `prove --progress`, `run`'s word on shorter traces."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.prove_invariants import failures
from slotproof.cli.refutation import table, trace
from slotproof.lockstep.observation import Violation
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search.report import compare
from slotproof.traces.record import Row
from slotproof.traces.spec_trace import render
from slotproof_model.proofs import prove as proofs
from slotproof_model.proofs.obligations import Result, tasks
from slotproof_model.proofs.prove import variables_of
from slotproof_model.spec import state
from slotproof_model.spec.expr import implies
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.whole import Spec


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


COVER = INVARIANTS["INV-COVER"]


def test_a_refuted_obligation_is_a_table_a_trace_and_a_page(
    workdir: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change of docs/how-to/read-and-change-the-spec.md: no token may be ahead."""
    exact = implies(state.has_kv, state.known >= state.req.C)
    changed = replace(COVER, conjuncts={**COVER.conjuncts, "req": exact})
    spec = Spec(invariants={**INVARIANTS, COVER.id: changed})
    monkeypatch.setattr(proofs, "prove", partial(proofs.prove, spec))
    said = cli(["prove", "--transition", "T-LAUNCH", "--page-size", "1"], 1)
    assert "T-LAUNCH / INV-COVER.req / P=1, refuted by this step:\n    T-LAUNCH d=" in said
    figures = re.search(r"req\.C +(\d+) +(\d+) +committed: positions with valid KV", said)
    assert figures is not None and int(figures[2]) > int(figures[1])
    assert re.search(r"req\.phase +running +running +`absent` < `waiting`", said)
    path = "slotproof-traces/spec-T-LAUNCH-INV-COVER.req.itf.json"
    assert re.search(rf"\ntrace +{path}\npage +slotproof show {path} --out page.html\n", said)
    page = cli(["show", path, "--format", "html"])
    cells = f'<td class="n">{figures[1]}</td><td class="n ch">{figures[2]}</td><td>committed: '
    assert f"<code>req.C</code></th>{cells}" in page
    assert '<code>req.phase</code></th><td class="n">running</td><td class="n">running</td>' in page
    assert "<h1>A request has KV beyond its known tokens</h1>" in page and COVER.sentence in page
    assert "The state before the step satisfies every hypothesis of the proof." in page
    assert "again: slotproof prove --transition T-LAUNCH --page-size 1\n" in cli(["show", path])


def test_a_symbolic_page_size_has_no_table() -> None:
    """The values after the step depend on the page size. A line tells how to get a table."""
    result = Result("T-SAVE [full]", "INV-OWNER.full", None, "refuted", model={"full.total": 1})
    nothing: dict[str, Any] = {"failed": [], "vacuous": []}
    (line,) = failures(nothing, [result])
    assert line == "table and page  slotproof prove --transition T-SAVE --page-size 4"


@pytest.mark.parametrize("transition", ["INIT", "T-EVICT", "T-REJECT", "T-SAVE"])
def test_every_refuted_step_has_a_table(transition: str) -> None:
    """A step of the counts, of a page, of a row, of a detached request, or of no effect at all."""
    for task in tasks(Spec(), transition):
        model = {var.name: 0 for var in variables_of(task)}
        result = Result(task.name, task.goals[0].clause, 4, "refuted", model=model)
        document = trace(result, Spec())
        assert next(table(document)).startswith(f"    {transition}")
        assert f"violated by the spec at {task.name}\n" in render(document)


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
