"""Committed pages are not older than the code that makes them. A page is made from a trace, and a
trace from a build. These tests need no build. They check the traces of the reference engine, the
form of every trace, and the pictures. The parts `sglang` and `vllm` record the others again and
compare whole files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from slotproof.reports import forms
from slotproof.reports.localisation import suspects
from slotproof.reports.trace import load_trace
from slotproof.reports.view import View
from slotproof.traces import itf
from tests import traces_again
from tests.pictures import DRAWN_FROM, PICTURES, TRACE, digests
from tests.traces_again import SNAPSHOTS, committed

ALL = committed()
RENEW = "it is stale: make traces"


@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.itf.json")), ids=lambda path: path.stem)
def test_a_trace_of_the_reference_is_what_this_code_makes(path: Path) -> None:
    """Its page, too. A change of one such trace changes the traces of other engines as well."""
    (now,) = traces_again.made([path])
    assert not now.why_not
    assert not now.stale, RENEW


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_trace_says_what_this_code_says(path: Path) -> None:
    """A trace has the current form, and its violations have the fields for their sentences. A
    difference between state and spec has an explanation, as far as one exists."""
    trace = load_trace(path)
    assert itf.text_of(trace) == path.read_text(encoding="utf-8"), RENEW
    for violation in trace.violations:
        if violation.clause == "INV-STEP.state":
            assert bool(violation.variable) != ("exists only in the" in violation.detail), RENEW
            keeps = trace.config.draft and trace.engine.startswith("vllm")  # has no explanation
            assert keeps or trace.explained is not None, RENEW
        assert "=None" not in violation.detail, RENEW


def test_the_program_writes_what_is_stale_and_ends_with_1_where_nothing_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (SNAPSHOTS / "double-count.itf.json").read_text()
    old, other, right = (json.loads(text) for _ in range(3))
    old["#meta"]["slotproof"]["violated"][0]["detail"] = "full: lent=None"
    other["#meta"]["slotproof"]["violated"][0].update(invariant="INV-OWNER", conjunct="lost")
    build = {**right["#meta"]["slotproof"].pop("build"), "argument": "reference"}
    right["#meta"]["slotproof"].update(engine="reference 1", spec="reference", build=build)
    for name, document in (("old", old), ("other", other), ("right", right)):
        (tmp_path / f"{name}.itf.json").write_text(json.dumps(document))
    for name in ("ROOT", "FINDINGS", "SNAPSHOTS"):
        monkeypatch.setattr(traces_again, name, tmp_path if name != "SNAPSHOTS" else tmp_path / "x")
    monkeypatch.setattr("sys.argv", ["make traces"])
    assert traces_again.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "old.itf.json: recorded"
    assert said[1].startswith("other.itf.json: does not show INV-OWNER.lost any more: INV-")
    assert said[2] == "right.itf.json: does not show INV-SUM-FULL.reported any more: it conforms"
    assert said[3].startswith("1 of 3 recorded in ")
    assert (tmp_path / "old.itf.json").read_text() == text
    assert (tmp_path / "other.itf.json").read_text() == json.dumps(other)


def test_every_trace_is_recorded_again_and_one_by_name() -> None:
    assert len(ALL) > 190 and len(committed("matrix/traces/*.itf.json")) > 50
    assert [path.name for path in committed("*-retract-tail.itf.json")] == [TRACE.name]


def test_findings_name_their_public_reports() -> None:
    every = {path.stem: path.read_text() for path in traces_again.FINDINGS.glob("*.md")}
    named = {name: {*re.findall(r"#(\d+)", text)} for name, text in every.items()}
    assert named["swa-deferred-free"] >= {"36081", "36135"}
    assert "29352" in named["swa-locked-full"] and "23174" in named["page-16-window"]
    assert named["stop-ahead"] >= {"35755", "30142", "50692"}


def test_the_picture_is_of_the_page_as_it_is() -> None:
    """The digests match the page made by this code, and the pictures drawn from the page."""
    page = forms.form("html", load_trace(TRACE), TRACE.name)
    assert DRAWN_FROM.read_text() == digests(page), (
        "the picture is stale: SLOTPROOF_UPDATE_SNAPSHOTS=1 pytest -m browser "
        "conformance/tests/browser/test_picture.py"
    )
    readme = (TRACE.parents[2] / "README.md").read_text()
    assert all(f"docs/images/{path.name}" in readme for path in PICTURES.values())


def test_the_picture_blames_what_the_finding_is_named_by() -> None:
    """INV-SUM-FULL.equation@T-RETRACT."""
    trace = load_trace(TRACE)
    first, *_ = suspects(View(trace))
    assert [event.partition(" ")[0] for event in first.events] == ["T-RETRACT"]
    assert "The engine behaves as if" in forms.form("html", trace, TRACE.name)
