"""`from slotproof import …`: its names, its cost, and its messages on wrong use."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from pkgutil import resolve_name

import pytest

import slotproof
from slotproof import Scenario, load_trace, run, validate
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.reports.scenario import Violated
from slotproof.reports.trace import Trace

ROOT = Path(__file__).parents[3]
TRACE = ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json"
LOG = ROOT / "conformance" / "tests" / "fuzz" / "corpus" / "logs" / "two-turns.jsonl"
ABOUT = ROOT / "conformance" / "README.md"


def test_importing_it_takes_nothing_heavy() -> None:
    code = "import slotproof, sys; print([m for m in sys.modules if m.startswith('slotproof')])"
    heavy = "print([m for m in ('torch', 'z3', 'hypothesis', 'pydantic') if m in sys.modules])"
    argv = [sys.executable, "-c", f"{code}; {heavy}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT / "docs")
    assert done.stdout.splitlines() == ["['slotproof']", "[]"]


def test_what_it_exports_has_an_example() -> None:
    assert set(slotproof.__all__) <= set(dir(slotproof))
    for name in set(slotproof.__all__) - {"__version__"}:
        text = inspect.getdoc(getattr(slotproof, name)) or ""
        assert doctest.DocTestParser().get_examples(text), name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        slotproof.nothing  # noqa: B018


def test_a_trace_is_one_line_where_it_is_not_shown() -> None:
    trace = load_trace(TRACE)
    clause = trace.violations[0].clause
    assert repr(trace) == f"<Trace: {clause} violated by {trace.engine}, in 5 commands>"
    with Scenario("reference") as engine:
        engine.open("s1")
    assert repr(engine.trace) == "<Trace: nothing violated by reference 1, in 1 command>"


@pytest.mark.parametrize("name", ["EngineUnusable", "Happened", "Trace", "Violated"])
def test_types_are_imported_when_they_are_used(name: str) -> None:
    code = f"import sys; from slotproof import {name}; print({name}.__name__); "
    code += "print([m for m in ('torch', 'z3', 'hypothesis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [name, "[]"]


def test_members_on_the_page_exist() -> None:
    page = (ROOT / "docs" / "reference" / "api" / "slotproof.md").read_text()
    listed = re.findall(r"::: (\S+)\n.*members: \[(.*)\]", page)
    assert len(listed) == 3
    for name, members in listed:
        names = dir(resolve_name(name))
        assert [member for member in members.split(", ") if member not in names] == [], name


def test_a_command_returns_what_happened() -> None:
    """#22213, step by step, past the violation."""
    with Scenario("reference:22213-double-count", raises=False) as engine:
        opened = engine.open("s1")
        assert (opened.transitions, opened.messages, opened.figures) == ([], [], {})
        engine.submit("r1", "s1", [5, 6, 7], max_new=0)
        first = engine.step()
        waits = engine.submit("r2", "s1", [8], max_new=2)
        second, third = engine.step(), engine.step()
    assert first.transitions == ["T-OPEN", "T-SUBMIT", "T-MATCH", "T-EXTEND", "T-SAVE"]
    assert [message["type"] for message in first.messages] == ["opened", "finish"]
    assert first.violations == [] and waits.figures == first.figures
    # By ownership, where the engine's own check counts the loan as held too.
    assert second.figures["full"] == {
        "available": 60,
        "evictable": 0,
        "protected": 0,
        "held": 0,
        "uncached": 4,
        "total": 64,
    }
    assert second.row.pools["full"]["held"] == 3 and second.row.slots["s1"]["lent"]
    assert second.violations[0].clause == "INV-SUM-FULL.reported"
    assert str(second).splitlines()[0] == "  5  one scheduler iteration" and "67 ≠ 64" in str(
        second
    )
    assert third.violations == [] and third.number == 6
    assert engine.trace.rows[-1] is second.row  # commands up to the violation replay
    assert engine.trace.violations == second.violations


def test_what_is_raised_has_what_happened() -> None:
    with Scenario("reference:22213-double-count") as engine:
        engine.open("s1")
        engine.submit("r1", "s1", [5], max_new=0)
        engine.step()
        engine.submit("r2", "s1", [8], max_new=2)
        with pytest.raises(Violated) as violated:
            engine.step()
    assert violated.value.happened is engine.happened[-1]
    assert str(engine.trace).startswith("INV-SUM-FULL.reported violated by reference 1 with")


def test_the_trace_of_a_scenario_replays(tmp_path: Path) -> None:
    from slotproof.cli.app import status
    from slotproof.traces import itf

    with Scenario("reference:22862-no-free-tail", {"page_size": 4}, raises=False) as engine:
        engine.open("s1")
        engine.submit("r1", "s1", [1], max_new=0)
        engine.step()
        engine.submit("r2", "s1", [], max_new=0)
        engine.step()
    itf.save(engine.trace, tmp_path / "mine.itf.json")
    assert load_trace(str(tmp_path / "mine.itf.json")) == engine.trace
    assert engine.trace.violations and engine.trace.explained
    assert status(["replay", str(tmp_path / "mine.itf.json")]) == 1


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_notebook_shows_the_page_in_a_frame(hostile: Trace) -> None:
    """Whatever the trace holds, the notebook gets one tag. Scripts of the page can't reach it."""
    for trace in (load_trace(TRACE), hostile):
        ((tag, attributes),) = Tags(trace._repr_html_()).tags
        assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
        page = attributes["srcdoc"] or ""
        assert page.startswith("<!doctype html>") and "Content-Security-Policy" in page


def test_a_run_says_what_the_command_says() -> None:
    result = run("reference:22213-double-count", configs=["p1"], examples=60)
    assert result.summary["status"] == 1 and result.trace is not None
    assert str(result).splitlines()[-1] == "counterexample: INV-SUM-FULL.reported"
    nothing = run(configs=["p1"], examples=2)
    assert nothing.trace is None and nothing.summary["status"] == 3
    assert "not observed" in str(nothing)


def test_logs_are_named_as_text_or_as_paths() -> None:
    assert validate(str(LOG)).violations == validate(LOG).violations == []


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (lambda: load_trace("nowhere"), ValueError, "nowhere: No such file"),
        (lambda: validate("nowhere"), ValueError, "nowhere: No such file"),
        (lambda: run(configs=["p99"]), ValueError, "unknown configuration 'p99'; there are: p1,"),
        (lambda: run(configs="p1"), ValueError, "configs='p1' must be a list of names"),
        (lambda: run(examples=0), ValueError, "examples=0 must be at least 1"),
        (lambda: run(seconds=0), ValueError, "seconds=0 must be more than 0"),
        (lambda: run("nothing"), EngineUnusable, "unknown engine 'nothing'"),
        (lambda: Scenario("reference", {"page_size": 0}), ValueError, "page_size"),
        (lambda: Scenario("reference", {"size": 1}), ValueError, "size"),
        (lambda: Scenario().step(-1), ValueError, "step/n"),
        (lambda: Scenario().open(5), ValueError, "open/session"),  # type: ignore[arg-type]
    ],
)
def test_wrong_use(wrong: Callable[[], object], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=re.escape(says)) as error:
        wrong()
    assert "\n" not in str(error.value)


def test_a_factory_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder is searched last, so no file in it replaces a library."""
    text = "from slotproof.engines.reference import InProcessEngine as engine\n"
    (tmp_path / "beside_me.py").write_text(text + "import sndhdr_of_mine, pydoc_data.topics\n")
    (tmp_path / "sndhdr_of_mine.py").write_text("")
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "__init__.py").write_text("raise SystemExit('not this one')")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("beside_me", "sndhdr_of_mine", "pydoc_data", "pydoc_data.topics"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(EngineUnusable, match="No module named 'beside_me'"):
        EngineSpec("beside_me:engine").open()
    monkeypatch.chdir(tmp_path)
    assert EngineSpec("beside_me:engine").open().version == "1"
    for name in ("beside_me", "sndhdr_of_mine"):
        sys.modules.pop(name, None)


def test_the_description_stands_alone() -> None:
    """Readers see the description without the repository. Its code runs."""
    text = ABOUT.read_text()
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "67 ≠ 64" in done.stdout
