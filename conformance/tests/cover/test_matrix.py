"""Tables of findings."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from slotproof.conformance.cli.app import status
from slotproof.conformance.matrices import builds, mutants
from slotproof.conformance.matrices.known import SUFFIX
from slotproof.conformance.matrices.table import Cell, Row, Table, html, write
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search.plan import Plan
from slotproof.impl.mutants import MUTANTS

SMALL = ["--config", "p1", "--examples", "12"]
NOISE = "reference:22213-double-count"


def test_builds_by_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found in one, gone in the next by replay; a build that can't start is told."""
    engines = f"old={NOISE},reference,reference:nobody"
    assert status(["matrix", "--engines", engines, *SMALL, "--out", str(tmp_path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["columns"] == ["old", "reference", "reference:nobody", "first seen", "gone in"]
    row = document["rows"][0]
    assert row["name"] == "INV-SUM-FULL.reported@T-RESTORE"
    texts = [cell["text"] for cell in row["cells"]]
    assert texts[1:] == ["no", "not run", "old", "reference"] and int(texts[0]) <= 6
    assert (tmp_path / row["cells"][0]["link"]).exists()
    assert any("there is no mutant 'nobody'" in note for note in document["notes"])
    assert "| first seen | gone in |" in (tmp_path / "matrix.md").read_text()
    stored = json.loads((tmp_path / "matrix.json").read_text())
    assert {**stored, "status": 1} == document


def test_a_finding_that_a_search_missed_is_replayed(tmp_path: Path) -> None:
    """The second build has the bug, and too few examples to find it."""
    plan = Plan({"p1": CONFIGS["p1"]}, examples=12)
    first, second = (builds.parse(f"{name}={NOISE}", 10, tmp_path) for name in "ab")
    builds.run([first], plan, 1, lambda *_: None, lambda _: None)
    second.engine = "reference"
    builds._across(second, [first, second])
    (cell,) = second.cells.values()
    assert cell.kind == "bad" and cell.title == "by the trace of another build"
    assert cell.link is not None and (tmp_path / cell.link).exists(), "that of the other build"


def test_a_finding_with_a_name_is_replayed_on_every_build(tmp_path: Path) -> None:
    """It is shown under its name, and not again as what the campaign finds."""
    argv = ["matrix", "--engines", f"old={NOISE},reference", *SMALL, "--out", str(tmp_path)]
    assert status([*argv, "--json"]) == 1
    before = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    folder = tmp_path / "known"
    folder.mkdir()
    (kept,) = (tmp_path / "traces").glob("*reported@T-RESTORE*")
    kept.rename(folder / f"reference-1-with-22213-double-count-counted-twice{SUFFIX}")
    assert status([*argv, "--traces", str(folder)]) == 1
    rows = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    assert rows[0]["name"] == "counted-twice"
    assert [cell["kind"] for cell in rows[0]["cells"][:2]] == ["bad", "good"]
    assert [cell["text"] for cell in rows[0]["cells"][2:]] == ["old", "reference"]
    assert (tmp_path / rows[0]["cells"][0]["link"]).exists()
    assert [row["name"] for row in rows[1:]] == [
        row["name"] for row in before if row["name"] != "INV-SUM-FULL.reported@T-RESTORE"
    ]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "one of --engines A,B,…, --mutants and --spec"),
        (["--mutants", "--traces", "."], "--traces goes with --engines"),
        (["--engines", "reference", "--traces", "nowhere"], "nowhere is no folder"),
        (["--spec", "--seeds", "2"], "--seeds goes with --mutants"),
        (["--mutants", "--engines", "reference"], "one of --engines"),
        (["--engines", ","], "names no build"),
        (["--engines", "reference,reference"], "'reference' is there twice"),
        (["--engines", "vllm,x:"], "no build can be run: vllm: unknown engine 'vllm'"),
        (["--mutants", "--examples", "0"], "--examples must be at least 1"),
        (["--mutants", "--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_wrong_usage(
    argv: list[str], text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert status(["matrix", *argv, "--out", str(tmp_path)]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1) and text in err


@pytest.mark.parametrize(
    ("text", "name", "engine", "python"),
    [
        ("sglang==0.5.23", "sglang==0.5.23", "sglang==0.5.23", None),
        ("new=sglang==0.5.23", "new", "sglang==0.5.23", None),
        ("sglang@/e/bin/python", "sglang@/e/bin/python", "sglang", "/e/bin/python"),
        ("a.b-1=sglang@e/bin/python", "a.b-1", "sglang", "e/bin/python"),
        ("cmd:./x --at=a@/b", "cmd:./x --at=a@/b", "cmd:./x --at=a@/b", None),
    ],
)
def test_how_a_build_is_named(text: str, name: str, engine: str, python: str | None) -> None:
    build = builds.parse(text, 10, Path())
    assert (build.name, build.spec.text) == (name, engine)
    assert build.spec.python == (Path(python) if python else None)


@pytest.mark.slow
def test_a_mutant_and_who_finds_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that skips a pool leaves nothing for the equation to see; a leak does."""
    names = ("21499-one-pool-check", "leak-full")
    monkeypatch.setattr(mutants, "MUTANTS", {name: MUTANTS[name] for name in names})
    plan = Plan({"p1-swa": CONFIGS["p1-swa"]}, examples=20)
    tables: list[Table] = []
    done = mutants.run(plan, 2, 1, lambda *_: None, tables.append)
    clauses = [{found.clause for found in each.found} for each in done]
    assert clauses == [{"INV-CHECKER.covers"}, {"INV-SUM-FULL.equation"}]
    assert [len(table.rows) for table in tables] == [1, 2]
    assert done[0].alone == {}
    assert {"own check", "equation", "counts", "pages", "lockstep"} <= done[1].alone.keys()
    assert tables[-1].notes[:2] == [
        "2 of 2 mutants are killed with every seed.",
        "The equation alone misses 1: 21499-one-pool-check.",
    ]


def test_a_mutant_that_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "MUTANTS", {"22900-trim-forgets-cursor": MUTANTS["leak-full"]})
    plan = Plan({"p1": CONFIGS["p1"]}, examples=2, steps=3)
    done = mutants.run(plan, 1, 1, lambda *_: None, lambda _: None)
    (row,) = mutants.table(done, plan, 1).rows
    assert row.cells[0] == Cell("survives", "bad")


def test_the_page_is_whole_and_escapes_what_it_shows(tmp_path: Path) -> None:
    """Well-formed, nothing loaded from elsewhere; a name is text, not markup."""
    table = Table("T", "bug", ["a"], [Row("<b>", "x & y", [Cell("3", "bad", "t@1.json", '"q"')])])
    page = html(table)
    body = page[page.index("<body>") : page.index("</html>")]
    tree = ET.fromstring(body)
    assert [each.text for each in tree.iter("code")] == ["<b>"]
    assert [each.get("title") for each in tree.iter("td")] == ['"q"']
    assert [each.get("href") for each in tree.iter("a")] == ["t%401.json"]
    assert "<script" not in page and "http" not in page
    write(table, tmp_path / "new")
    assert (tmp_path / "new" / "matrix.html").read_text() == page
    picture = ET.fromstring((tmp_path / "new" / "matrix.svg").read_text())
    assert "<b>" in [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert len(list((tmp_path / "new").iterdir())) == 4
