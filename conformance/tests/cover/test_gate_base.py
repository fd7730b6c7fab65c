"""A gate with a base does not fail on the base's findings, whichever search met them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.registry import EngineSpec
from slotproof.protocol.config import CONFIGS
from slotproof.search import compared
from slotproof.search.baseline import Baseline
from slotproof.search.folder import Folder, by_mark
from slotproof.search.plan import Plan

NOISE = "INV-SUM-FULL.reported@T-RESTORE"
DOUBLE, TAIL = "reference:22213-double-count", "reference:22862-no-free-tail"
SMALL = ["--config", "p1", "--examples", "12"]


pytestmark = pytest.mark.usefixtures("earned")


def test_what_the_base_does_too_is_known(workdir: Path, cli: Any) -> None:
    code, said = cli.ran("gate", "--base", DOUBLE, "--engine", DOUBLE, *SMALL, "--seed", "1")
    assert code == 0 and not said["new"]
    assert said["base"]["engine"] == said["engine"] and said["base"]["findings"] == [NOISE]
    (group,) = said["groups"]
    assert group["status"] == "still there" and not group["unexplained"]
    (trace,) = group["traces"]
    assert (workdir / trace["file"]).is_file() and Path(trace["file"]).parent.name == "base"


def test_what_the_head_does_alone_is_new(workdir: Path, cli: Any) -> None:
    code, said = cli.ran("gate", "--base", "reference", "--engine", DOUBLE, *SMALL)
    assert code == 1 and [cause["name"] for cause in said["new"]] == [NOISE]
    assert said["base"]["findings"] == [] and said["groups"] == []
    lines = cli(["gate", "--base", "reference", "--engine", DOUBLE, *SMALL], 1).splitlines()
    assert lines[0].startswith("engine          reference 1 with 22213-double-count")
    assert lines[1].startswith("base            reference 1: ") and "12 examples" in lines[1]
    assert lines[-1] == "1 new cause, 0 in the baseline or in the --base build (seed 0)"


def test_what_the_head_does_no_more_is_fixed(workdir: Path, cli: Any) -> None:
    code, said = cli.ran("gate", "--base", DOUBLE, "--engine", "reference", *SMALL)
    assert code == 0 and [group["status"] for group in said["groups"]] == ["fixed"]


@pytest.mark.slow
def test_a_bug_beside_that_of_the_base_is_new(workdir: Path, cli: Any) -> None:
    both = f"{DOUBLE}+leak-full"
    more = ["--config", "p1", "--examples", "24"]
    code, said = cli.ran("gate", "--base", DOUBLE, "--engine", both, *more)
    assert code == 1 and said["new"]
    code, said = cli.ran("gate", "--base", both, "--engine", DOUBLE, *more)
    assert code == 0 and not said["new"]


def test_what_the_search_of_the_base_missed_is_tried_on_it(tmp_path: Path) -> None:
    """Only the head's search met the finding. Its trace is then replayed on the base."""
    plan = Plan({"p1": CONFIGS["p1"]}, examples=12, distinct=None)
    folder = Folder(tmp_path, by_mark("head"))
    for base, known in (("reference", False), (DOUBLE, True)):
        head = compared.look(
            EngineSpec(DOUBLE), Baseline(folder=tmp_path), plan, 1, folder, lambda *_: None
        )
        assert [entry.new for entry in head.judged] == [True]
        compared.against(
            EngineSpec(base), EngineSpec(DOUBLE), "the base", head, folder, lambda *_: None
        )
        assert [entry.new for entry in head.judged] == [not known]
        if known:
            (group,) = head.gate.baseline.groups
            assert head.judged[0].group == group
            assert group.covers(head.gate.name) and group.reason == "in the base, the base"
            assert (tmp_path / group.traces[0]).is_file()


def test_a_bug_comes_from_the_one_method_that_differs(
    workdir: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def package(spec: EngineSpec) -> Path:
        folder = workdir / spec.text.partition(":")[2] / "e"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "slot.py").write_text(f"def save():\n    return {spec.text!r}\n")
        return folder

    monkeypatch.setattr(EngineSpec, "package", package)
    code, said = cli.ran("gate", "--base", "reference", "--engine", DOUBLE, *SMALL)
    why = "the build's Python files differ from the base's only in save in e/slot.py"
    assert code == 1 and [cause["why"] for cause in said["new"]] == [why]


def test_a_baseline_counts_on_both(workdir: Path, cli: Any) -> None:
    """A group about the base also applies to the head, and its reason stays."""
    group = {"name": "noise", "reason": "#22213", "engine": "*double-count", "seen_as": [NOISE]}
    Path("b.json").write_text(json.dumps({"slotproof_baseline": 2, "groups": [group]}))
    head = "reference:22213-double-count+37502-parked-not-counted"
    code, said = cli.ran("gate", "b.json", "--base", DOUBLE, "--engine", head, *SMALL)
    assert code == 0 and said["base"]["findings"] == [NOISE]
    assert [(group["name"], group["reason"]) for group in said["groups"]] == [("noise", "#22213")]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "gate needs a BASELINE, or --base with the build to compare with"),
        (["b.json", "--base", DOUBLE, "--update"], "leave out --base"),
        (["--base", "reference:nope"], "nope"),
        (["--base", "sglang==0.5.18"], "--base sglang==0.5.18 can't be compared with the ref"),
        (["--base", DOUBLE, "--engine", "reference:nope"], "nope"),
    ],
)
def test_wrong_usage(more: list[str], message: str, workdir: Path, cli: Any) -> None:
    assert message in cli.wrong(["gate", *more])
