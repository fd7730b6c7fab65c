"""A trace from an unknown sender: nothing in it is run, and no figure ends in a traceback."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from slotproof.cli.app import status
from slotproof.engines.base import EngineUnusable
from slotproof.lockstep.observation import Violation
from slotproof.matrices.table import Cell, Row as TableRow, Table, markdown, write
from slotproof.protocol.build import Build
from slotproof.reports import forms, scripted, text
from slotproof.reports.scenario import Scenario, Violated
from slotproof.reports.trace import Trace, load_trace
from slotproof.support import markup
from slotproof.traces import itf, spec_trace

HERE = Path(__file__).parents[1] / "snapshots"
TRACE = HERE / "double-count.itf.json"
DETAILED = HERE / "no-free-tail.itf.json"


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears if anything named by a trace is run, imported or installed."""
    mark = tmp_path / "mark"
    touch = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\ndef main(): pass\n"
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sglang.py").write_text(touch)
    (tmp_path / "path" / "stranger.py").write_text(touch)
    monkeypatch.syspath_prepend(tmp_path / "path")
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path / "envs"))
    monkeypatch.delenv("SLOTPROOF_ENGINE", raising=False)
    return mark


NAMES = [
    "sglang:main",
    "stranger:main",
    "sglang==0.5.23",
    "sglang==99",
    "sglang",
    "cmd:touch {mark}",
    "reference==1",
    "reference.x:main",
    " reference",
]


def named(spec: str) -> Trace:
    """Return a trace from an older slotproof, without further facts about its build."""
    return replace(load_trace(TRACE), spec=spec, engine="x 1", build=None)


@pytest.mark.parametrize("name", NAMES)
def test_replay_starts_nothing_that_a_trace_names(
    name: str, traps: Path, tmp_path: Path, cli: Any
) -> None:
    """(a) a module called sglang, (c) a release, and all the rest: `--engine` is the user's."""
    spec = name.format(mark=traps)
    path = tmp_path / "t.itf.json"
    itf.save(named(spec), path)
    assert f"give --engine {shlex.quote(spec)}" in cli.wrong(["replay", str(path)])
    assert not traps.exists() and not (tmp_path / "envs").exists()
    assert "sglang" not in sys.modules and "stranger" not in sys.modules


def test_what_is_told_of_a_build_starts_nothing(traps: Path, tmp_path: Path) -> None:
    """The record of a build neither vouches for the engine of a trace, nor replaces it."""
    program = f"cmd:touch {traps}"
    for spec, argument, code in ((program, "reference", 2), ("reference", program, 0)):
        trace = replace(named(spec), build=Build(argument, "reference"))
        itf.save(trace, tmp_path / "t.itf.json")
        assert status(["replay", str(tmp_path / "t.itf.json")]) == code
    assert not traps.exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_pytest_file_starts_nothing_that_a_trace_names(
    name: str, traps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(b) the file has the engine as data. Only the environment can select it."""
    spec = name.format(mark=traps)
    code = scripted.render(named(spec))
    assert f"FOUND_ON = {scripted.literal(spec)}" in code
    made: dict[str, Any] = {}
    exec(code, made)
    test = next(made[name] for name in made if name.startswith("test_"))
    with pytest.raises(EngineUnusable, match="does not start by itself: set SLOTPROOF_ENGINE="):
        test()
    assert not traps.exists()
    monkeypatch.setenv("SLOTPROOF_ENGINE", "reference")
    test()


def test_what_a_pytest_file_says_is_not_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pytest prints the text of an exception unescaped, so the text must be safe."""
    monkeypatch.delenv("SLOTPROOF_ENGINE", raising=False)
    with pytest.raises(EngineUnusable) as unusable:
        Scenario.asked_for("cmd:\x1b[2J", {})
    crash = Violation("INV-ALIVE", "crash", "\x1b[2J\u202e")
    with Scenario("reference") as engine:
        monkeypatch.setattr(engine.referee, "judge", lambda _: [crash])
        with pytest.raises(Violated) as violated:
            engine.step()
    assert "\\x1b[2J" in str(unusable.value) and "\x1b" not in str(unusable.value)
    assert str(violated.value) == "INV-ALIVE.crash: \\x1b[2J\\u202e"


def test_ours_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLOTPROOF_ENGINE", raising=False)
    with Scenario.asked_for("reference:22213-double-count", {}) as engine:
        assert engine.engine.version == "1 with 22213-double-count"
    with Scenario.asked_for("reference-transformer", {}):
        pass
    assert status(["replay", str(TRACE)]) == 1


@pytest.mark.parametrize("name", [*NAMES, "cmd:x; touch y", "reference:a'b $(id)"])
def test_lines_to_copy_carry_the_engine_and_nothing_else(name: str) -> None:
    """A line is one shell command, with the trace's words as arguments."""
    path = "a b'$(id).itf.json"
    line = text.again(named(name), path)
    where = "@ENV/bin/python" if name == "sglang" else ""
    assert shlex.split(line) == ["slotproof", "replay", path, "--engine", f"{name}{where}"]


def test_the_line_of_a_trace_of_the_spec() -> None:
    state = {"full.total": 1, "mbt::actionTaken": "x", "mbt::nondetPicks": {}}
    meta: dict[str, Any] = {"mutant": "a; touch b", "page_size": 1, "violated": ["x"]}
    document = {"#meta": {"slotproof-spec": meta}, "vars": [], "states": [state]}
    assert spec_trace.render(document).endswith("prove --mutant 'a; touch b' --page-size 1\n")
    meta["page_size"] = "1; c"
    with pytest.raises(itf.BadTrace, match="page_size: Input should be a valid integer"):
        spec_trace.render(document)


# Markdown ----------------------------------------------------------------------------

EVIL = "</b>[x](javascript:a)![i](//e.f) @maintainers #1 www.e.f https://e.f $x$ *a* _b_ `c` |\n# h"


def bare(line: str) -> str:
    """Return the part of a line outside of code spans."""
    return re.sub(r"`[^`]*`", "", line)


def test_where_to_look_escapes_what_it_names() -> None:
    """`how` contains the request of an event."""
    trace = load_trace(DETAILED)
    last = trace.rows[-1]
    frame = last.frames[-1]
    events = [
        {"transition": "T-EXTEND", "session": "s1", "request": EVIL, "params": {}},
        {"transition": "T-PARK", "session": "s1", "request": EVIL, "params": {}},
    ]
    differs = [{"what": "s1 req.C", "spec": 1, "engine": 2, "at": "T-PARK"}]
    differs[0] |= {"variable": "req.C", "session": "s1"}
    frames = [*last.frames[:-1], replace(frame, events=events, differs=differs)]
    rows = [*trace.rows[:-1], replace(last, frames=frames)]
    shown = forms.form("markdown", replace(trace, rows=rows), "x")
    assert "wrote a wrong value, or the field was changed by" in shown
    look = bare(shown.partition("Where to look:")[2].partition("| | command")[0])
    assert "](" not in look and "</b" not in look and "@maint" not in look and "\n#" not in look


@pytest.mark.parametrize("char", "<>[]`|~!$*_\\")
def test_text_in_markdown_stays_text(char: str) -> None:
    escaped = markup.text(f"a{char}b")
    assert escaped in (f"a\\{char}b", f"a&#{ord(char)};b")


def test_no_mention_no_link_no_list() -> None:
    escaped = markup.text(EVIL)
    assert "@m" not in escaped and ";maintainers" not in escaped and ";1" not in escaped
    assert "www.e" not in escaped and "://" not in escaped and "\n" not in escaped
    assert markup.text("a@e.f") == "a&#64;<!-- -->e.f"
    assert markup.text("# a") == "&#35;<!-- --> a"
    assert markup.text("INV-ONCE.reported@T-RESTORE") == "INV-ONCE.reported@T-RESTORE"
    assert markup.text("- a").startswith("<!-- -->") and markup.text("1. a").startswith("<!-- -->")


def test_a_table_holds_no_markup_of_what_is_in_it() -> None:
    cell = Cell(EVIL, link="a) [x](b|c.json")
    shown = markdown(Table("T", EVIL, [EVIL], [TableRow(EVIL, EVIL, [cell])], [EVIL]))
    rows = [line for line in shown.splitlines() if line.startswith("|")]
    assert [line.count("|") for line in rows] == [3, 3, 3]
    links = re.findall(r"(?<!\\)\]\(([^)]*)\)", shown)
    assert links == ["a%29%20%5Bx%5D%28b%7Cc.json"]
    assert "<" not in shown.replace("<!-- -->", "")


def test_pages_and_pictures_hold_no_control_characters(tmp_path: Path) -> None:
    """Control characters break an SVG. Direction marks fake the displayed text."""
    evil = "a\x1b[2J\u202e\x9b<b>"
    row = TableRow(evil, evil, [Cell("3", "bad", title=evil)])
    write(Table(evil, evil, [evil], [row], [evil]), tmp_path)
    for name in ("matrix.svg", "matrix.md", "matrix.json"):
        shown = (tmp_path / name).read_text(encoding="utf-8")
        assert all(line.isprintable() for line in shown.split("\n")), name
        assert "<b>" not in shown or name == "matrix.json"
    ET.parse(tmp_path / "matrix.svg")


# Contradictory figures ---------------------------------------------------------------


def with_figures(tmp_path: Path, **figures: Any) -> str:
    document = json.loads(DETAILED.read_text())
    for state in document["states"]:
        for pool in state["pools"]["#map"]:
            pool[1] = {**pool[1], **figures}
            pool[1] = {key: value for key, value in pool[1].items() if value != "gone"}
    if not figures:  # an integer in JSON Schema, but not in ITF
        document["states"][-1]["iterations"][-1]["events"][0]["params"]["u"] = 1.0
    path = tmp_path / "odd.itf.json"
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    "figures",
    [{}, {"held": "x"}, {"total": []}, {"available": 1.5}, {"total": "gone"}, {"held": {}}],
)
def test_figures_that_make_no_sense(
    figures: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay --against`, `show` in every form and in JSON: one line and status 2, or an answer."""
    path = with_figures(tmp_path, **figures)
    shows = [["show", "--format", form, path] for form in forms.FORMS]
    for argv in (
        ["replay", path, "--engine", "reference", "--against", path],
        ["replay", path, "--engine", "reference", "--against", "reference"],
        ["show", "--json", path],
        *shows,
    ):
        code = status(argv)
        out, err = capsys.readouterr()
        assert code in (0, 1, 2) and err.count("\n") == (code == 2), argv
        assert bool(out) == (code != 2), argv


def test_a_trace_of_the_spec_that_is_too_deep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "deep.itf.json"
    for depth in (400, *range(850, 1000, 3)):
        deep = "[" * depth + "]" * depth
        path.write_text(f'{{"#meta": {{"slotproof-spec": {{"x": {deep}}}}}, "states": []}}')
        for argv in (["show", str(path)], ["show", "--json", str(path)]):
            code = status(argv)
            err = capsys.readouterr().err
            assert code in (0, 2) and err.count("\n") == (code == 2), (depth, argv)


def test_the_files_of_show_all_refuse_too(tmp_path: Path, traps: Path) -> None:
    """`show --all` writes test files by default. Running pytest on the folder starts no engine."""
    trace, out = tmp_path / "t.itf.json", tmp_path / "out"
    itf.save(named(f"cmd:touch {traps}"), trace)
    assert status(["show", "--all", "--out", str(out), str(trace)]) == 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1 and "does not start by itself" in done.stdout
    assert not traps.exists()
