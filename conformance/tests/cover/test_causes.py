"""Findings of one bug are one cause, and those of two bugs are two."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import EngineUnusable
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.explanations import Explanation
from slotproof.lockstep.observation import Violation
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import Trace, load_trace
from slotproof.search import campaign, patches
from slotproof.search.baseline import Baseline, Group
from slotproof.search.causes import Cause, causes
from slotproof.search.findings import Finding, Mark
from slotproof.search.gate import Gate, Judged
from slotproof.search.patches import Trials
from slotproof.search.plan import Clock, Plan
from slotproof.traces import itf
from slotproof.traces.record import Row

COUNT, TAIL, CRASH = "22213-double-count", "22862-no-free-tail", "9173-empty-slot-crash"
WORDS = {
    "a-count": "Slots on loan are counted once.",
    "b-other": "Something else is repaired.",
    "c-tail": "The tail is freed.",
}
REPAIRS = {"a-count": COUNT, "c-tail": TAIL}


def finding(id_: str, what: str = "", *changes: str) -> Finding:
    clause, _, at = id_.partition("@")
    explained = tuple(Explanation("T-X", change) for change in changes)
    invariant, conjunct = clause.split(".")
    violation = Violation(invariant, conjunct)
    trace = Trace("e 1", "e", "reference", CONFIGS["p1"], 0, [], [violation], minimal=True)
    return Finding(Mark(clause, (at,), "step", what), trace.explained_by(explained), 1)


SAVE = finding("INV-OWNER.lost@T-SAVE", "", "T-SAVE frees nothing", "T-SAVE frees less")
CLOSE = finding("INV-STEP.state@T-CLOSE", "", "T-SAVE frees nothing")
AGAIN = finding("INV-LOCK.counts@T-SAVE")
GONE = finding("INV-STEP.state@T-RETRACT")
PLAIN = finding("INV-COVER.idle@T-PLAIN-RETRACT")
LOST = finding("INV-OWNER.lost@T-REAP")
TOLD = finding("INV-ANSWER.most@T-SAVE")
FULL = finding("INV-PROGRESS.stalled@T-REFUSE:full", "full")
TICK = finding("INV-PROGRESS.stalled@tick", "full")
ROWS = finding("INV-PROGRESS.stalled@tick", "rows")


def names(cause_list: list[Cause]) -> list[list[str]]:
    return [[finding.id for finding in cause.findings] for cause in cause_list]


@pytest.mark.parametrize(
    ("findings", "why"),
    [
        ([SAVE, CLOSE], "as if T-SAVE frees nothing"),
        ([SAVE, AGAIN], "T-SAVE departs from the spec first"),
        ([GONE, PLAIN], "T-RETRACT departs from the spec first"),
        ([FULL, TICK], ""),
        ([CLOSE, SAVE, AGAIN], "the same spec changes explain all findings"),
        ([SAVE, LOST], "the same clauses are broken"),
    ],
)
def test_findings_of_one_cause(findings: list[Finding], why: str) -> None:
    for order in (findings, findings[::-1]):
        (cause,) = causes(order)
        assert len(cause.findings) == len(findings) and cause.why == why
        assert cause.name == cause.findings[0].id


@pytest.mark.parametrize("pair", [(SAVE, TOLD), (CLOSE, AGAIN), (FULL, ROWS), (FULL, SAVE)])
def test_findings_of_two_causes(pair: tuple[Finding, Finding]) -> None:
    assert len(causes(pair)) == 2


def test_a_patch_says_more_than_what_the_findings_look_like() -> None:
    """A patch joins findings that look different, and separates findings that look the same."""
    joined = causes([SAVE, CLOSE, ROWS], {SAVE.id: "p", ROWS.id: "p"}, {"p": "A sentence."})
    assert names(joined) == [[CLOSE.id], [SAVE.id, ROWS.id]], "a cause without a patch comes first"
    assert (joined[1].name, joined[1].why, joined[1].patch) == ("p", "A sentence.", "p")
    assert len(causes([SAVE, AGAIN], {SAVE.id: "p", AGAIN.id: "q"})) == 2


def test_findings_of_the_one_method_that_differs_from_the_base() -> None:
    """A finding removed by a patch is a separate cause."""
    split = causes([SAVE, LOST, TICK, FULL], {LOST.id: "p"}, {}, "Slot.save in e/slot.py")
    assert names(split) == [[SAVE.id, FULL.id, TICK.id], [LOST.id]]
    assert names(causes([SAVE, replace(SAVE, first=9), TICK], {}, {}, "f")) == [[SAVE.id, TICK.id]]
    assert split[0].why == (
        "the build's Python files differ from the base's only in Slot.save in e/slot.py"
    )
    assert len(causes([SAVE, TICK])) == 2


def test_a_trace_that_was_kept_is_explained_as_before(tmp_path: Path) -> None:
    """A resumed campaign judges findings of its journal."""
    kept = []
    for number, original in enumerate((SAVE, CLOSE)):
        itf.save(
            replace(original.trace, rows=[Row({"do": "step", "n": 1})]), tmp_path / f"{number}.json"
        )
        kept.append(replace(original, trace=load_trace(tmp_path / f"{number}.json")))
    (cause,) = causes(kept)
    assert cause.why == "as if T-SAVE frees nothing"


# Patches -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patched(EngineSpec):
    """The reference engine with two bugs and patches for them, like an engine with a driver."""

    starts: Callable[[], None] = lambda: None

    def open(self) -> InProcessEngine:
        self.starts()
        bugs = [COUNT, TAIL]
        asked = list(WORDS) if self.patches == ("all",) else [*self.patches]
        left = [bug for bug in bugs if bug not in {REPAIRS.get(name) for name in asked}]
        engine = InProcessEngine("+".join(left) or None)
        engine.capabilities = replace(engine.capabilities, patches=tuple(sorted(asked)))
        return engine


def trials(spec: EngineSpec, told: Callable[[int, int], None] = lambda *_: None) -> Trials:
    made = Trials(spec, None, told)
    made.words = WORDS
    return made


@pytest.fixture(scope="module")
def findings() -> list[Finding]:
    plan = Plan({"p1": CONFIGS["p1"]}, examples=60, distinct=None)
    every: list[Finding] = []
    for bug in (COUNT, TAIL, CRASH):
        every += campaign.run(InProcessEngine(bug), f"reference:{bug}", plan).findings[:2]
    return every


def test_each_finding_has_the_patch_that_removes_it(findings: list[Finding]) -> None:
    counts: list[tuple[int, int]] = []
    patchable = [finding for finding in findings if CRASH not in finding.trace.spec]
    removed = trials(Patched("reference"), lambda *count: counts.append(count)).removed(patchable)
    wanted = {
        finding.id: "a-count" if COUNT in finding.trace.spec else "c-tail" for finding in patchable
    }
    assert removed == wanted
    assert [done for done, _ in counts] == list(range(1, len(counts) + 1))


def test_a_finding_that_no_patch_removes_has_none(findings: list[Finding]) -> None:
    """Patches already in place are not tried."""
    spec = Patched("reference", patches=("c-tail",))
    removed = trials(spec).removed([finding for finding in findings if COUNT in finding.trace.spec])
    assert set(removed.values()) == {"a-count"}
    assert trials(Patched("reference", patches=("all",))).removed(findings) == {}


def test_a_bug_that_another_patch_hides_is_found_by_its_own(
    findings: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two patches repair one bug. Leaving out only one of the two does not bring the bug back."""
    monkeypatch.setitem(WORDS, "d-count", "Slots on loan are counted once, in another way.")
    monkeypatch.setitem(REPAIRS, "d-count", COUNT)
    counted = [finding for finding in findings if COUNT in finding.trace.spec]
    made = trials(Patched("reference"))
    assert {*made.removed(counted).values()} <= {"a-count", "d-count"} and made.removed(counted)
    assert made.shown_by("a-count", counted) == {id(finding) for finding in counted}


def test_trials_end_without_harm(findings: list[Finding]) -> None:
    """Out of time, or without an engine, the trials leave the findings unchanged."""

    def fails() -> None:
        raise EngineUnusable("no engine")

    over, late = trials(Patched("reference")), trials(Patched("reference"))
    over.clock = late.clock = Clock(-1)
    assert over.removed(findings) == {} and over.cut.startswith(
        "patches not tried on all findings (out of time)"
    )
    assert late.shown_by("a-count", findings) == set() and late.cut, "the second half is cut, too"
    broken = trials(Patched("reference", starts=fails))
    assert broken.removed(findings) == {} and broken.shown_by("a-count", findings) == set()
    assert broken.cut.startswith("patches not tried on all findings (no engine)")
    assert Trials(EngineSpec("reference"), None, lambda *_: None).words == {}


def test_a_stall_at_the_limit_is_no_known_bug(
    findings: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any patch that frees a token ends the stall. A request for more tokens stalls again."""
    (first, *_) = [finding for finding in findings if COUNT in finding.trace.spec]
    rid = next(command["rid"] for command in first.trace.commands if command["do"] == "submit")
    wait = Violation("INV-PROGRESS", "stalled", rid=rid)
    mark = Mark("INV-PROGRESS.stalled", (), "step", "full-idle")
    stall = replace(first, mark=mark, trace=replace(first.trace, violations=[wait]))
    asked = [
        {
            command["rid"]: command["max_new"]
            for command in one.trace.commands
            if command["do"] == "submit"
        }
        for one in (stall, patches._longer(stall))
    ]
    assert asked[1] == asked[0] | {rid: asked[0][rid] + 2}

    def alone(_: Trials, bugs: Any, findings: Any, **__: Any) -> set[int]:
        return {id(finding) for finding in findings if bugs or finding.trace is not stall.trace}

    monkeypatch.setattr(Trials, "_alone", alone)
    assert trials(Patched("reference")).removed([stall]) == {}
    monkeypatch.setattr(patches, "STALLS", ())
    assert trials(Patched("reference")).removed([stall]) != {}


def test_a_patch_that_removes_a_group_makes_its_findings_known(
    findings: list[Finding], tmp_path: Path
) -> None:
    """The group's trace goes with the same patch. Another bug stays new."""
    first, *_ = [finding for finding in findings if COUNT in finding.trace.spec]
    (other, *_) = [finding for finding in findings if TAIL in finding.trace.spec]
    itf.save(first.trace, tmp_path / "t.itf.json")
    known = Baseline((Group("count", "r", traces=("t.itf.json",)),), tmp_path)
    gate = Gate(Patched("reference").open(), "e 1", known, Plan({}))
    gate.replay()
    same = replace(first, mark=replace(first.mark, clause="INV-ONCE.reported"))
    new = [Judged(same), Judged(other)]
    judged = gate.try_patches(new, trials(Patched("reference")), on_base=False)
    assert [entry.group and entry.group.name for entry in judged] == ["count", None]
    assert judged[0].why == "the patch a-count removes both this finding and a trace of count"
    new_ones = [entry.finding for entry in judged if entry.new]
    assert [cause.name for cause in causes(new_ones, gate.removed, gate.words)] == ["c-tail"]
    judged = gate.try_patches(new, trials(Patched("reference")), on_base=True)
    assert [entry.group for entry in judged] == [None, None], "the base does not show it"


def test_the_patches_of_a_family_are_tried() -> None:
    made = Trials(EngineSpec("sglang==0.5.23"), None, lambda *_: None)
    assert made.words == FAMILIES["sglang"].patches and made.words
