"""Scripts made from traces print the finding's state with vLLM alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slotproof.reports import forms
from slotproof.reports.trace import load_trace
from tests.processes import finished

pytestmark = pytest.mark.vllm

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
NEW = "0.33.0"

SHOWS = [
    ("0.25.0", "vllm-0.25.0-resumed-in-flight", "waiting: []", 0),
    ("0.30.0", "vllm-0.30.0-first-max-tokens", "'r2': 1", 0),
    ("0.30.0", "vllm-0.30.0-first-max-tokens-outgrows", "IndexError: s1: position 12 is beyond", 2),
    ("0.30.0", "vllm-0.30.0-resumed-behind-waiting", "waiting: ['r3']", 0),
    (NEW, "vllm-0.33.0-paused-session-pins", "waiting: ['r2']", 0),
    (NEW, "vllm-0.33.0-resumed-sessions-deadlock", "'r3'", 0),
    (NEW, "vllm-0.30.0-first-max-tokens-outgrows", "waiting: []", 0),
    (NEW, "vllm-0.32.0-preempted-session-lost", "s1: WAITING", 0),
]
"""By release and trace: text printed by the script, and its exit status."""


@pytest.mark.parametrize(("build", "trace", "words", "ends"), SHOWS)
def test_a_script_shows_its_finding(
    build: str, trace: str, words: str, ends: int, python_of: Callable[[str], Path], tmp_path: Path
) -> None:
    path, script = FINDINGS / f"{trace}.itf.json", tmp_path / "repro.py"
    script.write_text(forms.form("script", load_trace(path), path.name))
    done = finished([python_of(build), "-I", script], timeout=300)
    said = done.stdout + done.stderr
    assert done.returncode == ends, said
    assert done.stdout.startswith(f"vLLM {build}\n") and words in said
