"""Reports for an engine's maintainers, and scripts that need only the engine, made from traces.

`conformance/tests/sglang` and `vllm` test that the scripts fail on a real build.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.cli import finding_on_releases, show as showing
from slotproof.cli.app import status
from slotproof.cli.errors import UsageProblem
from slotproof.cli.finding_on_releases import unpatched
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.observation import Violation
from slotproof.protocol.build import Build
from slotproof.protocol.commands import Command
from slotproof.protocol.family import Harness
from slotproof.reports import alone, forms, issue
from slotproof.reports.alone import calls
from slotproof.reports.issue import Elsewhere, objections
from slotproof.reports.trace import Trace, load_trace
from slotproof.reports.view import View
from slotproof.traces.itf import NoForm
from slotproof.traces.record import Recorded, Row

ROOT = Path(__file__).parents[3]
FINDINGS = {
    path.name.removesuffix(".itf.json"): path
    for path in sorted((ROOT / "docs" / "findings").glob("*.itf.json"))
}
REFERENCE = ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json"
PINS, UNWRITTEN = "sglang-0.5.23-idle-session-pins", "sglang-0.5.23-finish-unwritten"
PAUSED = "vllm-0.33.0-paused-session-pins"

WITHOUT = {
    "sglang-0.5.10.post1-draft-tail": "the engine alone has no call for 'draft'",
    "sglang-0.5.18-aborted-for-others": "the trace was found with patches",
    "sglang-0.5.18-preempted-lost": "no server options, but the trace needs priority",
    "sglang-0.5.23-aborted-for-others": "the trace was found with patches",
    "sglang-0.5.23-branch-of-aborted": "no server options, but the trace needs branching",
    "sglang-0.5.23-replace-all-crash": "no server options, but the trace needs branching",
    "sglang-0.5.23-preemptor-without-row": "no server options, but the trace needs priority",
    "sglang-0.5.23-refused-turn-preempted": "no server options, but the trace needs priority",
    "vllm-0.25.0-stop-ahead": "a turn has stop tokens",
    "vllm-0.25.0-stop-in-round": "the trace's rounds accept some drafts",
    "vllm-0.33.0-never-filled-block": "no server options, but the trace needs priority",
}
"""Findings without a script, and the reason."""


def harness(family: str) -> Harness:
    family_harness = FAMILIES[family].harness
    assert family_harness is not None
    return family_harness


def given(name: str) -> Trace:
    return load_trace(FINDINGS[name])


def script(trace: Trace) -> str:
    return alone.render(View(trace))


def finding(text: str) -> str:
    """Return the part of a script that describes the finding."""
    return text[text.index("\ndef finding():") + 1 : text.index("\n\n\nmain(")]


def sends(trace: Trace, *commands: Command) -> Trace:
    return replace(trace, rows=[Row(command) for command in commands])


def submit(rid: str, tokens: list[int], max_new: int = 1, **more: Any) -> Command:
    said = {"session": None, "rid": rid, "tokens": tokens, "max_new": max_new, "stop": []}
    return {"do": "submit", **said, **more}


STEP: Command = {"do": "step", "n": 1}


@pytest.mark.parametrize("name", [name for name in FINDINGS if name not in WITHOUT])
def test_a_finding_of_a_release_as_a_script(name: str) -> None:
    """The script is one file. It imports no file beside it and nothing of slotproof."""
    text = script(given(name))
    tree = ast.parse(text)
    imported = {
        module
        for node in ast.walk(tree)
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert not {module.partition(".")[0] for module in imported} & {"slotproof", "stubs", "rounds"}
    made = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert {"install", "main", "finding"} <= set(made) and len(made) == len(set(made))
    assert text.endswith("    engine.show()\n\n\nmain(finding, judged=False)\n")


@pytest.mark.parametrize(("name", "why"), WITHOUT.items())
def test_why_a_finding_has_no_script(
    name: str,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path))  # nothing to replay it on
    for form in ("issue", "script"):
        assert status(["show", "--format", form, str(FINDINGS[name])]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1
        if form == "issue" and "with patches" in why:
            assert f"{name}.itf.json was found with patches (" in said.err
            assert "--patch none --out NEW.itf.json" in said.err
        else:
            assert f"{name}.itf.json: there is no {form} form: " in said.err and why in said.err


@pytest.mark.parametrize(
    ("bug", "says"), [("22213-double-count", ""), (None, "the trace conforms on")]
)
def test_what_was_found_behind_patches_is_replayed_without(
    bug: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report is about the unpatched release. A bug visible only with a patch is no bug of the
    release."""
    store = SimpleNamespace(find=lambda _: "entry", damage=lambda _: None)
    monkeypatch.setattr(finding_on_releases, "Store", lambda _: store)
    monkeypatch.setattr(EngineSpec, "open", lambda _: InProcessEngine(bug))
    release = Build("sglang==0.5.23", "sglang", "0.5.23", "0.5.23")
    monkeypatch.setattr(finding_on_releases, "built", lambda _: release)
    patched = replace(load_trace(REFERENCE), patches=("queued-abort",), build=release)
    if says:
        with pytest.raises(UsageProblem, match=f"{says} sglang==0.5.23 without its patches"):
            unpatched(patched, tmp_path)
    else:
        new = unpatched(patched, tmp_path)
        assert new.violations[0].clause == "INV-SUM-FULL.reported" and not new.patches


def test_commands_are_calls_one_to_one() -> None:
    assert finding(script(given(PINS))) == (
        "def finding():\n"
        "    engine = Engine(tokens=20, page_size=1, running=3, rows=3, context=32)\n"
        '    engine.open("s1")\n'
        '    engine.submit("r1", [1, 2, 3, 4, 5, 6, 7], 0, session="s1")\n'
        '    engine.submit("r2", list(range(1, 11)), 2)\n'
        "    engine.step(17)\n"
        "    engine.show()"
    )


def test_a_session_of_vllm_begins_with_its_first_turn() -> None:
    text = finding(script(given("vllm-0.33.0-resumed-sessions-deadlock")))
    assert "engine = Engine(tokens=20, block_size=1, running=4, context=20)" in text
    assert "open" not in text and text.count('session="s1"') == 2


def test_only_what_is_used_is_in_the_script() -> None:
    """Speculation is a file of its own. Up to 0.5.12 the driver has no rounds either."""
    assert "NgramVerifyInput" in script(given(UNWRITTEN))
    assert "draft=3, topk=4, lucky=True" in script(given(UNWRITTEN))
    for name in (PINS, "sglang-0.5.10.post1-page-16-window"):
        assert "NgramVerifyInput" not in script(given(name))


def of(engine: str) -> Callable[[Trace], Trace]:
    return lambda trace: replace(trace, engine=engine)


RETRACT: Command = {"do": "retract"}
SOME = " and ".join(FAMILIES)
GARBAGE = Violation("INV-ALIVE", "crash", "no JSON", fault="garbage")
REFUSED: list[tuple[str, Callable[[Trace], Trace], str]] = [
    (PINS, lambda trace: load_trace(REFERENCE), f"{SOME} have scripts; this one is of 'reference:"),
    (PINS, lambda trace: replace(trace, spec="cmd:mine"), "this one is of 'cmd:mine'"),
    (PINS, lambda trace: replace(trace, recorded=Recorded(1, 9, 0)), "this one is of a log"),
    (PINS, lambda trace: replace(trace, patches=("retract-finishes",)), "(retract-finishes)"),
    (PINS, lambda trace: replace(trace, violations=[]), "the engine itself violates no clause"),
    (PINS, lambda trace: replace(trace, violations=[GARBAGE]), "the engine itself violates no"),
    (PINS, of("sglang of mine"), "names no release"),
    (UNWRITTEN, of("sglang 0.5.13"), "the speculative rounds of this release"),
    (PINS, lambda trace: sends(trace, {"do": "tick", "seconds": 1}), "no call for 'tick'"),
    (PINS, lambda trace: sends(trace, {"do": "pause"}), "no call for 'pause'"),
    (PAUSED, lambda trace: sends(trace, {"do": "flush"}), "no call for 'flush'"),
    (PAUSED, lambda trace: sends(trace, submit("r2", [1], stop=[5])), "a turn has stop tokens"),
    (
        PINS,
        lambda trace: sends(
            trace, submit("r2", [1]), submit("r20", [1]), {"do": "abort", "rid": "r2"}
        ),
        "aborts every request whose ID begins with r2",
    ),
    (PINS, lambda trace: sends(trace.without_states(), RETRACT), "retracts one of several"),
]


@pytest.mark.parametrize(("name", "change", "why"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_a_script_can_not_do_is_refused(
    name: str, change: Callable[[Trace], Trace], why: str
) -> None:
    with pytest.raises(NoForm, match=re.escape(why)):
        calls(change(given(name)))


def test_one_of_several_is_not_retracted() -> None:
    running = {"phase": "running"}
    row = Row(STEP, requests={"r1": running, "r2": running})
    trace = replace(given("sglang-0.5.18-retract-finishes"), rows=[row, Row(RETRACT), Row(STEP)])
    with pytest.raises(NoForm, match="one of several"):
        calls(trace)
    one = replace(row, requests={"r1": running})
    assert calls(replace(trace, rows=[one, Row(RETRACT)]))[1] == "engine.retract()"


def test_requests_that_the_front_end_of_vllm_refuses_are_not_sent() -> None:
    """The driver gets a refusal. The scheduler alone has no front end."""
    trace = given(PAUSED)
    one, none, more = submit("r1", [1]), submit("r3", []), submit("r2", [1], 0)
    changed = sends(trace, one, none, more, STEP)
    assert [call is None for call in calls(changed)] == [False, True, True, False]
    said = objections(changed, harness("vllm"))
    assert len(said) == 2 and all("the script omits the request" in objection for objection in said)


def test_an_abort_of_vllm_is_of_the_session() -> None:
    turn = submit("r1", [1], session="s1")
    trace = sends(
        given(PAUSED), {"do": "close", "session": "s1"}, turn, {"do": "abort", "rid": "r1"}
    )
    assert calls(trace)[0] is None and calls(trace)[2] == 'engine.abort("s1")'


FRONT_END = [
    ("sglang", submit("r1", [], 1), "r1: refused, “input_ids cannot be empty”"),
    ("sglang", submit("r1", [1] * 32, 0), "r1: refused, the prompt has 32 tokens"),
    ("sglang", submit("r1", [1] * 31, 2), "r1: refused, 31 tokens and 2 new tokens exceed"),
    ("sglang", submit("r1", [1] * 31, 1), None),
    ("sglang", {"do": "evict", "tokens": 3}, "evict 3 tokens: no client sends it"),
    ("vllm", submit("r1", [1] * 32, 1), "r1: refused, the prompt has 32 tokens"),
    ("vllm", submit("r1", [1], 0), "r1: refused, max_tokens is below 1"),
    ("vllm", submit("r1", [1] * 31, 9), None),
]


@pytest.mark.parametrize(("engine", "command", "said"), FRONT_END)
def test_what_the_front_end_refuses(engine: str, command: Command, said: str | None) -> None:
    """`TokenizerManager` of SGLang and `InputProcessor` of vLLM do the same. The context is 32."""
    refusals = objections(sends(given(PINS), command), harness(engine))
    assert len(refusals) == (said is not None)
    assert said is None or refusals[0].startswith(said)


def test_a_report_names_no_place_of_the_machine() -> None:
    path = "/home/me/envs/x/lib/python3.11/site-packages/sglang/srt/a.py"
    wrong = Violation("INV-ALIVE", "crash", f"RuntimeError: in {path}, see /home/me/log.txt")
    shown = issue.render(View(replace(given(PINS), violations=[wrong])))
    assert "/home/me" not in shown
    assert "RuntimeError: in sglang/srt/a.py, see log.txt" in shown.replace("\\_", "_")


def test_a_report_has_its_script() -> None:
    shown = issue.render(View(given(PINS)))
    folded = re.findall(r"(?s)<details>.*?```python\n(.*?)\n```\n\n</details>", shown)
    assert [f"{block}\n" for block in folded] == [script(given(PINS))]
    assert finding(folded[0]) in shown[: shown.index("<details>")]


@pytest.fixture
def evil(hostile: Trace) -> Trace:
    """Return a hostile trace labelled as found on a release."""
    return replace(hostile, engine="sglang 0.5.23", spec="sglang")


def test_nothing_of_a_hostile_trace_becomes_a_program(evil: Trace) -> None:
    """Calls of literals, whatever is in the strings."""
    text = script(evil)
    assert not set(text) & {"\x1b", "\u202e", "\r"}
    tree = ast.parse(text)
    (function,) = (node for node in tree.body if getattr(node, "name", "") == "finding")
    assert isinstance(function, ast.FunctionDef)
    honest = ast.parse(script(given(PINS))).body
    assert [type(node) for node in tree.body] == [type(node) for node in honest]
    done = [node.value for node in function.body if isinstance(node, ast.Expr)]
    sent = [value for value in done if isinstance(value, ast.Call)]
    names = [call.func.attr for call in sent if isinstance(call.func, ast.Attribute)]
    assert names == ["open", "submit", "step", "show"]
    assert ast.literal_eval(sent[1].args[0]) == evil.rows[1].command["rid"]


def test_nothing_of_a_hostile_trace_becomes_a_report(evil: Trace) -> None:
    shown = issue.render(View(evil))
    outside = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", shown)
    bare = re.sub(r"`[^`\n]*`", "", outside)
    assert "<script" not in bare and "](" not in bare and "<img" not in bare
    assert not set(shown) & {"\x1b", "\u202e", "\r"}


# The command line --------------------------------------------------------------------------------


def test_which_releases_have_it(monkeypatch: pytest.MonkeyPatch, cli: Any) -> None:
    tries = [Elsewhere("0.5.23", "no", "torch 2"), Elsewhere("0.5.18", "not tried: a|b", "torch 2")]
    monkeypatch.setattr(showing, "elsewhere", lambda trace: tries)
    shown = cli(["show", "--format", "issue", "--releases", str(FINDINGS[PINS])])
    assert "\n| `0.5.23` | no | torch 2 |\n| `0.5.18` | not tried: a&#124;b | torch 2 |\n" in shown
    assert "other releases were not tried" not in shown


def test_releases_that_nobody_can_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path))
    argv = ["show", "--releases", str(FINDINGS[PINS])]
    assert status([*argv, "--format", "issue"]) == 2
    said = capfd.readouterr().err
    assert "there is no environment of sglang" in said and "env create sglang==0.5.23" in said
    assert "--releases applies only to --format issue" in cli.wrong([*argv, "--format", "markdown"])


def test_forms_that_a_trace_has_not_are_left_out(tmp_path: Path) -> None:
    forms.write_all({"x.itf.json": load_trace(REFERENCE), "y.itf.json": given(PINS)}, tmp_path)
    made = {path.name for path in tmp_path.iterdir()}
    assert {"y.issue.md", "y.alone.py"} <= made
    assert not {"x.issue.md", "x.alone.py"} & made
    assert "x.issue.md" not in (tmp_path / "index.html").read_text()
