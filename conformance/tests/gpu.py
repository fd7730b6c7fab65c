"""``make test-gpu``: the tests that need a GPU, with an interpreter that is taken as it is.

Nothing is installed: a GPU machine may reach no package index. What can't be imported there is
said, with the tests that are therefore left out. Without a GPU the tests are collected, so that it
is seen whether they would start, and none is run.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDS = {
    "impl/tests": "tests.driving",
    "conformance/tests/cover/test_gpu.py": "tests.cover.test_gpu",
}
"""Where tests marked ``gpu`` are; of each place, a module that imports what they need."""


def missing(module: str) -> str | None:
    """What has to be installed before this can be imported; nothing, if it can."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return error.name or str(error)
    return None


def gpu() -> bool:
    """Whether torch sees one."""
    import torch

    return torch.cuda.is_available()


def main(arguments: Sequence[str] = ()) -> int:
    """The status of pytest; ``arguments`` are for it."""
    for name in ("torch", "pytest"):
        if importlib.util.find_spec(name) is None:
            print(f"test-gpu: {sys.executable} has no {name}: NOTHING was run")
            return 2
    lacking = {place: missing(module) for place, module in NEEDS.items()}
    places = [place for place, name in lacking.items() if name is None]
    there = gpu()
    done = 0
    if places:
        how = () if there else ("--collect-only", "-q")
        argv = [sys.executable, "-m", "pytest", "-m", "gpu", *how, *arguments, *places]
        done = subprocess.run(argv, cwd=ROOT, check=False).returncode
    for place, lacks in lacking.items():
        if lacks is not None:
            print(f"test-gpu: {place} was left out: {sys.executable} has no {lacks}")
    if not there:
        print("test-gpu: torch sees no GPU here: NOTHING was run")
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
