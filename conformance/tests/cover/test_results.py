"""Output of a gate for other programs (JUnit, GitHub), and the steps of the action. The published
schema of JUnit is not vendored. :func:`valid_junit` has its rules for the elements in use (the XSD
of Jenkins' xUnit plugin)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import results
from slotproof.cli.app import status
from slotproof.support.statuses import FOUND, INCONCLUSIVE

ROOT = Path(__file__).parents[3]
NOISE = "INV-SUM-FULL.reported@T-RESTORE"
NEW: dict[str, Any] = {
    "id": "INV-OWNER.lost@T-SAVE",
    "detail": "a\x1b[2J %0A::error::b",
    "not_afresh": None,
    "minimal": True,
    "trace": "out/a b.itf.json",
    "problem": None,
}
CAUSE = {"name": NEW["id"], "why": "as if", "patch": None, "findings": [NEW]}
TRACE = {"file": "t.itf.json", "status": "still there", "detail": NOISE, "id": NOISE}
SUMMARY: dict[str, Any] = {
    "engine": "<b>mine</b> 1",
    "base": {"engine": "base 1"},
    "groups": [
        {
            "name": "noise",
            "status": "still there",
            "reason": "#22213 | <i>",
            "traces": [TRACE, {**TRACE, "status": "not tried", "detail": "the engine lacks it"}],
            "unexplained": False,
        },
        {
            "name": "gone",
            "status": "fixed",
            "reason": "",
            "traces": [{**TRACE, "status": "fixed"}],
            "unexplained": True,
        },
    ],
    "new": [CAUSE],
    "not_judged": [{**NEW, "minimal": False, "why": "no time"}],
    "unearned": None,
    "search": {"seed": 3, "examples": 10, "seconds": 1.5},
}


# JUnit -------------------------------------------------------------------------------------------


def valid_junit(text: str) -> str | None:
    """Return the first element in use that breaks the XSD, or None."""
    allowed = {
        "testsuites": ({"testsuite"}, set()),
        "testsuite": (
            {"properties", "testcase"},
            {"name", "tests", "failures", "errors", "skipped", "time"},
        ),
        "properties": ({"property"}, set()),
        "property": (set(), {"name", "value"}),
        "testcase": ({"skipped", "error", "failure", "system-out"}, {"classname", "name", "time"}),
        "skipped": (set(), {"message"}),
        "error": (set(), {"message"}),
        "failure": (set(), {"message"}),
        "system-out": (set(), set()),
    }
    for element in ET.fromstring(text.encode()).iter():
        children, attributes = allowed.get(element.tag, (None, set()))
        if children is None or not attributes >= set(element.attrib):
            return element.tag
        if not {child.tag for child in element} <= children:
            return element.tag
    return None


def test_junit_has_a_case_for_each_trace_and_finding() -> None:
    text = results.junit(SUMMARY)
    assert valid_junit(text) is None
    builds = {item.get("name"): item.get("value") for item in ET.fromstring(text).iter("property")}
    assert builds == {"engine": "<b>mine</b> 1", "base": "base 1"}
    (suite,) = ET.fromstring(text.encode())
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "errors": "1", "skipped": "1"}
    (failure,) = suite.iter("failure")
    assert "\x1b" not in text and "\\x1b[2J" in (failure.text or "")
    assert "as if" in (failure.text or "")


def test_what_is_no_junit_is_seen() -> None:
    text = results.junit(SUMMARY)
    assert valid_junit(text.replace("failure", "failed")) == "testsuite"
    assert valid_junit(text.replace(' time="0"', ' seconds="0"')) == "testcase"


# GitHub ------------------------------------------------------------------------------------------


def test_annotations_are_for_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert [*results.annotated(SUMMARY)] == []
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines = [*results.annotated(SUMMARY)]
    kinds = [re.match(r"::(\w+) title=([\w ]+)%3A ", line) for line in lines]
    assert [kind and kind.groups() for kind in kinds] == [
        ("error", "new"),
        ("warning", "not judged"),
        ("notice", "fixed"),
        ("warning", "no reason"),
    ]
    assert not any("\n" in line for line in lines)
    assert "%250A::error::b" in lines[0], "a stranger's words are undone as words"


def test_the_summary_of_a_step_is_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    results.step_summary(SUMMARY, "1 new")
    text = path.read_text()
    assert text.startswith("before\n") and "1 new" in text
    assert "| new | INV-OWNER.lost@T-SAVE |" in text
    assert "<b>" not in text and "\\| &lt;i>" in text, "neither HTML nor a cell of its own"


def test_what_can_not_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    base = tmp_path / "b.json"
    base.write_text('{"slotproof_baseline": 2, "groups": []}')
    assert status(["gate", str(base), "--junit", str(base / "below")]) == 2
    assert status(["gate", str(base), "--junit", str(tmp_path)]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2 and "--junit" in lines[0] and "is a folder: name a file" in lines[1]


# The action --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "base", "violated"),
    [
        ("reference", "", False),
        ("reference:22213-double-count", "", True),
        ("reference:22213-double-count", "reference:22213-double-count", False),
    ],
)
def test_the_steps_of_the_action_run(
    engine: str, base: str, violated: bool, tmp_path: Path
) -> None:
    """Steps run as on GitHub's runner, except the installation of slotproof."""
    yaml = pytest.importorskip("yaml", reason="the action is read with PyYAML, of the extra `docs`")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (tmp_path / "known.json").write_text('{"slotproof_baseline": 2, "groups": []}')
    given = {name: field.get("default", "") for name, field in action["inputs"].items()}
    given |= {"base": base} if base else {"baseline": "known.json"}
    given |= {"engine": engine, "seed": "1", "seconds": "60"}
    given["options"] = "--config p1 --examples 12"
    values = {f"inputs.{name}": value for name, value in given.items()}
    values |= {"github.action_path": str(ROOT), "runner.temp": str(tmp_path / "temp")}
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "slotproof"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m slotproof.cli.app "$@"\n')
    program.chmod(0o755)
    codes = {}
    for step in action["runs"]["steps"]:
        if "run" not in step:
            continue
        assert step["shell"] == "bash" and "${{" not in step["run"], "inputs come as variables"
        variables = {
            name: re.sub(r"\$\{\{ (.+?) \}\}", lambda match: values[match[1]], value)
            for name, value in step["env"].items()
        }
        path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **variables, "PATH": path, "GITHUB_ACTIONS": "true"}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        codes[step["name"]] = done.returncode, done.stdout
    expected = FOUND if violated else INCONCLUSIVE  # a dozen examples are no verdict
    assert [code for code, _ in codes.values()] == [0, expected, 0], codes
    assert ("::error title=new%3A" in codes["The gate"][1]) == violated
    made = tmp_path / "slotproof-results"
    assert valid_junit((made / "junit.xml").read_text()) is None
    assert (made / "pages" / "index.html").exists() == violated


def test_the_action_needs_an_engine() -> None:
    yaml = pytest.importorskip("yaml", reason="the action is read with PyYAML, of the extra `docs`")
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert action["inputs"]["engine"]["required"] and "default" not in action["inputs"]["engine"]
    (script,) = (step["run"] for step in action["runs"]["steps"] if step["name"] == "The gate")
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env={"ENGINE": ""}
    )
    assert done.returncode == 2 and "the input engine is missing" in done.stdout
