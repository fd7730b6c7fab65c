"""``make test-gpu``: the tests that need a GPU, run with a given interpreter.

Nothing is installed: a GPU machine may reach no package index. If a package is missing, the program
names it and the tests left out. Without a GPU, pytest collects the tests to check their imports,
and runs none.
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
"""Files and folders with tests marked ``gpu``. For each, a module that imports their packages."""


def missing(module: str) -> str | None:
    """Return the name of the package missing for this module, or None if it imports."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        return error.name or str(error)
    return None


def gpu() -> bool:
    """Return True if torch finds a GPU."""
    import torch

    return torch.cuda.is_available()


def main(arguments: Sequence[str] = ()) -> int:
    """Run the tests. Return the exit status of pytest. ``arguments`` are passed to pytest."""
    for name in ("torch", "pytest"):
        if importlib.util.find_spec(name) is None:
            print(
                f"test-gpu: NOTHING was run: {sys.executable} has no {name}. Install it, or set PY"
            )
            return 2
    lacking = {place: missing(module) for place, module in NEEDS.items()}
    places = [place for place, name in lacking.items() if name is None]
    available = gpu()
    done = 0
    if places:
        how = () if available else ("--collect-only", "-q")
        argv = [sys.executable, "-m", "pytest", "-m", "gpu", *how, *arguments, *places]
        done = subprocess.run(argv, cwd=ROOT, check=False).returncode
    for place, lacks in lacking.items():
        if lacks is not None:
            print(f"test-gpu: {place} was skipped: {sys.executable} has no {lacks}")
    if not available:
        print("test-gpu: NOTHING was run: torch finds no GPU")
    return done


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
