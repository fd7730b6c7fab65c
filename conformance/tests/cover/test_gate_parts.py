"""A gate searches a build with patches in place, and for a part of its time without patches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.reports.trace import load_trace
from slotproof.search import baseline, compared, patches
from slotproof.search.findings import Finding, Mark
from slotproof.search.gate import Judged
from slotproof.search.plan import Plan

COUNT, TAIL = "22213-double-count", "22862-no-free-tail"
WORDS = {"a-count": "Slots on loan are counted once.", "b-other": "Something else is repaired."}
BUILD = "sglang==0.5.23"
TRACE = Path(__file__).parents[1] / "snapshots" / "no-free-tail.itf.json"
SOME = ["--engine", BUILD, "--config", "p1", "--examples", "24"]

pytestmark = pytest.mark.usefixtures("earned")


@pytest.fixture(autouse=True)
def starts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Replace the build by the reference engine with two bugs. A patch repairs the first bug.
    Return the patches of each start."""
    asked: list[tuple[str, ...]] = []

    def open_(spec: EngineSpec) -> InProcessEngine:
        asked.append(spec.patches)
        named = [*WORDS] if spec.patches == ("all",) else [*spec.patches]
        bugs = [TAIL] if "a-count" in named else [COUNT, TAIL]
        engine = InProcessEngine("+".join(bugs))
        engine.version = "1"
        engine.capabilities = replace(engine.capabilities, patches=tuple(named))
        return engine

    monkeypatch.setattr(EngineSpec, "open", open_)
    for module in (compared, patches):
        monkeypatch.setattr(module, "words_of", lambda _: WORDS)
    return asked


def statuses(said: Any) -> dict[str, str]:
    return {group["name"]: group["status"] for group in said["groups"]}


@pytest.mark.slow
def test_a_bug_that_shows_with_patches_and_without_is_one_group(workdir: Path, cli: Any) -> None:
    """Each part finds a bug that the other can't find."""
    path = workdir / "b.json"
    code, said = cli.ran("gate", path, *SOME, "--update")
    count, tail = sorted(said["new"], key=lambda cause: cause["name"] != "a-count")
    assert code == 0 and count["name"] == "a-count" and len(said["new"]) == 2
    assert said["search"]["planned"] == 18 and said["unpatched"]["examples"] >= 6
    groups = {group.name: group for group in baseline.load(path).groups}
    assert groups.keys() == {"a-count", tail["name"]}

    code, said = cli.ran("gate", path, *SOME, "--seed", "1")
    assert code == 0 and not said["new"], [cause["name"] for cause in said["new"]]
    assert statuses(said) == dict.fromkeys(groups, "still there")


@pytest.mark.slow
def test_patches_that_are_chosen_are_one_part(
    workdir: Path, cli: Any, starts: list[tuple[str, ...]]
) -> None:
    code, said = cli.ran("gate", workdir / "b.json", *SOME, "--patch", "none", "--update")
    assert code == 0 and said["unpatched"] == {} and said["search"]["planned"] == 24
    assert starts[0] != ("all",)
    starts.clear()
    code, said = cli.ran("gate", workdir / "b.json", *SOME, "--patch", "all")
    assert code == 0 and said["unpatched"] == {} and starts[0] == ("all",)
    assert statuses(said)["a-count"] == "patched", "its trace says nothing behind the patch"


def test_an_interrupt_in_the_first_part_is_the_end(
    workdir: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Findings of the first part are still reported."""
    compare, done = compared.compare, list[str]()

    def once(part: compared.Part, *others: Any) -> compared.Compared:
        result = compare(part, *others)
        done.append(part.name)
        return result

    monkeypatch.setattr(compared, "compare", once)
    monkeypatch.setattr("slotproof.cli.gate.interrupts.arrived", lambda: bool(done))
    code, said = cli.ran("gate", workdir / "b.json", *SOME, "--update")
    assert done == ["patched"] and said["new"] and said["unpatched"] == {}
    assert len(baseline.load(workdir / "b.json").groups) == 1, code


def test_what_shows_behind_a_patch_is_not_its_bug() -> None:
    """Without patches, the same identity belongs to a bug that a patch removes."""
    finding = Finding(Mark("INV-OWNER.lost", ("T-SAVE",), "step"), load_trace(TRACE), 1)
    bare = SimpleNamespace(removed={finding.id: "a-count"}, words=WORDS, method="")
    behind = SimpleNamespace(removed={}, words=WORDS, method="")

    def parts(*gates: Any) -> list[Any]:
        return [SimpleNamespace(gate=gate, judged=[Judged(finding)]) for gate in gates]

    assert [cause.patch for cause in compared.new(parts(behind, bare))] == [""]
    assert [cause.patch for cause in compared.new(parts(bare))] == ["a-count"]


def test_the_parts_share_the_time_and_the_examples() -> None:
    plan = Plan({}, examples=None, seconds=100.0)
    spec = EngineSpec.parse(BUILD)
    patched, bare = compared.parts(spec, spec, plan, chosen=False)
    assert (patched.spec.patches, bare.spec.patches) == (("all",), ())
    assert patched.base is not None and patched.base.patches == ("all",)
    assert [part.plan.seconds for part in (patched, bare)] == [75.0, 25.0]
    (one,) = compared.parts(spec, None, plan, chosen=True)
    assert one.plan is plan and one.name == ""
