"""Content of every form of a trace, and protection against hostile traces."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.build import Build
from slotproof.reports import forms, scripted, text
from slotproof.reports.scenario import Scenario, Violated
from slotproof.reports.trace import Trace, load_trace
from slotproof.traces import itf

ROOT = Path(__file__).parents[3]
FINDINGS = sorted((ROOT / "docs" / "findings").glob("*.itf.json"))
ALWAYS = [name for name in forms.FORMS if name not in ("issue", "script")]
"""Forms of every replayable trace. `test_alone.py` tests the rest."""
TRACE = ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json"
OF_A_RELEASE = ROOT / "docs" / "findings" / "sglang-0.5.18-stub-takes-slot.itf.json"
"""A trace with every form."""


class Page(HTMLParser):
    """Tags with attributes, and their text, as read by a browser."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ALWAYS)
def test_every_finding_in_every_form(path: Path, form: str) -> None:
    trace = load_trace(path)
    shown = forms.form(form, trace, path.name)
    assert "\x1b" not in shown
    if form == "html":
        page = Page(shown)
        marked = [attrs for tag, attrs in page.tags if tag == "tbody" and "data-beat" in attrs]
        bad = [attrs for attrs in marked if "bad" in (attrs["class"] or "").split()]
        assert {attrs["data-beat"] for attrs in bad} == {marked[-1]["data-beat"]}
    elif form == "pytest":
        ast.parse(shown)
    else:
        assert trace.violations[0].clause.split(".")[0] in shown


def test_the_page_loads_nothing() -> None:
    """The page opens from disk, without a network."""
    page = Page(forms.form("html", load_trace(FINDINGS[0]), "x"))
    assert not [attrs for _, attrs in page.tags if "src" in attrs]
    links = [attrs["href"] or "" for _, attrs in page.tags if "href" in attrs]
    assert links
    assert all(link.startswith("#") for link in links)
    assert len(page.scripts) == 1


def test_nothing_of_a_hostile_trace_becomes_markup(hostile: Trace) -> None:
    """The page has the same tags as for any trace, and only slotproof's script."""
    shown = forms.form("html", hostile, hostile.engine)
    page, honest = Page(shown), Page(forms.form("html", load_trace(FINDINGS[0]), "x"))
    # `q` holds the report of the engine's own check.
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in honest.tags} | {"q"}
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert page.scripts == honest.scripts
    assert not set(shown) & {"\x1b", "\u202e", "\r"}


def test_nothing_of_a_hostile_trace_becomes_markdown(hostile: Trace) -> None:
    shown = forms.form("markdown", hostile, "x")
    outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", shown)
    bare = re.sub(r"`[^`\n]*`", "", outside)
    assert "<script" not in bare and "](" not in bare and "<img" not in bare
    assert not set(shown) & {"\x1b", "\u202e", "\r"}
    rows = [line for line in outside.splitlines() if line.startswith("|")]
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in rows[:5]}
    assert cells == {6}


def test_nothing_of_a_hostile_trace_becomes_python(hostile: Trace) -> None:
    """Whatever the strings contain, the file has only calls with the trace's literals."""
    tree = ast.parse(forms.form("pytest", hostile, "x"))
    kinds = [type(node).__name__ for node in tree.body]
    assert kinds == ["Expr", "ImportFrom", "Assign", "Assign", "FunctionDef"]
    function = tree.body[-1]
    assert isinstance(function, ast.FunctionDef)
    block = function.body[0]
    assert isinstance(block, ast.With)
    calls = [statement.value for statement in block.body if isinstance(statement, ast.Expr)]
    assert len(calls) == len(block.body) == 4
    submit = calls[2]
    assert isinstance(submit, ast.Call)
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in submit.keywords}
    assert given["rid"] == hostile.engine and given["tokens"] == [1]


def test_nothing_of_a_hostile_trace_reaches_the_terminal(
    hostile: Trace, tmp_path: Path, cli: Any
) -> None:
    path = tmp_path / "evil.itf.json"
    itf.save(hostile, path)
    for form in ALWAYS:
        assert "\x1b" not in cli(["show", "--format", form, str(path)])


def run_file(path: Path, engine: str | None = None) -> subprocess.CompletedProcess[str]:
    """The pytest file, run as a reader would."""
    environment = {key: value for key, value in os.environ.items() if "SLOTPROOF" not in key}
    environment |= {"SLOTPROOF_ENGINE": engine} if engine else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=path.parent, check=False
    )


@pytest.mark.slow
def test_the_pytest_file_fails_on_the_bug_and_passes_without_it(tmp_path: Path) -> None:
    path = tmp_path / "test_double_count.py"
    assert status(["show", "--format", "pytest", "--out", str(path), str(TRACE)]) == 0
    broken = run_file(path)
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert "Violated: INV-SUM-FULL.reported" in broken.stdout
    fixed = run_file(path, "reference")
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr


def test_a_trace_names_what_replays_it() -> None:
    trace = load_trace(ROOT / "docs" / "findings" / "sglang-0.5.23-two-first-turns.itf.json")
    old = replace(trace, spec="sglang", build=None)  # of an older slotproof, from some Python
    assert text.again(old, "x") == "slotproof replay x --engine sglang@ENV/bin/python"
    assert old.identity.title == "sglang 0.5.23+unverified"
    released = Build("sglang==0.5.23", "sglang", "0.5.23", "0.5.23")
    trace = replace(trace, spec="sglang==0.5.23", build=released)
    assert 'FOUND_ON = "sglang==0.5.23"' in scripted.render(trace)
    assert text.again(trace, "x") == "slotproof replay x --engine sglang==0.5.23"
    assert text.again(trace, "x", EngineSpec("sglang==0.5.23", step_timeout=300)) == (
        "slotproof replay x --engine sglang==0.5.23 --step-timeout 300"
    )
    own_spec = EngineSpec("sglang", Path("my env/bin/python"), step_timeout=60)
    head = Build(own_spec.argument, "sglang", "0.5.23", "", fingerprint="9e29")
    trace = replace(trace, spec="sglang", build=head)
    assert 'FOUND_ON = "sglang@my env/bin/python"' in scripted.render(trace)
    assert text.again(trace, "x", own_spec) == (
        "slotproof replay x --engine 'sglang@my env/bin/python' --step-timeout 60"
    )


def test_every_command_has_a_call(tmp_path: Path) -> None:
    """A scenario offers every command of a trace."""
    from slotproof.protocol.commands import FIELDS

    with Scenario("reference", {"draft": 3}) as engine:
        engine.open("s1")
        engine.submit("r1", "s1", [1, 2], max_new=9)
        engine.step(2)
        engine.accept("r1", 2)
        engine.step()
        engine.pause()
        engine.continue_()
        engine.retract()
        engine.abort("r1")
        engine.step()
        engine.evict(1)
        engine.abort_all()
        engine.flush()
        engine.flush_all()
        engine.close("s1")
        engine.step()
        engine.tick(1)
        engine.tick_ms(250)
        engine.ignore("INV-ONCE.reported")
        done = {entry.command["do"] for entry in engine.referee.log}
    # The reference drafts by itself. Other engines get drafts by command.
    assert {*done, "draft"} == set(FIELDS)


def test_a_scenario_says_what_broke() -> None:
    """#22213."""
    with Scenario("reference:22213-double-count") as engine:
        engine.open("s1")
        engine.submit("r1", "s1", [1], max_new=0)
        engine.step()
        engine.submit("r2", "s1", [1], max_new=2)
        with pytest.raises(Violated, match=r"INV-SUM-FULL\.reported: full: 62"):
            engine.step()


def test_a_command_that_the_engine_does_not_offer() -> None:
    toy = ROOT / "conformance" / "slotproof" / "drivers" / "examples" / "toy.py"
    with (
        Scenario(f"cmd:{sys.executable} {toy}") as engine,
        pytest.raises(EngineUnusable, match="does not offer “draft”"),
    ):
        engine.draft("r1", allocate=1, commit=1)


def test_all_forms_of_many_traces_and_an_index(tmp_path: Path, cli: Any) -> None:
    out = tmp_path / "gallery"
    copy = tmp_path / TRACE.name
    copy.write_text(TRACE.read_text())
    argv = [str(TRACE), str(copy), str(FINDINGS[0])]
    shown = cli(["show", "--all", "--out", str(out), *argv])
    assert shown == f"3 traces, each in up to 6 forms: {out}/index.html\n"
    names = {path.name for path in out.iterdir()}
    assert len(names) == 15  # traces of the reference have no issue and no script
    alone = {"sglang-0.5.10.post1-abort-running.issue.md"}
    assert {name for name in names if name.endswith(".issue.md")} == alone
    assert {"double-count.html", "double-count-2.md", "test_double_count_2.py"} <= names
    page = Page((out / "index.html").read_text())
    links = {attrs["href"] for tag, attrs in page.tags if tag == "a"}
    assert links == names - {"index.html"}


def test_an_index_of_a_hostile_trace(hostile: Trace, tmp_path: Path) -> None:
    forms.write_all({f"../../{hostile.engine}.itf.json": hostile}, tmp_path / "out")
    assert {path.parent for path in tmp_path.rglob("*.html")} == {tmp_path / "out"}
    index = (tmp_path / "out" / "index.html").read_text()
    assert "script" not in {tag for tag, _ in Page(index).tags}


def test_wrong_use(tmp_path: Path, cli: Any) -> None:
    assert "--all needs --out" in cli.wrong(["show", "--all", str(TRACE)])
    assert "several traces" in cli.wrong(["show", str(TRACE), str(TRACE)])
    (tmp_path / "file").write_text("")
    inside = str(tmp_path / "file" / "x")
    assert "can't be written" in cli.wrong(["show", "--out", inside, str(TRACE)])
    assert "can't be written" in cli.wrong(["show", "--all", "--out", inside, str(TRACE)])


@pytest.mark.parametrize("name", forms.FORMS)
def test_the_form_is_taken_from_the_end_of_the_file(name: str, tmp_path: Path) -> None:
    """One table maps file extensions to forms. An equal --format may be given too."""
    out, again = (tmp_path / f"{stem}{forms.ENDINGS[name]}" for stem in ("a", "b"))
    asks = ["--format", name, "--out", str(again)]
    assert status(["show", str(OF_A_RELEASE), *asks]) == 0
    wanted = forms.form(name, load_trace(OF_A_RELEASE, to_run=False), str(OF_A_RELEASE))
    assert again.read_text() == wanted
    assert status(["show", str(OF_A_RELEASE), "--out", str(out)]) == 0
    assert out.read_text() == wanted


def test_a_file_without_an_end_is_text_and_json_is_json(tmp_path: Path) -> None:
    assert status(["show", str(TRACE), "--out", str(tmp_path / "plain")]) == 0
    assert (tmp_path / "plain").read_text() == forms.form("text", load_trace(TRACE), str(TRACE))
    assert status(["show", str(TRACE), "--out", str(tmp_path / "x.json")]) == 0
    assert "where_to_look" in json.loads((tmp_path / "x.json").read_text())


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--format", "markdown", "--out", "x.html"], "--out x.html would be html, and --format"),
        (["--json", "--out", "x.md"], "--out x.md would be markdown, and --json is json"),
        (["--open", "--out", "x.txt"], "--out x.txt would be text, and --open is html"),
        (["--open", "--json"], "--json and --open ask for two forms"),
        (["--format", "text", "--open"], "--format and --open ask for two forms"),
    ],
)
def test_two_forms_at_once_are_one_line(
    argv: list[str], text: str, workdir: Path, cli: Any
) -> None:
    trace = str(TRACE.absolute())
    assert text in cli.wrong(["show", trace, *argv])
    assert not [*workdir.iterdir()]


def test_a_page_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    """The page opens in the browser. Without a browser, one line names the file."""
    asked: list[str] = []

    def browser(url: str) -> bool:
        asked.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", browser)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = cli(["show", str(TRACE), "--open"])
    (page,) = tmp_path.glob("slotproof-*/page.html")
    assert asked == [page.as_uri()] and f" {page}\n" in said
    assert page.read_text() == forms.form("html", load_trace(TRACE), str(TRACE))
    assert status(["show", "--all", "--open", "--out", str(tmp_path / "all"), str(TRACE)]) == 0
    assert asked[1:] == [(tmp_path / "all" / "index.html").as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    out = tmp_path / "mine.html"
    assert f"no browser can be started: open {out}" in cli.wrong(
        ["show", str(TRACE), "--open", "--out", str(out)]
    )
    assert out.exists()


def test_iterations_that_make_no_sense(tmp_path: Path, cli: Any) -> None:
    """A trace is untrusted: one line, status 2."""
    document = json.loads(FINDINGS[0].read_text())
    frame = document["states"][-1]["iterations"][0]
    path = tmp_path / "x.itf.json"
    many = [{"kind": "slot", "name": "s1", "pages": "0-99999999999999999"}]
    for key, value in (
        ("pages", {"#map": [["full", many]]}),
        ("pages", {"#map": [["full", [{"kind": "x", "pages": ""}]]]}),
        ("pages", {"#map": [["full", [{"kind": "free", "pages": "a"}]]]}),
        ("events", [{"transition": 5, "params": {}}]),
        ("shares", {"#map": [["full", {"held": "x", "uncached": 0}]]}),
        ("shares", {"#map": [["full", 7]]}),
        ("differs", [{}]),
        ("check", {}),
        ("unknown", 1),
    ):
        broken: dict[str, Any] = {**frame, key: value}
        document["states"][-1]["iterations"] = [broken]
        path.write_text(json.dumps(document))
        cli.wrong(["show", "--format", "html", str(path)])


def test_a_trace_of_the_spec_alone(workdir: Path, cli: Any) -> None:
    """`prove` writes transitions and no commands: the trace has the forms text, html and JSON."""
    pytest.importorskip("z3")
    status(["prove", "--mutant", "22862-no-free-tail", "--page-size", "1"])
    (path,) = (workdir / "slotproof-traces").glob("spec-*.itf.json")
    shown = cli(["show", str(path)])
    assert "violated by the spec with 22862-no-free-tail" in shown
    assert "T-RESTORE" in shown
    page = cli(["show", "--format", "html", str(path)])
    assert len(Page(page).scripts) == 1
    assert "<h1>The owners&#39; tokens do not add up to the pool&#39;s total</h1>" in page
    assert '<code>req.row</code></th><td class="n">no_row</td><td class="n ch">0</td>' in page
    assert "again: slotproof prove --mutant 22862-no-free-tail --page-size 1" in shown
    for asked in (["--format", "markdown"], ["--format", "issue", "--releases"], ["--all"]):
        wrong = cli.wrong(["show", str(path), *asked, "--out", str(workdir / "x")])
        assert "is a trace of the spec, without commands; --format is text or html" in wrong
    good = json.loads(path.read_text())
    hostile = json.loads(json.dumps(good).replace("T-RESTORE", "<b>").replace("req.row", "<i>"))
    path.write_text(json.dumps(hostile))
    page = cli(["show", "--format", "html", str(path)])
    assert "&lt;b&gt;" in page and "&lt;i&gt;" in page and "<i>" not in page and "<b>" not in page
    no_total, no_value, no_params, no_pages = (json.loads(json.dumps(good)) for _ in range(4))
    del no_total["states"][0]["full.total"], no_value["states"][2]["req.C"]
    no_params["states"][1]["mbt::nondetPicks"] = 1
    del no_pages["#meta"]["slotproof-spec"]["page_size"]
    for document, words in (
        (no_total, "a trace of the spec: a state has no 'full.total'"),
        (no_value, "a trace of the spec: a state has no 'req.C'"),
        (no_params, "a trace of the spec: state 1 has no parameters"),
        (no_pages, "page_size: "),
    ):
        path.write_text(json.dumps(document))
        for form in ("text", "html"):
            assert f"{path}: " in (said := cli.wrong(["show", "--format", form, str(path)]))
            assert words in said


@pytest.mark.parametrize("name", ["text", "markdown", "html"])
def test_a_trace_without_states_says_so(name: str) -> None:
    """Missing steps are not invented, and no unusable command is shown."""
    shown = forms.form(name, load_trace(TRACE).without_states(), "T.itf.json")
    assert "no states" in shown and "--out FILE" in shown
    assert "Waits in the inbox" not in shown and "--against" not in shown
