"""The folder of traces gets a file per finding, at once, and reports a full disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.observation import Violation
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import Trace, load_trace
from slotproof.search import campaign
from slotproof.search.findings import Finding, Mark
from slotproof.search.folder import Folder, by_mark, by_number
from slotproof.search.plan import Plan
from slotproof.traces import itf
from slotproof.traces.record import Row


def finding(transition: str, length: int = 1) -> Finding:
    """Return a leak at a transition, in ``length`` commands."""
    rows = [Row({"do": "step", "n": 1})] * length
    violations = [Violation("INV-OWNER", "lost", "x")]
    trace = Trace("e 1", "x", "reference", CONFIGS["p1"], 0, rows, violations, minimal=False)
    return Finding(Mark("INV-OWNER.lost", (transition,), "step"), trace, 1)


SAVE, CLOSE = finding("T-SAVE", 2), finding("T-CLOSE", 3)


def lengths(out: Path) -> dict[str, int]:
    return {path.name: len(load_trace(path).rows) for path in out.iterdir()}


def test_files_by_number_follow_the_order_of_findings(tmp_path: Path) -> None:
    """The plainest has the plain name, whichever was seen first."""
    folder = Folder(tmp_path, by_number("x-seed0"))
    folder.keep([CLOSE])
    assert lengths(tmp_path) == {"x-seed0.itf.json": 3}
    folder.keep([SAVE, CLOSE])
    assert lengths(tmp_path) == {"x-seed0.itf.json": 2, "x-seed0-2.itf.json": 3}
    assert folder.path(CLOSE) == str(tmp_path / "x-seed0-2.itf.json")


def test_a_trace_of_another_build_stays(tmp_path: Path) -> None:
    """The same command in another environment starts another build."""
    other = replace(SAVE, trace=replace(SAVE.trace, engine="e 2/b"))
    for finding in (SAVE, other, other, SAVE):
        Folder(tmp_path, by_mark("x")).keep([finding])
    assert lengths(tmp_path) == {
        "x-INV-OWNER.lost@T-SAVE.itf.json": 2,
        "x-INV-OWNER.lost@T-SAVE-e-2-b.itf.json": 2,
    }
    second = tmp_path / "x-INV-OWNER.lost@T-SAVE-e-2-b.itf.json"
    assert load_trace(second).engine == "e 2/b"
    folder = Folder(tmp_path, by_mark("x"))
    folder.keep([other])
    assert folder.path(other) == str(second)


def test_two_shapes_of_one_identity_have_a_file_each(tmp_path: Path) -> None:
    """A gate may meet both. Until November 2026 the second replaced the first."""
    longer = replace(SAVE, trace=CLOSE.trace)
    assert longer.id == SAVE.id
    folder = Folder(tmp_path, by_mark("x"))
    folder.keep([SAVE, longer])
    assert lengths(tmp_path) == {
        "x-INV-OWNER.lost@T-SAVE.itf.json": 2,
        "x-INV-OWNER.lost@T-SAVE-2.itf.json": 3,
    }
    assert folder.path(longer) == str(tmp_path / "x-INV-OWNER.lost@T-SAVE-2.itf.json")
    folder.keep([longer])
    assert lengths(tmp_path) == {"x-INV-OWNER.lost@T-SAVE.itf.json": 3}


def test_a_build_is_named_by_its_command_and_its_environment() -> None:
    """Traces of two builds get two names, even if a long command is cut off."""
    long = [f"cmd:{'/deep' * 20}/{env}/bin/python driver.py" for env in ("old", "new")]
    specs = [*map(EngineSpec, long), EngineSpec("sglang")]
    specs += [EngineSpec("sglang", Path(f"/envs/{env}/bin/python")) for env in ("old", "new")]
    stems = [spec.stem for spec in specs]
    assert len(set(stems)) == 5 and stems[2] == "sglang"
    assert max(map(len, stems)) < 90


def test_what_is_no_finding_any_more_goes(tmp_path: Path) -> None:
    """Shrunk, the finding turned out to be another one. A file from an earlier run stays."""
    (tmp_path / "x-of-last-week.itf.json").write_text("")
    folder = Folder(tmp_path, by_mark("x"))
    folder.keep([SAVE, CLOSE])
    folder.keep([finding("T-SAVE")])
    assert {path.name for path in tmp_path.iterdir()} == {
        "x-of-last-week.itf.json",
        "x-INV-OWNER.lost@T-SAVE.itf.json",
    }
    assert len(load_trace(tmp_path / "x-INV-OWNER.lost@T-SAVE.itf.json").rows) == 1, (
        "the shorter one"
    )


def test_what_can_not_be_written_is_told_of_that_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write is not repeated. Its problem is reported until a shorter trace is written."""
    folder, save, tried = Folder(tmp_path, by_mark("x")), itf.save, []

    def full(trace: Trace, path: Path) -> None:
        tried.append(trace)
        if trace is SAVE.trace:
            raise OSError(28, "No space left on device")
        save(trace, path)

    monkeypatch.setattr(itf, "save", full)
    folder.keep([SAVE, CLOSE])
    folder.keep([SAVE, CLOSE])
    path = tmp_path / "x-INV-OWNER.lost@T-SAVE.itf.json"
    assert folder.problem(SAVE) == f"could not be written to {path}: No space left on device"
    assert folder.path(SAVE) is None and folder.path(CLOSE) is not None and len(tried) == 2
    folder.keep([finding("T-SAVE"), CLOSE])
    assert folder.problem(SAVE) is None and path.exists()


@pytest.mark.parametrize("distinct", [1, 2])
def test_a_plain_run_ends_with_so_many_findings(distinct: int, tmp_path: Path) -> None:
    """Shrinking a finding leaves no file of its earlier trace."""
    plan = Plan({"p1": CONFIGS["p1"]}, distinct=distinct, seed=1)
    folder = Folder(tmp_path, by_mark("x"))
    outcome = campaign.run(InProcessEngine("leak-full"), "x", plan, keep=folder.keep)
    assert len(outcome.findings) == distinct and all(e.trace.minimal for e in outcome.findings)
    assert {str(path) for path in tmp_path.iterdir()} == set(map(folder.path, outcome.findings))
