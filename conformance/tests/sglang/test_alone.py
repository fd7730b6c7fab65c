"""Scripts made from traces: each shows its finding with SGLang alone, in the words that the report
has, and none where the finding is mended."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slotproof.cli.finding_on_releases import elsewhere
from slotproof.reports import forms
from slotproof.reports.trace import load_trace
from tests.processes import finished
from tests.sglang.conftest import Run

pytestmark = pytest.mark.sglang

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
OLD, MIDDLE, NEW = "0.5.10.post1", "0.5.18", "0.5.23"

SHOWS = [
    (NEW, "abort-overshoot", "r1 gets tokens: 3"),
    (NEW, "abort-waits", "r1 was aborted, and is not answered"),
    (NEW, "finish-unwritten", "positions [2] count as committed, and nobody has written them"),
    (NEW, "idle-session-pins", "r2 is not answered, and nothing more is sent"),
    (NEW, "one-token-history", "AssertionError: a reused row must carry allocated KV"),
    (NEW, "out-of-memory", "s2's history has length 12, and should be 0"),
    (NEW, "own-row-waits", "r3 is not answered, and nothing more is sent"),
    (NEW, "page-16-waits", "r2 is not answered, and nothing more is sent"),
    (NEW, "queued-stub-aborted", "a turn of s1 is in flight, and does not count as that"),
    (NEW, "refused-token", "r1 gets tokens: 1"),
    (NEW, "retract-abort", "s1's history has length 3, and should be 0"),
    (NEW, "retract-finishes", "a turn of s1 is in flight, and does not count as that"),
    (NEW, "stub-clears-inflight", "a turn of s1 is in flight, and does not count as that"),
    (NEW, "two-first-turns", "AssertionError: session_id='s1' already has a slot"),
    (MIDDLE, "empty-first-turn", "RuntimeError: cannot reshape tensor of 0 elements"),
    (MIDDLE, "one-token-history", "AssertionError: reusing request must be chunked"),
    (MIDDLE, "queued-abort", "a turn of s1 counts as in flight, and none is"),
    (MIDDLE, "retract-finishes", "a turn of s1 is in flight, and does not count as that"),
    (MIDDLE, "stub-takes-slot", "63 of 64 tokens have an owner"),
    (MIDDLE, "swa-chunked-prompt", "the engine's own check says: Full Pool Mem Leak Detected!"),
    (MIDDLE, "two-first-turns", "63 of 64 tokens have an owner"),
    (OLD, "abort-running", "s1's history has length 1, and should be 0"),
    (OLD, "close-in-turn", "AttributeError: '_VirtualNode' object has no attribute"),
    (OLD, "doomed-turn", "the lengths of the slot are [2, 1, 1]"),
    (OLD, "double-count", "the engine's own check says: Mem Leak Detected! total_tokens=65"),
    (OLD, "hidden-leak", "63 of 64 tokens have an owner"),
    (OLD, "page-16-window", "RuntimeError: Prefill out of memory."),
    (OLD, "retract-tail", "63 of 64 tokens have an owner"),
    (OLD, "two-in-flight", "s1's history has length 2, and should be 0"),
]

MENDED = [
    (NEW, "sglang-0.5.18-queued-abort"),
    (NEW, "sglang-0.5.10.post1-double-count"),
    (NEW, "sglang-0.5.10.post1-page-16-window"),
    (NEW, "sglang-0.5.11-idle-slot-row"),
    (OLD, "sglang-0.5.23-own-row-waits"),
    (MIDDLE, "sglang-0.5.23-finish-unwritten"),
]
"""A release where what the script looks at is in order."""


def made(trace: str, folder: Path, form: str = "script") -> Path:
    path = FINDINGS / f"{trace}.itf.json"
    out = folder / f"{trace}.py"
    out.write_text(forms.form(form, load_trace(path), path.name))
    return out


@pytest.mark.parametrize(("release", "name", "words"), SHOWS)
def test_a_script_shows_its_finding(
    release: str, name: str, words: str, run: Run, tmp_path: Path
) -> None:
    done = run(made(f"sglang-{release}-{name}", tmp_path), release)
    assert done.status == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n")
    assert words in done.stdout[done.stdout.index("\nBUG: ") :]


@pytest.mark.parametrize(("release", "trace"), MENDED)
def test_a_script_shows_nothing_where_the_finding_is_mended(
    release: str, trace: str, run: Run, tmp_path: Path
) -> None:
    done = run(made(trace, tmp_path), release)
    assert done.status == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nnot seen\n")


@pytest.mark.parametrize(
    ("release", "name"), [(OLD, "hidden-leak"), (NEW, "finish-unwritten")], ids=str
)
def test_the_script_of_a_report_needs_the_engine_alone(
    release: str, name: str, python_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """As a maintainer runs it: pasted from the report, where nothing of slotproof is there."""
    report = made(f"sglang-{release}-{name}", tmp_path, "issue").read_text()
    (text,) = re.findall(r"(?s)<details>.*?```python\n(.*?)```\n\n</details>", report)
    script, python = tmp_path / "repro.py", python_of(release)
    script.write_text(text)
    absent = (
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('slotproof') is not None)"
    )
    assert finished([python, "-I", "-c", absent], timeout=60).returncode == 0
    done = finished([python, "-I", script], timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n") and "\nBUG: " in done.stdout


@pytest.mark.parametrize("release", [NEW])
def test_which_releases_have_a_finding(release: str, python_of: Callable[[str], Path]) -> None:
    """Of those whose environments are made."""
    python_of(release)
    trace = load_trace(FINDINGS / f"sglang-{release}-two-first-turns.itf.json")
    found = {each.release: each for each in elsewhere(trace)}
    assert found[release].says == "yes"
    assert re.fullmatch(r"torch \S+, Python 3\.\d+", found[release].versions)
