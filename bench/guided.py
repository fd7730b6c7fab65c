"""Guided search against a run as it is, in equal CPU time: which finds a bug sooner.

    python bench/guided.py --slow 25 --seeds 5 --seconds 60 --record bench/results/guided.json
    python bench/guided.py --named --seeds 3 --seconds 30
    python bench/guided.py --engine sglang==0.5.23 --seeds 3 --seconds 300 --wall
    python bench/guided.py --rates

Mutants of the reference engine, each in a fork of this process for each seed and way: named ones
(``slotproof list mutants``), or the slowest of the systematic ones (``make mutants``), which a log
of ``slotproof.conformance.matrices.systematic`` tells (``--log``): by the number of the example
that showed it. What is counted are commands up to the first violation, which does not depend on
what else the machine does; the seconds are those of the process's CPU time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from machine import described, record

from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.search import campaign
from slotproof.conformance.search.findings import Finding
from slotproof.conformance.search.guided import Explore, Kept, share
from slotproof.conformance.search.plan import Plan
from slotproof.conformance.traces.trace import Trace
from slotproof.impl.mutants import MUTANTS
from slotproof.impl.mutants.systematic import systematic

NAMED = frozenset(MUTANTS)
SYSTEMATIC = {each.name: each for each in systematic()}
LAP = 1000
"""Seeds apart: a run whose examples are over goes on as one with another seed."""


class Counted(InProcessEngine):
    """Counts the commands that it is sent."""

    commands = 0

    def do(self, command: Command) -> list[Snapshot]:
        self.commands += 1
        return super().do(command)


@dataclass(frozen=True)
class Try:
    """A mutant, tried in one way with one seed."""

    mutant: str
    way: str
    seed: int
    found: bool = False
    by: str = ""
    commands: int = 0
    seconds: float = 0.0


def unguided(engine: Counted, seed: int, found: Callable[[Finding], None]) -> None:
    """Runs by default, one after the other."""
    while True:
        plan = Plan(dict(CONFIGS), seed=seed, distinct=1)
        campaign.run(engine, "reference", plan, keep=lambda them: found(them[0]))
        seed += LAP


def fresh(engine: Counted, seed: int, found: Callable[[Finding], None]) -> None:
    """Rounds as a guided search has them, of examples that are all drawn afresh."""
    rounds(engine, seed, found, keeps=False)


def guided(engine: Counted, seed: int, found: Callable[[Finding], None]) -> None:
    """Rounds over all configurations, as a campaign has them."""
    rounds(engine, seed, found, keeps=True)


def rounds(engine: Counted, seed: int, found: Callable[[Finding], None], *, keeps: bool) -> None:
    """Without end; whether what reached something new is kept."""

    def tell(what: Finding | int) -> None:
        if isinstance(what, Finding):
            found(what)

    plan = Plan(dict(CONFIGS), seed=seed)
    corpus: dict[str, list[Kept]] = {name: [] for name in CONFIGS}
    seen: dict[str, set[str]] = {name: set() for name in CONFIGS}
    first = number = 0
    for lap in range(1 << 30):
        for name, config in CONFIGS.items():
            blank = Trace("", "reference", "reference", config, seed, [], [], minimal=False)
            draws = seed * LAP * LAP + number
            known = (tuple(corpus[name]), frozenset(seen[name])) if keeps else ((), frozenset())
            task = Explore(plan, blank, draws, first, share(lap), *known)
            done = task.run(engine, tell, lambda: False)
            if keeps:
                corpus[name] += done.kept
                seen[name] |= done.reached.keys()
            first, number = first + task.examples, number + 1


WAYS = {"unguided": unguided, "fresh": fresh, "guided": guided}


def child(told: Connection, mutant: str, way: str, seed: int, seconds: float) -> None:
    """In a process of its own: try, and say what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    begun = time.process_time()
    named = mutant in NAMED
    engine = Counted(mutant) if named else Counted()
    if not named:
        SYSTEMATIC[mutant].apply()

    def over(by: str = "") -> None:
        taken = round(time.process_time() - begun, 3)
        told.send(Try(mutant, way, seed, bool(by), by, engine.commands, taken))
        os._exit(0)

    signal.signal(signal.SIGPROF, lambda *_: over())
    signal.setitimer(signal.ITIMER_PROF, seconds)
    WAYS[way](engine, seed, lambda finding: over(finding.id))


def tries(asked: list[tuple[str, str, int]], seconds: float, jobs: int) -> Iterator[Try]:
    """What came of each, as it is known."""
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(asked))
    working: dict[Connection, Any] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            pipe, told = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(told, *waiting.pop(), seconds))
            process.start()
            told.close()
            working[pipe] = process
        for pipe in wait(list(working)):
            process = working.pop(pipe)
            yield pipe.recv()
            process.join()


def slowest(log: Path, count: int) -> list[str]:
    """Of the mutants that a run killed, those that took the most examples."""
    fates = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    killed = [each for each in fates if each["fate"] == "killed" and each["example"]]
    killed.sort(key=lambda each: (-each["example"], each["name"]))
    return [each["name"] for each in killed[: min(count, max(1, len(killed) // 10))]]


def median(found: list[Try], seconds: float) -> float | None:
    """Of commands; one that found nothing counts as more than any. None where that is the median."""
    del seconds
    counts = [each.commands if each.found else float("inf") for each in found]
    middle = statistics.median(counts)
    return None if middle == float("inf") else middle


def rows(done: list[Try], seconds: float) -> list[dict[str, Any]]:
    """By mutant: what each way took."""
    table = []
    for mutant in dict.fromkeys(each.mutant for each in done):
        row: dict[str, Any] = {"mutant": mutant}
        for way in WAYS:
            mine = [each for each in done if (each.mutant, each.way) == (mutant, way)]
            row[way] = {
                "tried": len(mine),
                "found": sum(each.found for each in mine),
                "median_commands": median(mine, seconds),
                "commands": [each.commands for each in mine],
                "seconds": [each.seconds for each in mine],
            }
        table.append(row)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, help="of systematic mutants: which are slow")
    parser.add_argument("--slow", type=int, default=25, help="so many of them at most")
    parser.add_argument("--named", nargs="*", help="named mutants: these, or all there are")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="many times")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU time, for each try")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)  # forked processes can't share the threads of this one
    names = slowest(args.log, args.slow) if args.log else []
    if args.named is not None:
        names += args.named or sorted(NAMED)
    campaign.run(EngineSpec("reference").open(), "reference", Plan(dict(CONFIGS), examples=26))
    ways = args.way or list(WAYS)
    asked = [(name, way, seed) for name in names for seed in range(args.seeds) for way in ways]
    done = []
    for each in tries(asked, args.seconds, args.jobs):
        done.append(each)
        print(
            f"{each.way:9} {each.seed} {each.commands:7} {each.seconds:6.1f} "
            f"{each.by or '-':34} {each.mutant}",
            file=sys.stderr,
        )
    document = {
        "what": "commands up to the first violation",
        **described("cpu"),
        "seeds": args.seeds,
        "cpu_seconds": args.seconds,
        "mutants": rows(done, args.seconds),
    }
    record(args.record, document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
