"""Scripts made from traces print the finding's state with SGLang alone. On a fixed release they
print another state."""

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

LENGTHS = "its slot: {'cache_protected_len': 2, 'kv_committed_len': 1, 'kv_allocated_len': 1}"
SHOWS = [
    (NEW, "abort-overshoot", "tokens that each got: {'r1': 3}"),
    (NEW, "abort-waits", "running: ['r1'] - waiting: []"),
    (NEW, "finish-unwritten", "positions committed, and never written: [2]"),
    (NEW, "idle-session-pins", "running: [] - waiting: ['r2']"),
    (NEW, "one-token-history", "AssertionError: a reused row must carry allocated KV"),
    (NEW, "out-of-memory", "history of 12 tokens"),
    (NEW, "own-row-waits", "running: [] - waiting: ['r3']"),
    (NEW, "page-16-waits", "running: [] - waiting: ['r2']"),
    (NEW, "swa-budget-waits", "running: [] - waiting: ['r1']"),
    (NEW, "queued-stub-aborted", "s1: in flight False"),
    (NEW, "refused-token", "tokens that each got: {'r1': 1}"),
    (NEW, "retract-abort", "history of 3 tokens"),
    (NEW, "retract-finishes", "s1: in flight False"),
    (NEW, "stub-clears-inflight", "s1: in flight False"),
    (NEW, "two-first-turns", "AssertionError: session_id='s1' already has a slot"),
    (MIDDLE, "empty-first-turn", "RuntimeError: cannot reshape tensor of 0 elements"),
    (MIDDLE, "one-token-history", "AssertionError: reusing request must be chunked"),
    (MIDDLE, "queued-abort", "s1: in flight True"),
    (MIDDLE, "retract-finishes", "s1: in flight False"),
    (MIDDLE, "stub-takes-slot", "in all 63"),
    (MIDDLE, "swa-chunked-prompt", "the engine's own check: Full Pool Mem Leak Detected!"),
    (MIDDLE, "two-first-turns", "in all 63"),
    (OLD, "abort-running", "history of 1 tokens"),
    (OLD, "close-in-turn", "AttributeError: '_VirtualNode' object has no attribute"),
    (OLD, "doomed-turn", LENGTHS),
    (OLD, "double-count", "the engine's own check: Mem Leak Detected! total_tokens=65"),
    (OLD, "hidden-leak", "in all 63"),
    (OLD, "page-16-window", "RuntimeError: Prefill out of memory."),
    (OLD, "retract-tail", "in all 63"),
    (OLD, "two-in-flight", "history of 2 tokens"),
]

FIXED = [
    (NEW, "sglang-0.5.18-queued-abort", "s1: in flight True"),
    (NEW, "sglang-0.5.10.post1-double-count", "Mem Leak Detected!"),
    (NEW, "sglang-0.5.10.post1-page-16-window", "RuntimeError: Prefill out of memory."),
    (NEW, "sglang-0.5.11-idle-slot-row", "Leak Detected!"),
    (OLD, "sglang-0.5.23-own-row-waits", "waiting: ['r3']"),
    (MIDDLE, "sglang-0.5.23-finish-unwritten", "positions committed, and never written: [2]"),
]
"""Releases without the finding, and the text missing from the script's output."""


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
    said = done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n") and words in said
    assert done.status == (2 if "Error: " in words else 0), said


@pytest.mark.parametrize(("release", "trace", "words"), FIXED)
def test_a_script_shows_nothing_where_the_finding_is_fixed(
    release: str, trace: str, words: str, run: Run, tmp_path: Path
) -> None:
    done = run(made(trace, tmp_path), release)
    assert done.status == 0, done.stdout + done.stderr
    assert "\nthe engine's own check: " in done.stdout and words not in done.stdout


@pytest.mark.parametrize(
    ("release", "name"), [(OLD, "hidden-leak"), (NEW, "finish-unwritten")], ids=str
)
def test_the_script_of_a_report_needs_the_engine_alone(
    release: str, name: str, python_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """The script is pasted from the report and run without slotproof, as a maintainer would."""
    report = made(f"sglang-{release}-{name}", tmp_path, "issue").read_text()
    (text,) = re.findall(r"(?s)<details>.*?```python\n(.*?)```\n\n</details>", report)
    script, python = tmp_path / "repro.py", python_of(release)
    script.write_text(text)
    absent = (
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('slotproof') is not None)"
    )
    assert finished([python, "-I", "-c", absent], timeout=60).returncode == 0
    done = finished([python, "-I", script], timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n") and "\nanswers: " in done.stdout


@pytest.mark.parametrize("release", [NEW])
def test_which_releases_have_a_finding(release: str, python_of: Callable[[str], Path]) -> None:
    """Only releases with an environment are tested."""
    python_of(release)
    trace = load_trace(FINDINGS / f"sglang-{release}-two-first-turns.itf.json")
    rows = {row.release: row for row in elsewhere(trace)}
    assert rows[release].says == "yes"
    assert re.fullmatch(r"torch \S+, Python 3\.\d+", rows[release].versions)
