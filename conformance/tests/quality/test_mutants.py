"""Every known bug is found with the default plan, and shrunk to a trace that replays."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotproof.conformance import campaign
from slotproof.conformance.campaign import Plan
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.traces.trace import Trace
from slotproof.impl.mutants import MUTANTS

pytestmark = pytest.mark.quality
PLAN = Plan(CONFIGS)
LONGEST = {"22213-double-count": 5}
"""Commands at most, where it is not 10."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_shrunk_and_replayed(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The clauses violated include one that the museum names."""
    trace = campaign.run(InProcessEngine(name), f"reference:{name}", PLAN).trace
    assert trace is not None, "it survives"
    assert trace.minimal
    assert len(trace.rows) <= LONGEST.get(name, 10), trace.commands
    violated = {violation.invariant for violation in trace.violations}
    assert violated & set(MUTANTS[name].breaks), trace.violations
    assert violations(trace, name) == trace.violations
    assert violations(trace, None) == []
    assert again(trace, name, monkeypatch, tmp_path) == trace


def violations(trace: Trace, mutant: str | None) -> object:
    """What a replay on a fresh engine finds."""
    log = campaign.replay(InProcessEngine(mutant), trace.config, trace.seed, trace.commands).log
    return log[-1].violations


def again(trace: Trace, name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Trace | None:
    """The same run once more, elsewhere; configurations in which nothing was found are left out."""
    go = campaign._Run.go

    def only_there(run: campaign._Run, examples: int, index: int) -> None:
        if run.config == trace.config:
            go(run, examples, index)

    monkeypatch.setattr(campaign._Run, "go", only_there)
    monkeypatch.chdir(folder)
    (folder / ".hypothesis" / "examples").mkdir(parents=True)
    return campaign.run(InProcessEngine(name), f"reference:{name}", PLAN).trace
