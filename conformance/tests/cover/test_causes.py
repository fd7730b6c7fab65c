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
    explained = tuple(Explanation("T-X", each) for each in changes)
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


def names(found: list[Cause]) -> list[list[str]]:
    return [[each.id for each in cause.findings] for cause in found]


@pytest.mark.parametrize(
    ("findings", "why"),
    [
        ([SAVE, CLOSE], "as if T-SAVE frees nothing"),
        ([SAVE, AGAIN], "T-SAVE departs from the spec first"),
        ([GONE, PLAIN], "T-RETRACT departs from the spec first"),
        ([FULL, TICK], ""),
        ([CLOSE, SAVE, AGAIN], "the same changes of the spec explain them"),
        ([SAVE, LOST], "they break the same clauses"),
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
    """It joins what looks different, and parts what looks the same."""
    found = causes([SAVE, CLOSE, ROWS], {SAVE.id: "p", ROWS.id: "p"}, {"p": "A sentence."})
    assert names(found) == [[CLOSE.id], [SAVE.id, ROWS.id]], "a cause without a patch comes first"
    assert (found[1].name, found[1].why, found[1].patch) == ("p", "A sentence.", "p")
    assert len(causes([SAVE, AGAIN], {SAVE.id: "p", AGAIN.id: "q"})) == 2


def test_findings_of_the_one_method_that_differs_from_the_base() -> None:
    """A known bug is a cause of its own."""
    found = causes([SAVE, LOST, TICK, FULL], {LOST.id: "p"}, {}, "Slot.save in e/slot.py")
    assert names(found) == [[SAVE.id, FULL.id, TICK.id], [LOST.id]]
    assert names(causes([SAVE, replace(SAVE, first=9), TICK], {}, {}, "f")) == [[SAVE.id, TICK.id]]
    assert found[0].why == "its Python files differ from the base's in Slot.save in e/slot.py alone"
    assert len(causes([SAVE, TICK])) == 2


def test_a_trace_that_was_kept_is_explained_as_before(tmp_path: Path) -> None:
    """A campaign that is resumed judges findings of its journal."""
    kept = []
    for number, each in enumerate((SAVE, CLOSE)):
        itf.save(
            replace(each.trace, rows=[Row({"do": "step", "n": 1})]), tmp_path / f"{number}.json"
        )
        kept.append(replace(each, trace=load_trace(tmp_path / f"{number}.json")))
    (cause,) = causes(kept)
    assert cause.why == "as if T-SAVE frees nothing"


# Patches -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patched(EngineSpec):
    """The reference engine with bugs that patches repair, as a driver's engine has them."""

    starts: Callable[[], None] = lambda: None

    def open(self) -> InProcessEngine:
        self.starts()
        bugs = [COUNT, TAIL]
        asked = list(WORDS) if self.patches == ("all",) else [*self.patches]
        left = [each for each in bugs if each not in {REPAIRS.get(name) for name in asked}]
        engine = InProcessEngine("+".join(left) or None)
        engine.capabilities = replace(engine.capabilities, patches=tuple(sorted(asked)))
        return engine


def trials(spec: EngineSpec, told: Callable[[int, int], None] = lambda *_: None) -> Trials:
    made = Trials(spec, None, told)
    made.words = WORDS
    return made


@pytest.fixture(scope="module")
def found() -> list[Finding]:
    plan = Plan({"p1": CONFIGS["p1"]}, examples=60, distinct=None)
    every: list[Finding] = []
    for bug in (COUNT, TAIL, CRASH):
        every += campaign.run(InProcessEngine(bug), f"reference:{bug}", plan).findings[:2]
    return every


def test_each_finding_has_the_patch_that_removes_it(found: list[Finding]) -> None:
    counts: list[tuple[int, int]] = []
    here = [each for each in found if CRASH not in each.trace.spec]
    removed = trials(Patched("reference"), lambda *each: counts.append(each)).removed(here)
    wanted = {each.id: "a-count" if COUNT in each.trace.spec else "c-tail" for each in here}
    assert removed == wanted
    assert [done for done, _ in counts] == list(range(1, len(counts) + 1))


def test_a_finding_that_no_patch_removes_has_none(found: list[Finding]) -> None:
    """Patches that are in place already are not tried."""
    spec = Patched("reference", patches=("c-tail",))
    removed = trials(spec).removed([each for each in found if COUNT in each.trace.spec])
    assert set(removed.values()) == {"a-count"}
    assert trials(Patched("reference", patches=("all",))).removed(found) == {}


def test_a_bug_that_another_patch_hides_is_found_by_its_own(
    found: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither bug shows the finding alone: the other patch is in its way."""
    monkeypatch.setitem(WORDS, "d-count", "Slots on loan are counted once, in another way.")
    monkeypatch.setitem(REPAIRS, "d-count", COUNT)
    here = [each for each in found if COUNT in each.trace.spec]
    made = trials(Patched("reference"))
    assert {*made.removed(here).values()} <= {"a-count", "d-count"} and made.removed(here)
    assert made.shown_by("a-count", here) == {id(each) for each in here}


def test_trials_end_without_harm(found: list[Finding]) -> None:
    """The time is over, or the engine does not start: the findings stay as they are."""

    def fails() -> None:
        raise EngineUnusable("no engine")

    over = trials(Patched("reference"))
    over.clock = Clock(-1)
    assert over.removed(found) == {} and over.cut.startswith("out of time before every finding")
    late = trials(Patched("reference"))
    late.clock = Clock(-1)
    assert late.shown_by("a-count", found) == set() and late.cut, "the second half is cut, too"
    broken = trials(Patched("reference", starts=fails))
    assert broken.removed(found) == {} and broken.shown_by("a-count", found) == set()
    assert broken.cut.startswith("no engine before every finding")
    assert Trials(EngineSpec("reference"), None, lambda *_: None).words == {}


def test_a_stall_at_the_limit_is_no_known_bug(
    found: list[Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any patch that frees a token ends it; where the request asks for more it is there again."""
    (first, *_) = [each for each in found if COUNT in each.trace.spec]
    rid = next(each["rid"] for each in first.trace.commands if each["do"] == "submit")
    wait = Violation("INV-PROGRESS", "stalled", rid=rid)
    mark = Mark("INV-PROGRESS.stalled", (), "step", "full-idle")
    stall = replace(first, mark=mark, trace=replace(first.trace, violations=[wait]))
    asked = [
        {each["rid"]: each["max_new"] for each in one.trace.commands if each["do"] == "submit"}
        for one in (stall, patches._longer(stall))
    ]
    assert asked[1] == asked[0] | {rid: asked[0][rid] + 2}

    def alone(_: Trials, bugs: Any, findings: Any, **__: Any) -> set[int]:
        return {id(each) for each in findings if bugs or each.trace is not stall.trace}

    monkeypatch.setattr(Trials, "_alone", alone)
    assert trials(Patched("reference")).removed([stall]) == {}
    monkeypatch.setattr(patches, "STALLS", ())
    assert trials(Patched("reference")).removed([stall]) != {}


def test_a_patch_that_removes_a_group_makes_its_findings_known(
    found: list[Finding], tmp_path: Path
) -> None:
    """The group's trace goes with the same patch. Another bug stays new."""
    first, *_ = [each for each in found if COUNT in each.trace.spec]
    (other, *_) = [each for each in found if TAIL in each.trace.spec]
    itf.save(first.trace, tmp_path / "t.itf.json")
    known = Baseline((Group("count", "r", traces=("t.itf.json",)),), tmp_path)
    gate = Gate(Patched("reference").open(), "e 1", known, Plan({}))
    gate.replay()
    same = replace(first, mark=replace(first.mark, clause="INV-ONCE.reported"))
    new = [Judged(same), Judged(other)]
    judged = gate.try_patches(new, trials(Patched("reference")), on_base=False)
    assert [each.group and each.group.name for each in judged] == ["count", None]
    assert judged[0].why == "the patch a-count removes both it and a trace of count"
    new_ones = [each.finding for each in judged if each.new]
    assert [each.name for each in causes(new_ones, gate.removed, gate.words)] == ["c-tail"]
    judged = gate.try_patches(new, trials(Patched("reference")), on_base=True)
    assert [each.group for each in judged] == [None, None], "the base does not show it"


def test_the_patches_of_a_family_are_tried() -> None:
    made = Trials(EngineSpec("sglang==0.5.23"), None, lambda *_: None)
    assert made.words == FAMILIES["sglang"].patches and made.words
