"""Fuzz the command line: ``make fuzz SECONDS=600``, ``N=100000``, ``KIND=logs``.

Every input has a number. The same seed and number make the same input: ``FROM`` and ``N=1`` run it
alone. Failing inputs are stored in ``build/fuzz``, shrunk if possible. The exit status is then 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch

from tests.fuzz import batches, smaller
from tests.fuzz.batches import Failure, Tally
from tests.fuzz.given import Input
from tests.fuzz.inputs import KINDS, make, untouched
from tests.fuzz.judging import Failed, examine, prepared

SLOWER = 1000
"""Factor by which ``--inputs`` is reduced for drivers in processes of their own."""
KEPT = 2
"""Number of inputs stored per cause."""


def main() -> int:
    """Fuzz and report. Return 1 if an input failed."""
    asked = _asked()
    torch.set_num_threads(1)  # Forked processes can't share this process's threads.
    if asked.again:
        return _again(asked.again)
    _warm()
    kinds = asked.kind or list(KINDS)
    share = (asked.seconds or 60.0) / len(kinds)
    tallies = []
    print(HEAD)
    for kind in kinds:
        tally = Tally(kind)
        end = time.monotonic() + share
        count = max(20, asked.inputs // SLOWER) if kind == "drivers" else asked.inputs
        numbers = range(asked.start, asked.start + count) if asked.inputs else None
        batches.go(
            tally,
            asked.seed,
            iter(numbers) if numbers else itertools.count(asked.start),
            lambda end=end: bool(asked.inputs) or time.monotonic() < end,  # type: ignore[misc]
        )
        tallies.append(tally)
        print(_line(tally), flush=True)
    for tally in tallies:
        _tell(tally, asked.seed, asked.out)
    return int(any(tally.failures for tally in tallies))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="Default: all.")
    parser.add_argument("--seconds", type=float, help="For all kinds together. Default: 60.")
    parser.add_argument("--inputs", type=int, help="Number per kind, without a time limit.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="Number of the first input.")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--again", type=Path, help="Judge a stored input again.")
    return parser.parse_args()


def _warm() -> None:
    """Import, compile and cache everything before the first fork."""
    with tempfile.TemporaryDirectory() as name, prepared(Path(name)):
        for given in untouched():
            examine(given, Path(name))


HEAD = (
    "kind         inputs   refused  conforms     found inconclusive   seconds   working"
    "   slowest (input)   memory  failures"
)


def _line(tally: Tally) -> str:
    counts = "".join(f"{tally.verdicts[name]:>10}" for name in ("refused", "conforms", "found"))
    return (
        f"{tally.kind:<10}{tally.inputs:>9}{counts}{tally.verdicts['inconclusive']:>13}"
        f"{tally.seconds:>10.0f}{tally.worked:>10.0f}{tally.slowest[0]:>8.2f} s"
        f"{f'({tally.slowest[1]})':>8}{tally.memory / 1e6:>6.0f} MB{len(tally.failures):>10}"
    )


# Failures ---------------------------------------------------------------------------------------


def _tell(tally: Tally, seed: int, out: Path) -> None:
    """Print the causes with their counts, and store some inputs of each."""
    causes: dict[str, list[Failure]] = {}
    for failure in tally.failures:
        causes.setdefault(failure.cause, []).append(failure)
    for cause, failures in sorted(causes.items(), key=lambda cause: -len(cause[1])):
        print(f"\n{tally.kind}: {len(failures)} × {cause}")
        for failure in failures[:KEPT]:
            number = failure.number
            path = out / f"{tally.kind}-{seed}-{number}.json"
            given = make(tally.kind, batches.source(tally.kind, seed, number))
            _keep(given, path)
            if failure is failures[0]:
                given = smaller.shrunk(given, cause)
                _keep(given, path)
            print(f"  {path}  ({len(given.data)} bytes) {given.wrong}")
            print(f"    again: make fuzz KIND={tally.kind} SEED={seed} FROM={number} N=1")


def _keep(given: Input, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".input").write_bytes(given.data)
    path.write_text(json.dumps({**asdict(given), "data": None}, indent=1) + "\n")


def _again(path: Path) -> int:
    """Judge a stored input in this process, without limits."""
    fields = json.loads(path.read_text())
    given = Input(**{**fields, "argv": tuple(fields["argv"])})
    given = replace(given, data=path.with_suffix(".input").read_bytes())
    with tempfile.TemporaryDirectory() as name, prepared(Path(name)):
        try:
            print(examine(given, Path(name)))
        except Failed as failed:
            print(failed)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
