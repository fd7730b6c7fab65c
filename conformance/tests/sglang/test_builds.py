"""Real SGLang builds, in environments made by `slotproof env`: `make test-sglang`."""

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.matrices.named_findings import again
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.reports import scripted
from slotproof.reports.scenario import Violated
from slotproof.reports.trace import load_trace
from slotproof.search import campaign
from slotproof.search.plan import Plan
from tests import traces_again

pytestmark = pytest.mark.sglang

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
REPORTING = (
    "INV-SUM-FULL.reported",
    "INV-ONCE.reported",
    "INV-CHECKER.figures",
    "INV-CHECKER.alarm",
)

FIXED = {
    "sglang-0.5.10.post1-double-count": "0.5.23",
    "sglang-0.5.10.post1-draft-tail": "0.5.12",
    "sglang-0.5.10.post1-retract-tail": "0.5.23",
    "sglang-0.5.10.post1-doomed-turn": "0.5.23",
    "sglang-0.5.10.post1-abort-running": "0.5.23",
    "sglang-0.5.10.post1-close-in-turn": "0.5.23",
    "sglang-0.5.18-queued-abort": "0.5.23",
    "sglang-0.5.18-swa-chunked-prompt": "0.5.23",
    "sglang-0.5.18-parked-not-counted": "0.5.23",
}
"""A release that passes the finding's test file."""
RECORDED = traces_again.by_release("sglang")
MATRIX = json.loads((FINDINGS / "matrix" / "matrix.json").read_text())


@pytest.fixture
def on_a_build(
    start: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Path, str], None]:
    """Run the pytest file of a trace, in this process, on a shared build."""

    def run(path: Path, engine: str) -> None:
        monkeypatch.setattr(EngineSpec, "open", lambda spec: start(spec.text, spec.patches))
        run_file(path, engine, tmp_path, monkeypatch)

    return run


@pytest.mark.parametrize("release", ["0.5.10.post1", "0.5.23"])
def test_the_rows_that_slots_hold_are_told_by_the_idle_check(
    release: str, start: Callable[[str], Engine]
) -> None:
    """INV-ROWS.reported (22213): `session_held_req_count`, if the engine's check uses it."""
    build = start(f"sglang=={release}")
    build.reset(CONFIGS["p1"], 0)
    commands: list[Command] = [
        {"do": "open", "session": "s1"},
        {"do": "submit", "session": "s1", "rid": "r1", "tokens": [1], "max_new": 2, "stop": []},
        {"do": "step", "n": 3},
    ]
    checks = [shown["checker"] for command in commands for shown in build.do(command)]
    assert ["held_rows" in check for check in checks] == [False, False, True]
    assert checks[-1]["held_rows"] == 1


@pytest.mark.parametrize(
    "path", sorted(FINDINGS.glob("sglang-*.itf.json")), ids=lambda path: path.stem
)
def test_every_finding_replays_on_its_release(
    path: Path, on_a_build: Callable[[Path, str], None]
) -> None:
    """The pytest file of the trace, from `show --format pytest`, fails."""
    trace = load_trace(path)
    with pytest.raises(Violated) as broken:
        on_a_build(path, trace.engine.replace(" ", "=="))
    said = {re.split(" at |[:,]", line)[0] for line in str(broken.value).splitlines()}
    assert said & {violation.clause for violation in trace.violations}


@pytest.mark.parametrize("name", FIXED)
def test_the_same_file_passes_where_the_finding_is_fixed(
    name: str, on_a_build: Callable[[Path, str], None]
) -> None:
    on_a_build(FINDINGS / f"{name}.itf.json", f"sglang=={FIXED[name]}")


@pytest.mark.parametrize("release", RECORDED)
def test_a_committed_trace_is_what_this_code_makes(release: str) -> None:
    """Whole files are compared. If one differs, run `make traces` and look at the difference."""
    made = list(traces_again.made(RECORDED[release]))
    assert [(trace.path.name, trace.why_not) for trace in made if trace.stale] == []


def test_the_file_of_a_finding_starts_its_build_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FINDINGS / "sglang-0.5.10.post1-double-count.itf.json"
    with pytest.raises(Violated, match="INV-ONCE"):
        run_file(path, "sglang==0.5.10.post1", tmp_path, monkeypatch)


def run_file(path: Path, engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the pytest file of a trace, in this process, on an engine."""
    trace = load_trace(path)
    monkeypatch.setenv("SLOTPROOF_ENGINE", engine)
    test = folder / "test_it.py"
    test.write_text(scripted.render(trace))
    runpy.run_path(str(test))[scripted.name_of(trace)]()


@pytest.mark.parametrize("release", MATRIX["columns"][:-2])
def test_every_cell_of_the_matrix_replays(release: str, start: Callable[[str], Engine]) -> None:
    """Every finding in the table of docs/findings replays on its build."""
    engine = start(release)
    column = MATRIX["columns"].index(release)
    cells = [(row, row["cells"][column]) for row in MATRIX["rows"]]
    linked = [(row, cell["link"]) for row, cell in cells if cell["kind"] == "bad"]
    assert linked
    for row, link in linked:
        trace = load_trace(FINDINGS / "matrix" / link)
        log = again(engine, trace)
        clauses = {violation.clause for violation in log[-1].violations}
        assert clauses & {trace.violations[0].clause, row["name"].partition("@")[0]}, row["name"]


def test_the_double_count_is_found_and_shrunk_on_0_5_10(start: Callable[[str], Engine]) -> None:
    """INV-ONCE, INV-SUM-FULL: at most 6 commands, without hints. Fixed in 0.5.23."""
    build = start("sglang==0.5.10.post1")
    outcome = campaign.run(build, "sglang", Plan({"p1": CONFIGS["p1"]}, examples=30))
    assert outcome.trace is not None and len(outcome.trace.rows) <= 6
    assert {"INV-ONCE", "INV-SUM-FULL"} & {v.invariant for v in outcome.trace.violations}
    later = start("sglang==0.5.23")
    log = play(later, outcome.trace.setup, outcome.trace.commands).log
    assert not log[-1].violations


def test_the_first_scenario_has_its_numbers(start: Callable[[str], Engine]) -> None:
    """67 of 64 on 0.5.10.post1 at turn 2's prefill, 64 on 0.5.23."""
    turns: list[Command] = [
        {"do": "open", "session": "s1"},
        {
            "do": "submit",
            "session": "s1",
            "rid": "r1",
            "tokens": list(range(1, 12)),
            "max_new": 4,
            "stop": [],
        },
        {"do": "step", "n": 6},
        {
            "do": "submit",
            "session": "s1",
            "rid": "r2",
            "tokens": [21, 22, 23, 24, 25],
            "max_new": 4,
            "stop": [],
        },
        {"do": "step", "n": 1},
    ]
    sums = {}
    for release in ("0.5.10.post1", "0.5.23"):
        build = start(f"sglang=={release}")
        log = play(build, Setup(CONFIGS["p1"], ignored=REPORTING), turns).log
        figures = log[-1].snapshots[-1]["checker"]["pools"]["full"]
        names = ("available", "evictable", "protected", "held", "uncached")
        sums[release] = sum(figures[name] for name in names)  # type: ignore[literal-required]
    assert sums == {"0.5.10.post1": 67, "0.5.23": 64}
