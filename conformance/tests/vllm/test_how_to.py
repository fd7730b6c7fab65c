"""The test file in docs/how-to/test-vllm.md, for developers of vLLM, run unchanged."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.vllm

DOCS = Path(__file__).parents[3] / "docs"
RELEASE = "0.33.0"


def test_the_file_for_vllms_tests_runs_as_written(
    python_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """Traces of fixed bugs pass. A search of some seconds finds nothing, or the bug that no patch
    of this release repairs completely: two resumed sessions wait for each other."""
    ((name, code),) = re.findall(
        r'^```python title="tests/(.*?)"\n(.*?)^```',
        (DOCS / "how-to" / "test-vllm.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    python = str(python_of(RELEASE))
    code = code.replace("sys.executable", repr(python)).replace('"60"', '"10"')
    (tmp_path / name).write_text(code)
    traces = tmp_path / "session_traces"
    traces.mkdir()
    for trace in sorted((DOCS / "findings").glob("vllm-*.itf.json")):
        if RELEASE not in trace.name:  # it still has the bugs of its own traces
            shutil.copy(trace, traces)
    assert list(traces.iterdir())
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path}
    done = subprocess.run(
        argv, check=False, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=400
    )
    findings = set(re.findall(r"^E +(INV-\S+@\S+)", done.stdout, re.MULTILINE))
    assert findings <= {f"INV-PROGRESS.{name}@step:full-waiting" for name in ("stalled", "starved")}
    assert done.returncode == bool(findings), done.stdout
    assert len(re.findall(r"^FAILED", done.stdout, re.MULTILINE)) == bool(findings), done.stdout
