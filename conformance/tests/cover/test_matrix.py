"""Tables of findings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from slotproof.cli.app import status
from slotproof.matrices import builds
from slotproof.matrices.named_findings import load
from slotproof.matrices.table import Cell, Row, Table, write
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import load_trace
from slotproof.search.folder import SUFFIX
from slotproof.search.plan import Plan

SMALL = ["--config", "p1", "--examples", "12"]
DOCS = Path(__file__).parents[3] / "docs"
NOISE = "reference:22213-double-count"


def test_builds_by_findings(tmp_path: Path, cli: Any) -> None:
    """A bug of one build is fixed in the next, shown by replay. A build that can't start is
    reported. The newest is the first column."""
    engines = [f"old={NOISE}", "reference", "reference:nobody"]
    document = cli.json(["matrix", *engines, *SMALL, "--out", str(tmp_path), "--json"], 1)
    assert document["columns"] == ["reference:nobody", "reference", "old", "first seen", "gone in"]
    row = document["rows"][0]
    assert row["name"] == "INV-SUM-FULL.reported@T-RESTORE"
    texts = [cell["text"] for cell in row["cells"]]
    assert texts[:2] + texts[3:] == ["not run", "no", "old", "reference"] and int(texts[2]) <= 6
    assert (tmp_path / row["cells"][2]["link"]).exists()
    assert any("there is no mutant 'nobody'" in note for note in document["notes"])
    assert "| first seen | gone in |" in (tmp_path / "matrix.md").read_text()
    stored = json.loads((tmp_path / "matrix.json").read_text())
    assert {**stored, "status": 1} == document


def test_its_traces_have_no_states_and_a_replay_makes_them(tmp_path: Path, cli: Any) -> None:
    """Traces have commands and metadata. `show` names the command that adds the states."""
    engines = [f"old={NOISE}", "reference"]
    assert status(["matrix", *engines, *SMALL, "--out", str(tmp_path)]) == 1
    (kept,) = (tmp_path / "traces").glob("*reported@T-RESTORE*")
    document = json.loads(kept.read_text())
    assert document["vars"] == []
    fields = {"#meta", "mbt::actionTaken", "mbt::nondetPicks"}
    assert all(state.keys() == fields for state in document["states"])
    last = cli(["show", str(kept)]).splitlines()[-1]
    command = f"slotproof replay {kept} --engine {NOISE} --out FILE"
    assert last == f"the trace has no states. To write a trace with states: {command}"
    whole = tmp_path / "whole.itf.json"
    shown = cli(["replay", str(kept), "--engine", NOISE, "--out", str(whole)], 1)
    assert "INV-SUM-FULL.reported" in shown.partition("reproduced: ")[2]
    assert load_trace(kept) == load_trace(whole).without_states()
    assert "again: slotproof replay" in cli(["show", str(whole)]).splitlines()[-1]


@pytest.mark.parametrize("folder", ["findings/matrix", "findings/matrix-vllm", "reference/mutants"])
def test_committed_tables_are_what_their_data_says(folder: str, tmp_path: Path) -> None:
    """On failure, write the tables anew from `matrix.json`."""
    committed = DOCS / folder
    data = json.loads((committed / "matrix.json").read_text())
    rows = [
        Row(**{**row, "cells": [Cell(**cell) for cell in row["cells"]]}) for row in data["rows"]
    ]
    pages = [committed / row.page for row in rows if row.page]
    assert all(page.is_file() for page in pages) and bool(pages) == (folder != "reference/mutants")
    write(Table(**(data | {"rows": rows})), tmp_path)
    for path in committed.glob("matrix.*"):
        assert path.read_text() == (tmp_path / path.name).read_text(), path.name


def test_a_finding_that_a_search_missed_is_replayed(tmp_path: Path) -> None:
    """The second build has the bug, but too few examples to find it."""
    plan = Plan({"p1": CONFIGS["p1"]}, examples=12)
    first, second = (builds.parse(f"{name}={NOISE}", 10, tmp_path) for name in "ab")
    builds.run([first], plan, 1, lambda *_: None, lambda _: None)
    second.engine = "reference"
    builds._across(second, [first, second])
    (cell,) = second.cells.values()
    assert cell.kind == "bad" and cell.title == "the trace of another build breaks the clause"
    assert cell.link is not None and (tmp_path / cell.link).exists(), "that of the other build"


@pytest.mark.slow
def test_a_finding_with_a_name_is_replayed_on_every_build(tmp_path: Path) -> None:
    """It is shown under its name, and not again as a finding of the campaign. Name and cells link
    to its description."""
    argv = ["matrix", f"old={NOISE}", "reference", *SMALL, "--out", str(tmp_path)]
    assert status([*argv, "--json"]) == 1
    before = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    folder = tmp_path / "known"
    folder.mkdir()
    (kept,) = (tmp_path / "traces").glob("*reported@T-RESTORE*")
    kept.rename(folder / f"reference-1-with-22213-double-count-counted-twice{SUFFIX}")
    (folder / "counted-twice.md").write_text("# It is counted twice\n")
    assert status([*argv, "--traces", str(folder)]) == 1
    rows = json.loads((tmp_path / "matrix.json").read_text())["rows"]
    assert rows[0]["name"] == "counted-twice"
    assert [cell["kind"] for cell in rows[0]["cells"][:2]] == ["good", "bad"]
    assert [cell["text"] for cell in rows[0]["cells"][2:]] == ["old", "reference"]
    assert (tmp_path / rows[0]["cells"][1]["link"]).exists()
    page = "known/counted-twice.md"
    assert rows[0]["page"] == page
    count = rows[0]["cells"][1]["text"]
    line = f"| [counted-twice]({page}) | no | [{count}]({page}) | old | reference |"
    assert line in (tmp_path / "matrix.md").read_text().splitlines()
    assert [row["name"] for row in rows[1:]] == [
        row["name"] for row in before if row["name"] != "INV-SUM-FULL.reported@T-RESTORE"
    ]


def test_a_build_is_asked_for_named_findings_of_its_own_family() -> None:
    """vLLM traces are no evidence on SGLang. The reference engine replays all of them."""
    named = load(DOCS / "findings")
    asked = {
        engine: {
            path.name.partition("-")[0]
            for finding in named
            if finding.asked_of(engine)
            for path, _ in finding.traces
        }
        for engine in ("sglang", "vllm", "reference")
    }
    assert asked == {"sglang": {"sglang"}, "vllm": {"vllm"}, "reference": {"sglang", "vllm"}}


def test_a_build_that_did_not_run_is_not_green(tmp_path: Path) -> None:
    assert status(["matrix", "reference", "nobody", *SMALL, "--out", str(tmp_path)]) == 3


def test_what_is_ignored_is_in_no_row(tmp_path: Path, cli: Any) -> None:
    argv = ["matrix", NOISE, *SMALL, "--out", tmp_path]
    _, document = cli.ran(*argv, "--ignore", "INV-SUM-FULL.reported")
    assert not any(row["name"].startswith("INV-SUM-FULL.reported") for row in document["rows"])
    assert "Ignored: INV-SUM-FULL.reported." in document["notes"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "Missing argument 'BUILD...'"),
        (["reference", "--traces", "nowhere"], "nowhere is no folder"),
        (["reference", "reference"], "'reference' is given twice"),
        (["lmdeploy", "x:"], "no build can be run: lmdeploy: unknown engine 'lmdeploy'"),
        (["reference", "--examples", "0"], "--examples must be at least 1"),
        (["reference", "--jobs", "0"], "--jobs must be at least 1"),
    ],
)
def test_wrong_usage(argv: list[str], text: str, tmp_path: Path, cli: Any) -> None:
    assert text in cli.wrong(["matrix", *argv, "--out", str(tmp_path)])


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


def test_the_picture_is_whole_and_escapes_what_it_shows(tmp_path: Path) -> None:
    """The SVG is well-formed, and a name in it is text, not markup."""
    table = Table("T", "bug", ["a"], [Row("<b>", "x & y", [Cell("3", "bad", "t@1.json", '"q"')])])
    write(table, tmp_path / "new")
    picture = ET.fromstring((tmp_path / "new" / "matrix.svg").read_text())
    assert "<b>" in [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert len(list((tmp_path / "new").iterdir())) == 3
