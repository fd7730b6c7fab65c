"""``make test-all``, part by part: what each runs, how long it took, what it depends on.

Parts that ``make test`` leaves out have inputs: files and folders whose change may change what
the part says. When such a part has passed, a fingerprint of them goes into ``passed.json``, to be
committed. ``--changed`` leaves out parts that passed with these inputs, and what takes longer than
CI has time for.
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
    """Folders of slotproof, or what is in one."""
    return tuple(f"conformance/slotproof/{name}" for name in names)


_RUN = ("support", "cli", "engines", "lockstep", "protocol", "reports", "search", "traces")
_REFEREE = (*rooms(*_RUN), "impl", "model")
"""What finds, shrinks and replays."""
_COMMANDS = (*rooms(*_RUN, "matrices", "driver_checks"), "model/slotproof_model/proofs/pool.py")
"""What deals with signals, processes and the ends of commands."""
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
"""What is packed beside the suite."""


@dataclass(frozen=True)
class Part:
    """A command, and the environment it runs in."""

    argv: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those of the environment win: who asks for less gets that, and no fingerprint."""
    inputs: tuple[str, ...] = ()
    """Patterns of files, and folders; none where ``make test`` runs all of the part."""
    on_ci: bool = True
    """Whether ``--changed`` looks at it."""

    def files(self, root: Path = ROOT) -> Iterator[Path]:
        """What it depends on: the inputs, and the versions of what is installed."""
        for pattern in (*self.inputs, "constraints.txt"):
            for path in sorted(root.glob(pattern)):
                inside = path.rglob("*") if path.is_dir() else [path]
                yield from (
                    each
                    for each in sorted(inside)
                    if each.is_file() and "__pycache__" not in each.parts
                )

    def fingerprint(self, root: Path = ROOT) -> str:
        digest = hashlib.sha256()
        for path in self.files(root):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()

    @property
    def whole(self) -> bool:
        """Whether nobody asks for less of it."""
        return all(os.environ.get(name, value) == value for name, value in self.settings.items())


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
        pytest_of(*(f"{TESTS}/{each}" for each in ("cover", "snapshots", "fuzz", "systematic")))
    ),
    "mutants": Part(
        pytest_of(*(f"{QUALITY}/test_{each}.py" for each in ("mutants", "oracles", "reference"))),
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
    """By part, the fingerprint of the inputs it passed with."""
    found: dict[str, str] = json.loads(PASSED.read_text()) if PASSED.exists() else {}
    return found


def changed(names: Iterable[str]) -> list[str]:
    """Of these parts, those that have not passed with their inputs as they are."""
    known = passed()
    return [
        name
        for name in names
        if PARTS[name].inputs and known.get(name) != PARTS[name].fingerprint()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-all", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help="Default: all parts.")
    parser.add_argument("--changed", action="store_true", help="Those whose inputs changed.")
    parser.add_argument("--without", action="append", default=[], metavar="PART")
    asked = parser.parse_args()
    if unknown := {*asked.names, *asked.without} - PARTS.keys():
        parser.error(f"there is no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    chosen = asked.names or list(PARTS)
    if asked.changed:
        chosen = [name for name in changed(chosen) if PARTS[name].on_ci]
    said = {name: "NOT run" for name in chosen if name in asked.without}
    failed = [name for name in chosen if name not in said and not _passes(name, said)]
    for name in chosen:
        print(f"{name:<12}{said[name]}")
    if not chosen:
        print("no part of `make test-all` has other inputs than when it passed")
    return int(bool(failed))


def _passes(name: str, said: dict[str, str]) -> bool:
    """Run a part; what is said of it, and its fingerprint if it ran whole and passed."""
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
