"""``make test-all``, part by part: the command, the minutes and the inputs of each part.

``make test`` skips some parts, or runs them in small. Such a part has inputs: the files and folders
that can change its result. When it passes, ``passed.json`` gets a fingerprint of its inputs: commit
this file. ``--changed`` skips parts that passed with their current inputs, or are too long for CI.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PASSED = ROOT / "conformance" / "tests" / "passed.json"
TESTS = "conformance/tests"

PYTEST = (sys.executable, "-m", "pytest", "-n", "auto")
COST = ("--durations=10", "--durations-min=1")


def rooms(*names: str) -> tuple[str, ...]:
    """Return the paths of folders, or of their contents, in the slotproof package."""
    return tuple(f"conformance/slotproof/{name}" for name in names)


_RUN = ("support", "cli", "engines", "lockstep", "protocol", "reports", "search", "traces")
_REFEREE = (*rooms(*_RUN), "impl", "model/slotproof_model")
"""Code that finds, shrinks and replays."""
_COMMANDS = (*rooms(*_RUN, "matrices", "driver_checks"), "model/slotproof_model/proofs/pool.py")
"""Code that handles signals, processes and the ends of commands."""
_BUILDS = (
    *(*_REFEREE, *rooms("drivers/common", "environments", "logs")),
    *(*rooms("matrices"), f"{TESTS}/*.py"),
)
_WHEEL = (
    "pyproject.toml",
    "impl/slotproof_engine",
    "model/slotproof_model",
    "conformance/README.md",
)
"""Contents of the wheel, other than the suite itself."""


@dataclass(frozen=True)
class Part:
    """A command, and its environment."""

    argv: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of the environment override these settings. The run then stores no fingerprint."""
    inputs: tuple[str, ...] = ()
    """Patterns of files and folders. Empty if ``make test`` runs the whole part."""
    on_ci: bool = True
    """False for a part skipped by ``--changed``."""

    def files(self, root: Path = ROOT) -> Iterator[Path]:
        """Yield the part's files: its inputs, and the versions of the installed packages.

        Files that git ignores are left out: a clean clone has none of them.
        """
        kept = not_ignored(root)
        for pattern in (*self.inputs, "constraints.txt"):
            for path in sorted(root.glob(pattern)):
                inside = path.rglob("*") if path.is_dir() else [path]
                yield from (file for file in sorted(inside) if file in kept and file.is_file())

    def fingerprint(self, root: Path = ROOT) -> str:
        digest = hashlib.sha256()
        for path in self.files(root):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    @property
    def whole(self) -> bool:
        """True if the environment does not reduce the part."""
        return all(os.environ.get(name, value) == value for name, value in self.settings.items())


def not_ignored(root: Path) -> set[Path]:
    """Return the files that a commit of everything in ``root`` would contain."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout
    return {root / name for name in names.split("\0") if name}


def pytest_of(*arguments: str) -> tuple[str, ...]:
    return (*PYTEST, *COST, *arguments)


def module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


QUALITY = f"{TESTS}/quality"
PARTS = {
    "spec": Part(pytest_of("-m", "exhaustive or not exhaustive", "model/tests"), inputs=("model",)),
    "cvc5": Part(module("tests.checks", "cvc5"), inputs=("model",), on_ci=False),
    "tlc": Part(module("tests.checks", "tlc"), inputs=("model",), on_ci=False),
    "reference": Part(pytest_of("impl/tests")),
    "suite": Part(
        pytest_of(*(f"{TESTS}/{folder}" for folder in ("cover", "snapshots", "fuzz", "systematic")))
    ),
    "mutants": Part(
        pytest_of(*(f"{QUALITY}/test_{name}.py" for name in ("mutants", "oracles", "reference"))),
        inputs=(*_REFEREE, f"{TESTS}/*.py", QUALITY),
    ),
    "systematic": Part(
        module("tests.systematic", "--sample", "40", "--jobs", "2"),
        inputs=(*_REFEREE, f"{TESTS}/systematic"),
    ),
    "interrupts": Part(
        pytest_of(f"{QUALITY}/test_interrupts.py"),
        {"SLOTPROOF_INTERRUPTS": "15"},
        (*_COMMANDS, f"{TESTS}/interrupting.py", f"{QUALITY}/test_interrupts.py"),
    ),
    "kills": Part(
        pytest_of(f"{QUALITY}/test_kills.py"),
        {"SLOTPROOF_KILLS": "3", "SLOTPROOF_CAMPAIGN_KILLS": "20"},
        (
            *(*_COMMANDS, *rooms("environments"), f"{TESTS}/processes.py"),
            *(f"{QUALITY}/{name}.py" for name in ("test_kills", "stuck", "environments")),
        ),
    ),
    "wheel": Part(
        pytest_of(f"{QUALITY}/test_wheel.py"),
        inputs=("pyproject.toml", "impl", "model", "conformance/[!t]*", f"{QUALITY}/test_wheel.py"),
    ),
    "fuzz": Part(
        module("tests.fuzz", "--inputs", "2000"),
        inputs=(*(*_REFEREE, f"{TESTS}/fuzz"), *rooms("driver_checks", "drivers/examples", "logs")),
    ),
    "browser": Part(pytest_of("-m", "browser", f"{TESTS}/browser")),
    "sglang": Part(
        pytest_of("-m", "sglang", f"{TESTS}/sglang"),
        inputs=(*_BUILDS, *rooms("drivers/sglang"), f"{TESTS}/sglang", "docs/findings"),
    ),
    "vllm": Part(
        pytest_of("-m", "vllm", f"{TESTS}/vllm"),
        inputs=(*_BUILDS, *rooms("drivers/vllm"), f"{TESTS}/vllm", "docs"),
    ),
}


def passed() -> dict[str, str]:
    """Return, by part, the fingerprint of the inputs with which it passed."""
    fingerprints: dict[str, str] = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    return fingerprints


def changed(names: Iterable[str]) -> list[str]:
    """Return the parts with inputs that have not passed with their current inputs."""
    known = passed()
    return [
        name
        for name in names
        if PARTS[name].inputs and known.get(name) != PARTS[name].fingerprint()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-all", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help="Default: all parts.")
    parser.add_argument("--changed", action="store_true", help="Only parts with changed inputs.")
    parser.add_argument("--without", action="append", default=[], metavar="PART")
    asked = parser.parse_args()
    if unknown := {*asked.names, *asked.without} - PARTS.keys():
        parser.error(f"unknown part {', '.join(unknown)}. Choose from: {', '.join(PARTS)}")
    chosen = asked.names or list(PARTS)
    if asked.changed:
        chosen = [name for name in changed(chosen) if PARTS[name].on_ci]
    said = {name: "NOT run" for name in chosen if name in asked.without}
    failed = [name for name in chosen if name not in said and not _passes(name, said)]
    for name in chosen:
        print(f"{name:<12}{said[name]}")
    if not chosen:
        print("nothing to run: every part passed with its current inputs")
    return int(bool(failed))


def _passes(name: str, said: dict[str, str]) -> bool:
    """Run a part. Record its result in ``said``, and its fingerprint if it ran whole and passed."""
    part = PARTS[name]
    print(f"\n==== {name}: {' '.join(part.argv[1:])}", flush=True)
    fingerprint, begin = part.fingerprint(), time.monotonic()
    done = subprocess.run(part.argv, cwd=ROOT, env={**part.settings, **os.environ}, check=False)
    passes = done.returncode == 0
    minutes = (time.monotonic() - begin) / 60
    said[name] = f"{minutes:6.1f} min{'' if passes else '  FAILED'}"
    if passes and part.inputs and part.whole:
        known = passed() | {name: fingerprint}
        PASSED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return passes


if __name__ == "__main__":
    sys.exit(main())
