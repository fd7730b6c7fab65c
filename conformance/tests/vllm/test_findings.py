"""vLLM's findings: the traces and scripts of `docs/findings` reproduce them on the releases named
by their pages. The scripts use vLLM alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.matrices.named_findings import again
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import load_trace
from tests import traces_again
from tests.processes import finished

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).parents[3]
FINDINGS = ROOT / "docs" / "findings"
SCRIPTS = FINDINGS / "scripts-vllm"
TRACES = sorted(FINDINGS.glob("vllm-*.itf.json"))
OPTIONS = ("turns-alone",)
"""Driver options. Traces with an option are in a folder of its name."""
WITH = [(name, path) for name in OPTIONS for path in sorted((FINDINGS / name).glob("vllm-*.json"))]
DRIVER = ROOT / "conformance" / "slotproof" / "drivers" / "vllm"
RECORDED = traces_again.by_release("vllm")
BUILDS = ("0.15.0", "0.30.0", "0.31.0", "0.33.0")
"""The oldest and newest release, and the releases around which most bugs were fixed."""
NEW = BUILDS[-1]

LAST = {
    "stale-block-hash": "0.31.0",
    "first-max-tokens": "0.30.0",
    "first-max-tokens-outgrows": "0.30.0",
    "resumed-behind-waiting": "0.30.0",
    "stop-in-round": "0.32.0",
    "stop-ahead": "0.30.0",
    "preempted-session-lost": "0.32.0",
    "resumed-in-flight": "0.25.0",
    "session-outgrows-context": NEW,
    "never-filled-block": NEW,
    "paused-session-pins": NEW,
    "larger-than-pool": NEW,
    "flush-paused-session": NEW,
    "resumed-sessions-deadlock": NEW,
}
"""The last release with the finding. All earlier releases have it, back to 0.15.0."""


def shows(name: str, build: str) -> bool:
    return [int(part) for part in build.split(".")] <= [int(part) for part in LAST[name].split(".")]


def named(path: Path) -> str:
    return path.name.removesuffix(".itf.json").split("-", 2)[2]


@pytest.fixture(scope="module")
def engine(build: str, python_of: Callable[[str], Path]) -> Iterator[Engine]:
    with closing(EngineSpec("vllm", python_of(build), step_timeout=60).open()) as opened:
        yield opened


def test_every_finding_has_a_page_a_script_and_a_trace() -> None:
    scripts = {path.stem for path in SCRIPTS.glob("*.py")} - {"__init__", "harness"}
    pages = {name for name in LAST if (FINDINGS / f"{name}.md").exists()}
    assert {named(path) for path in [*TRACES, *(path for _, path in WITH)]} == set(LAST)
    assert scripts == pages == set(LAST) - {"first-max-tokens-outgrows"}  # on the other's page


@pytest.mark.parametrize("build", BUILDS, scope="module")
@pytest.mark.parametrize("path", TRACES, ids=named)
def test_a_trace_shows_its_finding_where_the_release_has_it(path: Path, engine: Engine) -> None:
    trace = load_trace(path)
    referee = play(engine, trace.setup, trace.commands)
    clauses = {violation.clause for violation in referee.log[-1].violations}
    choices = {choice.partition(":")[0] for choice in referee.coverage.by_choice}
    assert bool(choices) == (named(path) == "paused-session-pins")
    assert (trace.violations[0].clause in clauses | choices) == shows(named(path), engine.version)


@pytest.mark.parametrize("build", [NEW], scope="module")
def test_an_answer_that_may_outgrow_the_context_was_not_refused(engine: Engine) -> None:
    """INV-ANSWER.nothing: vLLM ends the answer where the context ends, and accepts an abort until
    then."""
    tokens = list(range(1, 41))
    turn: Command = {
        "do": "submit",
        "session": "s1",
        "rid": "r1",
        "tokens": tokens,
        "max_new": 20,
        "stop": [],
    }
    commands: list[Command] = [{"do": "open", "session": "s1"}, turn, {"do": "step", "n": 2}]
    aborted: list[Command] = [*commands, {"do": "abort", "rid": "r1"}, {"do": "step", "n": 1}]
    ended: list[Command] = [*commands, {"do": "step", "n": 8}]
    for sequence in (aborted, ended):
        log = play(engine, Setup(CONFIGS["p1"]), sequence).log
        assert log[-1].violations == []
        (told,) = (one for seen in log[-1].snapshots for one in seen["messages"][:1])
        assert told["type"] == "finish" and len(told["tokens"]) == (2 if sequence is aborted else 8)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("option", "path"), WITH, ids=OPTIONS)
def test_a_trace_that_takes_an_option_of_the_driver(
    option: str, path: Path, build: str, python_of: Callable[[str], Path]
) -> None:
    """Turns checked one by one."""
    trace = load_trace(path)
    spec = EngineSpec(f"cmd:{python_of(build)} {DRIVER} --{option}", step_timeout=60)
    with closing(spec.open()) as opened:
        clauses = {violation.clause for violation in again(opened, trace)[-1].violations}
    assert clauses == {violation.clause for violation in trace.violations}


@pytest.mark.parametrize("build", RECORDED)
def test_a_committed_trace_is_what_this_code_makes(build: str) -> None:
    """Whole files are compared. If one differs, run `make traces` and look at the difference."""
    made = list(traces_again.made(RECORDED[build]))
    assert [(trace.path.name, trace.why_not) for trace in made if trace.stale] == []


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", sorted(set(LAST) - {"first-max-tokens-outgrows"}))
def test_a_script_shows_its_finding_where_the_release_has_it(
    name: str, build: str, python_of: Callable[[str], Path]
) -> None:
    done = finished([python_of(build), SCRIPTS / f"{name}.py"], timeout=300)
    assert done.returncode == int(shows(name, build)), done.stdout + done.stderr
    assert done.stdout.startswith(f"vLLM {build}\n")
    assert ("\nBUG: " in done.stdout) == shows(name, build)
    assert done.stdout.endswith("\nnot seen\n") != shows(name, build)
