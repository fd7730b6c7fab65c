"""Campaigns that continue after a finding report every distinct one, for any number of jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Referee, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace, load_trace
from slotproof.search import campaign
from slotproof.search.campaign import Outcome
from slotproof.search.examples import Search, _Examples
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder, by_mark
from slotproof.search.plan import ExampleBatch, Plan
from slotproof.search.symptoms import AcceptedFindings
from slotproof.search.workers import Processes

pytestmark = pytest.mark.slow

NOISE, LEAK = "22213-double-count", "22862-no-free-tail"
BOTH = f"{NOISE}+{LEAK}"
REPORTED = "INV-SUM-FULL.reported@T-RESTORE"
COUNT = 20
PLAN = Plan({"p1-draft": CONFIGS["p1-draft"]}, examples=COUNT, distinct=None, seed=2)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Path]:
    """Return the findings of an engine with two bugs: one miscounts, the other loses memory."""
    out = tmp_path_factory.mktemp("traces")
    keep = Folder(out, by_mark("both-seed0")).keep
    return campaign.run(InProcessEngine(BOTH), "both", PLAN, keep=keep), out


def test_noise_does_not_hide_a_leak(both: tuple[Outcome, Path]) -> None:
    """Every restore shows the double count. Few restores show the leak, and later."""
    findings = {finding.id: finding for finding in both[0].findings}
    assert REPORTED in findings and "INV-SUM-FULL.equation@T-RESTORE" in findings
    assert all(
        finding.trace.minimal and len(finding.trace.rows) <= 6 for finding in findings.values()
    )
    assert both[0].coverage.ignored["INV-SUM-FULL.reported"] > 0
    assert both[0].examples >= COUNT, "it went on"
    assert 1 <= findings[REPORTED].first < findings["INV-SUM-FULL.equation@T-RESTORE"].first


def test_every_finding_has_a_file_that_replays(both: tuple[Outcome, Path]) -> None:
    outcome, out = both
    names = {f"both-seed0-{finding.mark.slug}.itf.json" for finding in outcome.findings}
    assert {path.name for path in out.iterdir()} == names
    for finding in outcome.findings:
        trace = load_trace(out / f"both-seed0-{finding.mark.slug}.itf.json")
        log = play(InProcessEngine(BOTH), trace.setup, trace.commands).log
        assert finding.mark.clause in {violation.clause for violation in log[-1].violations}


def test_jobs_change_nothing(both: tuple[Outcome, Path]) -> None:
    workers = Processes(EngineSpec(f"reference:{BOTH}"), 2)
    try:
        outcome = campaign.run(InProcessEngine(BOTH), "both", PLAN, workers=workers)
    finally:
        workers.close()
    assert outcome.findings == both[0].findings
    assert outcome.coverage == both[0].coverage and outcome.examples == both[0].examples


def test_it_is_kept_at_once_and_again_when_shorter() -> None:
    kept: list[list[Finding]] = []
    outcome = campaign.run(InProcessEngine(NOISE), "x", PLAN, keep=kept.append)
    assert [finding.id for finding in outcome.findings] == [REPORTED]
    assert [finding.trace.minimal for finding in kept[0]] == [False], "as it was found"
    assert kept[-1] == outcome.findings and outcome.findings[0].trace.minimal


def test_what_is_accepted_is_seen_and_not_kept() -> None:
    kept: list[list[Finding]] = []
    accepted = AcceptedFindings(frozenset([REPORTED]))
    outcome = campaign.run(InProcessEngine(NOISE), "x", PLAN, keep=kept.append, accepted=accepted)
    assert outcome.accepted == {REPORTED} and outcome.findings == [] and outcome.trace is None
    assert not [finding for findings in kept for finding in findings if finding.id == REPORTED]


def test_nothing_is_found_on_the_reference() -> None:
    outcome = campaign.run(InProcessEngine(), "x", replace(PLAN, examples=10))
    assert outcome.findings == [] and outcome.examples >= 10 and outcome.configs == ["p1-draft"]


class Interrupted(InProcessEngine):
    """Ctrl-C at the n-th command."""

    def __init__(self, mutant: str | None, at: int) -> None:
        super().__init__(mutant)
        self.left = at

    def do(self, command: Command) -> list[Snapshot]:
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return super().do(command)


def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the search stores the findings unshrunk."""
    engine = Interrupted("leak-full", 100)
    outcome = campaign.run(engine, "x", PLAN, keep=Folder(tmp_path, by_mark("x")).keep)
    assert outcome.interrupted and outcome.examples < COUNT
    assert outcome.findings and not any(finding.trace.minimal for finding in outcome.findings)
    assert len(list(tmp_path.iterdir())) == len(outcome.findings)


def test_time_that_is_over_ends_it() -> None:
    for distinct in (None, 4):
        plan = replace(PLAN, examples=5000, seconds=0.5, distinct=distinct)
        outcome = campaign.run(InProcessEngine(), "x", plan)
        assert outcome.out_of_time and not outcome.interrupted
        assert outcome.examples < 5000


def test_time_is_kept_for_shrinking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock ticks with each example. The search stops early, to leave time for shrinking."""
    examples = 0
    begin = _Examples.begin

    def counted(host: _Examples) -> Referee | None:
        nonlocal examples
        judge = begin(host)
        examples += judge is not None
        return judge

    monkeypatch.setattr(_Examples, "begin", counted)
    monkeypatch.setattr("slotproof.search.plan.time.monotonic", lambda: float(examples))
    plan = replace(PLAN, examples=5000, seconds=60)
    outcome = campaign.run(InProcessEngine(LEAK), "x", plan)
    assert outcome.findings and all(finding.trace.minimal for finding in outcome.findings)
    assert outcome.out_of_time and 42 < outcome.examples <= 60, "it went on with what was left"


def test_processes_that_were_stopped_work_again() -> None:
    """Stopping the search must not stop the shrinking."""
    blank = Trace("reference 1", "x", "reference", CONFIGS["p1-draft"], 0, [], [], minimal=False)
    tasks = [Search(PLAN, ExampleBatch("p1-draft", 0, 0, 20), blank)]
    workers = Processes(EngineSpec("reference"), 2)
    try:
        cut = workers.map(tasks, lambda *_: None, lambda: True)
        whole = workers.map(tasks, lambda *_: None, lambda: False)
    finally:
        workers.close()
    assert cut[0].examples < 20 <= whole[0].examples


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
def test_processes_end_when_their_parent_is_killed() -> None:
    """Killed, not asked to stop: neither a process nor its driver may stay."""
    code = """
import sys, time
from slotproof.engines.registry import EngineSpec
from slotproof.search.workers import Processes

workers = Processes(EngineSpec("reference"), 1)
print(workers._pool.submit(__import__("os").getpid).result(), flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    os.kill(worker, 0)  # raises if the process is gone
    parent.kill()
    parent.wait()
    for _ in range(600):
        if _ended(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the process outlives its parent")


def _ended(pid: int) -> bool:
    """Return True if the process is gone, or waits for init to reap it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
