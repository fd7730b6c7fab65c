"""Scripts made from traces: each shows its finding with vLLM alone, and none where it is mended."""

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

ANSWERS = [
    ("0.30.0", "vllm-0.30.0-first-max-tokens", "r2 gets tokens: 1"),
    ("0.30.0", "vllm-0.30.0-first-max-tokens-outgrows", "IndexError: s1: position 12 is beyond"),
    ("0.30.0", "vllm-0.30.0-resumed-behind-waiting", "r3 is not answered"),
    (NEW, "vllm-0.33.0-paused-session-pins", "r2 is not answered, and nothing more is sent"),
    (NEW, "vllm-0.33.0-resumed-sessions-deadlock", "r3 is not answered, and nothing more is sent"),
    (NEW, "vllm-0.30.0-first-max-tokens", ""),
    (NEW, "vllm-0.30.0-first-max-tokens-outgrows", ""),
    (NEW, "vllm-0.30.0-resumed-behind-waiting", ""),
    (NEW, "vllm-0.32.0-preempted-session-lost", ""),
]
"""By release and trace, what the script says; nothing where the finding is mended."""


@pytest.mark.parametrize(("build", "trace", "words"), ANSWERS)
def test_a_script_does_what_its_report_says(
    build: str, trace: str, words: str, python_of: Callable[[str], Path], tmp_path: Path
) -> None:
    path, script = FINDINGS / f"{trace}.itf.json", tmp_path / "repro.py"
    script.write_text(forms.form("script", load_trace(path), path.name))
    done = finished([python_of(build), "-I", script], timeout=300)
    assert done.returncode == int(bool(words)), done.stdout + done.stderr
    assert done.stdout.startswith(f"vLLM {build}\n")
    said = done.stdout.partition("\nBUG: ")[2]
    assert words in said if words else done.stdout.endswith("\nnot seen\n")
