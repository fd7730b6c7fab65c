"""Every bug of the museum is found with the default plan, and shrunk to a trace that replays."""

from __future__ import annotations

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.driver_checks.driver import ScriptRun
from slotproof.driver_checks.meanings import sign
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import play
from slotproof.protocol.config import CONFIGS
from slotproof.reports import forms, scripted
from slotproof.reports.localisation import suspects
from slotproof.reports.scenario import Violated
from slotproof.reports.trace import Trace, from_itf
from slotproof.reports.view import View
from slotproof.search import campaign
from slotproof.search.examples import Search, Searched
from slotproof.search.plan import Plan
from slotproof.traces import itf
from slotproof_engine.mutants import MUTANTS, results
from slotproof_model.spec.invariants import INVARIANTS
from tests.cover.telling import telling

pytestmark = pytest.mark.quality
PLAN = Plan({}).of(InProcessEngine().capabilities)
PLAIN = Plan(CONFIGS)
"""Few features at once, so that only one bug explains a finding."""
LONGEST = {"22213-double-count": 5, "abort-unheard": 11, "queue-newest-first": 11}
"""Maximum number of commands, where it is not 10."""
EXPLAINED = {
    "22753-sticky-active": "T-REFUSE does not set slot.lent to false",
    "20070-unaligned-protected": "T-RESTORE sets req.Q to slot.C, not to slot.Q",
    "20557-empty-key": "T-RESTORE does not free full [⌈end⌉, ⌈slot.A⌉)",
    "22862-no-free-tail": "T-RESTORE does not free full [⌈end⌉, ⌈slot.A⌉)",
    "22862m-extra-minus-one": (
        "T-RESTORE takes min(req.C, known − reserve) for min(slot.C, known − reserve)"
    ),
    "22862r-unaligned-free-tail": "T-SAVE frees full [⌊end⌋, ⌈req.A⌉), not full [⌈end⌉, ⌈req.A⌉)",
    "22897-no-trim": "T-SAVE cuts nothing: req.A stays as it is",
    "22900-trim-forgets-cursor": (
        "T-SAVE sets slot.E to req.E, not to min(req.E, cut(answered, req.E))"
    ),
    "32163-unaligned-reuse": "T-RESTORE takes min(slot.C, known − reserve) for reusable",
    "26676-restore-does-nothing": "T-RESTORE leaves the KV that req describes as it is",
    "22790a-abort-drops-row": (
        "T-ABORT leaves the slot as it is; does not free full [req.Q, ⌈req.A⌉)"
    ),
    "22790b-first-turn-abort": "T-ABORT moves no memory",
    "22790c-history-at-create": "T-SUBMIT also sets session.history to 0",
    "leak-swa": (
        "T-SWA-ADVANCE frees swa [max(req.Q, req.E) + 1, e), not swa [max(req.Q, req.E), e)"
    ),
}
"""Explanation of a mutant's finding: the bug, in words of the spec."""
UNEXPLAINED = {
    "20476-restore-empties-slot": "the slot's KV, row and lock become the request's",
    "22273-doomed-restores": "a doomed turn restores, runs and is saved: three transitions",
    "22790d-two-in-flight": "a session has two turns, and the spec knows of one",
    "21875a-close-releases-running": "the running turn's memory goes, and the turn goes on",
    "42571-double-free": "one page of several is given back twice",
    "2954-double-unpin": "every figure is right",
    "leak-full": "the allocator loses a page, whoever frees it",
}
"""Reason why no single change of the spec is the bug."""
SEEDS = {
    "20070-unaligned-protected": 1,
    "22862m-extra-minus-one": 1,
    "32163-unaligned-reuse": 1,
    "42571-double-free": 1,
    "leak-full": 1,
    "leak-swa": 2,
}
"""Seeds for mutants whose trace of seed 0 is also explained by another change of the spec."""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found_shrunk_and_replayed(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The violated clauses include a clause named by the museum, or a step that breaks the spec."""
    trace = campaign.run(InProcessEngine(name), f"reference:{name}", PLAN).trace
    assert trace is not None, "it survives"
    assert trace.minimal
    assert len(trace.rows) <= LONGEST.get(name, 10), trace.commands
    violated = {violation.invariant for violation in trace.violations}
    assert violated & {*MUTANTS[name].breaks, "INV-STEP"}, trace.violations
    ours = [
        violation for violation in trace.violations if violation.invariant != "INV-ALIVE"
    ]  # the engine's words
    silent = [str(violation) for violation in ours if not telling(violation)]
    assert not silent, "a sentence with neither figures nor names"
    lead = trace.violations[0]  # The identity of the finding comes from the first violation.
    assert sorted(violations(trace, name), key=lambda other: other != lead) == trace.violations
    assert violations(trace, None) == []
    assert again(trace, name, monkeypatch, tmp_path) == trace
    document = json.loads(json.dumps(itf.to_itf(trace)))
    assert from_itf(document) == trace
    made = forms.write_all({f"{name}.itf.json": trace}, tmp_path / "forms")
    assert len(made) == len({*forms.FORMS} - {"issue", "script"}) + 1  # These forms need a release.
    (test,) = (tmp_path / "forms").glob("test_*.py")
    with pytest.raises(Violated, match=re.escape(trace.violations[0].clause)):
        run_file(test, trace, monkeypatch, None)
    run_file(test, trace, monkeypatch, "reference")


@pytest.mark.parametrize("name", [mutant.name for mutant in results.MUTANTS])
def test_content_stamps_are_not_needed(name: str) -> None:
    """The spec alone finds bugs of results, answers, slack and economy."""
    stamps = tuple(f"INV-CONTENT.{conjunct}" for conjunct in INVARIANTS["INV-CONTENT"].observed)
    plan = replace(PLAN, ignored=stamps, shrink=0)
    assert campaign.run(InProcessEngine(name), f"reference:{name}", plan).findings


@pytest.mark.parametrize("name", [*EXPLAINED, *UNEXPLAINED])
def test_a_finding_is_explained_by_the_bug_alone(name: str) -> None:
    plan = replace(PLAIN, seed=SEEDS.get(name, 0))
    trace = campaign.run(InProcessEngine(name), f"reference:{name}", plan).trace
    assert trace is not None
    if name in EXPLAINED:
        assert EXPLAINED[name] in [explanation.words for explanation in trace.explained or ()]
        assert suspects(View(trace))[0].events[0].split()[0] in EXPLAINED[name]
    else:
        assert not any(explanation.always for explanation in trace.explained or ())


def run_file(path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch, engine: str | None) -> None:
    """Run the pytest file in this process, on ``engine`` or on the engine of the trace."""
    with monkeypatch.context() as patch:
        if engine is None:
            patch.delenv("SLOTPROOF_ENGINE", raising=False)
        else:
            patch.setenv("SLOTPROOF_ENGINE", engine)
        runpy.run_path(str(path))[scripted.name_of(trace)]()


def violations(trace: Trace, mutant: str | None) -> list[Any]:
    """Return the violations of a replay. They must not look like a fault of the driver."""
    engine = InProcessEngine(mutant)
    log = play(engine, trace.setup, trace.commands).log
    told = [(entry.command, entry.snapshots) for entry in log]
    choices = trace.setup.choices(engine.capabilities).choices
    run = ScriptRun(trace.config_name, trace.config, told, choices)
    assert sign(run, engine.capabilities) is None
    return log[-1].violations


def again(trace: Trace, name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Trace | None:
    """Run the search again in another folder, in the configuration of the trace alone."""
    go = Search.run

    def only_there(task: Search, *args: Any) -> Searched:
        return go(task, *args) if task.blank.config == trace.config else Searched()

    monkeypatch.setattr(Search, "run", only_there)
    monkeypatch.chdir(folder)
    (folder / ".hypothesis" / "examples").mkdir(parents=True)
    return campaign.run(InProcessEngine(name), f"reference:{name}", PLAN).trace
