"""``make test-gpu`` installs nothing, skips nothing silently, and reports that no test ran."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import gpu

ROOT = Path(__file__).parents[3]


def test_tests_that_need_a_gpu_are_where_it_looks() -> None:
    folders = ("model", "impl", "conformance", "bench")
    files = [path for folder in folders for path in (ROOT / folder).rglob("test_*.py")]
    marked = [path.relative_to(ROOT) for path in files if "mark.gpu" in path.read_text()]
    places = [Path(place) for place in gpu.NEEDS]
    wrong = [path for path in marked if not any(path.is_relative_to(place) for place in places)]
    assert len(marked) > 3 and wrong == [Path(__file__).relative_to(ROOT)]


@pytest.mark.slow
def test_what_is_missing_is_told(tmp_path: Path) -> None:
    """An interpreter without z3, a missing engine interpreter, and no package index."""
    for name in ("z3", "jiter"):
        text = f'raise ModuleNotFoundError("No module named {name!r}", name="{name}")\n'
        (tmp_path / f"{name}.py").write_text(text)
    settings = {"PYTHONPATH": str(tmp_path), "PIP_NO_INDEX": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, gpu.__file__],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
    )
    *_, left_out, nothing = done.stdout.splitlines()
    assert left_out == (
        f"test-gpu: conformance/tests/cover/test_gpu.py was skipped: {sys.executable} has no jiter"
    )
    assert nothing == "test-gpu: NOTHING was run: torch finds no GPU"
    assert "impl/tests/test_audit.py::" in done.stdout
    assert done.returncode == 0, done.stderr
