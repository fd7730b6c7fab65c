"""Run the gate on patched copies of a release, and print a line for each.

    python conformance/tests/sglang/regress.py 01 07 [--seconds S] [--seed N] [--keep DIR]

The diffs are in `regressions/`. Without a number, all are run. `00` is the release without a patch.
`--keep` names a folder for the gate's JSON and its traces.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from slotproof.engines.releases import of_release
from slotproof.support.children import run
from slotproof.support.terminal import say

RELEASE = "0.5.23"
BASELINE = Path(__file__).parents[3] / "docs" / "findings" / f"sglang-{RELEASE}.baseline.json"
DIFFS = sorted(Path(__file__).with_name("regressions").glob("*.diff"))
COLUMNS = "{:<34} {:>6} {:>8} {:>6} {:>7}  {}"


def patched(diff: Path | None, folder: Path) -> Path:
    """Copy the environment of the release into a folder and apply a diff. Return its Python."""
    entry = of_release(f"sglang=={RELEASE}")
    copy = folder / "environment"
    shutil.copytree(entry.path, copy, symlinks=True)
    if diff is not None:
        site = copy / entry.site.relative_to(entry.path)
        run(["patch", "-s", "-p1", "--fuzz=0", "-d", site, "-i", diff]).check_returncode()
    return copy / entry.python.relative_to(entry.path)


def gate(python: Path, out: Path, seconds: str, seed: str) -> tuple[dict[str, Any], int]:
    """Run the gate on a build against its release. Return its JSON document and its status."""
    command = [sys.executable, "-m", "slotproof.cli.app", "gate", str(BASELINE), "--json"]
    command += ["--base", f"sglang=={RELEASE}", "--engine", f"sglang@{python}", "--out", str(out)]
    options = ["--seconds", seconds, "--seed", seed]
    done = run([*command, *options])
    return (json.loads(done.stdout) if done.stdout.strip() else {}), done.returncode


def row(name: str, summary: dict[str, Any], status: int, seconds: float) -> list[Any]:
    """Return the cells of a line: new causes, new findings, status, seconds, the first cause.

    If a gate lists findings without grouping, every finding counts as a cause.
    """
    causes = summary.get("new", [])
    findings = [[f["id"] for f in cause.get("findings", [cause])] for cause in causes]
    named = [cause["name"] for cause in causes[:1] if "name" in cause]
    first = ": ".join([*named, *map(", ".join, findings[:1])])
    return [name, len(causes), sum(map(len, findings)), status, f"{seconds:.0f}", first or "-"]


def main() -> None:
    known = {"00": None} | {path.name[:2]: path for path in DIFFS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", choices=known, default=sorted(known)[1:])
    parser.add_argument("--seconds", default="300")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--keep", type=Path)
    said = parser.parse_args()
    say(COLUMNS.format("regression", "causes", "findings", "status", "seconds", "first"))
    for number in said.numbers:
        diff = known[number]
        with tempfile.TemporaryDirectory() as name:
            keep = (said.keep or Path(name)) / f"{number}-seed-{said.seed}"
            keep.mkdir(parents=True, exist_ok=True)
            python = patched(diff, Path(name))
            start = time.monotonic()
            summary, status = gate(python, keep / "traces", said.seconds, said.seed)
            (keep / "gate.json").write_text(json.dumps(summary, indent=1), encoding="utf-8")
        title = diff.stem if diff else "unpatched"
        say(COLUMNS.format(*row(title, summary, status, time.monotonic() - start)))


if __name__ == "__main__":
    main()
