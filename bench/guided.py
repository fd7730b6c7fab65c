"""Guided search against runs as they are: which finds a bug in fewer commands.

    python -m tests.systematic --log build/systematic.jsonl
    python bench/guided.py --log build/systematic.jsonl --record build/guided.json
    python bench/guided.py --named --seeds 3 --seconds 30 --record bench/results/guided-named.json
    python bench/guided.py --engine sglang==0.5.23 --engine sglang==0.5.18 --seeds 3 --seconds 300
    python bench/guided.py --table bench/results/guided-named.json

Mutants of the reference engine, each in a fork of this process for each seed and way: named ones
(``slotproof list mutants``), or the slowest tenth of the systematic ones that a log tells of
(``make mutants``), by the number of the example that showed them. The ways: ``unguided`` are runs
by default, one after the other; ``fresh`` is guided search that keeps nothing; ``guided``. What is
counted are commands up to the first violation, which does not depend on what else the machine
does; the seconds that a try may take are those of its CPU time.

A build behind a pipe (``--engine``) is searched for so many seconds of the clock; what is counted
are findings, shrunk, that nothing known explains.
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
from machine import described, record

from slotproof.engines.base import Engine
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.findings import Finding, Mark
from slotproof.search.guided import CorpusEntry, Explore, Explored, share
from slotproof.search.plan import Plan
from slotproof.search.shrinking import Shrink
from slotproof_engine.mutants import MUTANTS
from tests.systematic.places import SystematicMutant, systematic

MATRIX = Path(__file__).parent.parent / "docs/reference/mutants/matrix.json"
LAP = 1000
"""Seeds apart: a run whose examples are over goes on as one with another seed."""
OnFinding = Callable[[Finding], None]


class Counted(InProcessEngine):
    """Counts the commands that it is sent."""

    commands = 0

    def do(self, command: Command) -> list[Snapshot]:
        self.commands += 1
        return super().do(command)


class Rounds:
    """Guided search in rounds over all configurations, as a campaign has them."""

    def __init__(self, engine: Engine, text: str, seed: int, *, keeps: bool = True) -> None:
        self.engine, self.seed, self.keeps = engine, seed, keeps
        refuses = engine.capabilities.refuses
        configs = {name: each for name, each in CONFIGS.items() if refuses(each) is None}
        self.plan = Plan(configs, seed=seed)
        self.blanks = {
            name: Trace("", text, engine.capabilities.profile, config, seed, [], [], minimal=False)
            for name, config in configs.items()
        }
        self.corpus: dict[str, list[CorpusEntry]] = {name: [] for name in configs}
        self.seen: dict[str, set[str]] = {name: set() for name in configs}
        self.known: list[Mark] = []
        self.lap = self.first = self.number = 0

    def round(
        self, tell: Callable[[Finding | int], None], stop: Callable[[], bool]
    ) -> Iterator[Explored]:
        """One round; whether what reached something new is kept."""
        for name, blank in self.blanks.items():
            if stop():
                return
            task = Explore(
                self.plan,
                blank,
                self.seed * LAP * LAP + self.number,
                self.first,
                share(self.lap),
                tuple(self.corpus[name]),
                frozenset(self.seen[name]),
                tuple(self.known),
            )
            done = task.run(self.engine, tell, stop)
            if self.keeps:
                self.corpus[name] += done.corpus
                self.seen[name] |= done.reached.keys()
            self.first, self.number = self.first + task.examples, self.number + 1
            yield done
        self.lap += 1


# Mutants ------------------------------------------------------------------------------------------


def unguided(engine: Engine, seed: int, on_finding: OnFinding) -> None:
    """Runs by default, one after the other."""
    while True:
        plan = Plan(dict(CONFIGS), seed=seed, distinct=1)
        campaign.run(engine, "reference", plan, keep=lambda them: on_finding(them[0]))
        seed += LAP


def guided(engine: Engine, seed: int, on_finding: OnFinding, *, keeps: bool = True) -> None:
    """Round after round."""

    def tell(what: Finding | int) -> None:
        if isinstance(what, Finding):
            on_finding(what)

    rounds = Rounds(engine, "reference", seed, keeps=keeps)
    while True:
        list(rounds.round(tell, lambda: False))


def fresh(engine: Engine, seed: int, on_finding: OnFinding) -> None:
    """Round after round, each example drawn afresh."""
    guided(engine, seed, on_finding, keeps=False)


WAYS = {"unguided": unguided, "fresh": fresh, "guided": guided}


@dataclass(frozen=True)
class Try:
    """A mutant, tried in one way with one seed."""

    mutant: str
    way: str
    seed: int
    by: str = ""
    """What was found; empty where the time was over."""
    commands: int = 0
    seconds: float = 0.0


def child(told: Connection, asked: Try, apply: Callable[[], None] | None, seconds: float) -> None:
    """In a process of its own: try, and say what came of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    begun = time.process_time()
    engine = Counted(None if apply else asked.mutant)
    if apply is not None:
        apply()

    def over(by: str = "") -> None:
        taken = round(time.process_time() - begun, 3)
        told.send(Try(asked.mutant, asked.way, asked.seed, by, engine.commands, taken))
        os._exit(0)

    signal.signal(signal.SIGPROF, lambda *_: over())
    signal.setitimer(signal.ITIMER_PROF, seconds)
    WAYS[asked.way](engine, asked.seed, lambda finding: over(finding.id))


def tries(
    asked: Iterable[Try], mutants: dict[str, SystematicMutant], seconds: float, jobs: int
) -> Iterator[Try]:
    """What came of each, as it is known; so many processes at once."""
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(list(asked)))
    working: dict[Connection, Any] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            pipe, told = context.Pipe(duplex=False)
            each = waiting.pop()
            mutant = mutants.get(each.mutant)
            asking = (told, each, mutant.apply if mutant is not None else None, seconds)
            process = context.Process(target=child, args=asking)
            process.start()
            told.close()
            working[pipe] = process
        for pipe in wait(list(working)):
            process = working.pop(pipe)
            yield pipe.recv()
            process.join()


def slowest(log: Path, count: int) -> dict[str, int]:
    """Of the mutants that a run killed, the tenth that took the most examples, and how many."""
    fates = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    killed = [each for each in fates if each["fate"] == "killed" and each["example"]]
    killed.sort(key=lambda each: (-each["example"], each["name"]))
    tenth = killed[: min(count, max(1, len(killed) // 10))]
    return {each["name"]: each["example"] for each in tenth}


def median(of: list[Try]) -> float | None:
    """Of commands; a try that found nothing took more than any. None where that is the median."""
    middle = statistics.median(each.commands if each.by else float("inf") for each in of)
    return None if middle == float("inf") else middle


def rows(done: list[Try]) -> list[dict[str, Any]]:
    """By mutant: what each way took."""
    table = []
    for mutant in dict.fromkeys(each.mutant for each in done):
        row: dict[str, Any] = {"mutant": mutant}
        for way in dict.fromkeys(each.way for each in done):
            mine = [each for each in done if (each.mutant, each.way) == (mutant, way)]
            if not mine:
                continue
            row[way] = {
                "found": sum(bool(each.by) for each in mine),
                "median_commands": median(mine),
                "commands": [each.commands for each in mine],
                "cpu_seconds": [each.seconds for each in mine],
            }
        table.append(row)
    return table


def of_mutants(args: argparse.Namespace) -> dict[str, Any]:
    mutants = {each.name: each for each in systematic()} if args.log else {}
    names = list(slowest(args.log, args.slow)) if args.log else []
    if args.named is not None:
        names += args.named or sorted(MUTANTS)
    campaign.run(EngineSpec("reference").open(), "reference", Plan(dict(CONFIGS), examples=26))
    ways = args.way or list(WAYS)
    asked = [Try(name, way, seed) for seed in range(args.seeds) for name in names for way in ways]
    order = {(each.mutant, each.way, each.seed): number for number, each in enumerate(asked)}
    done: list[Try] = []
    with suppress(KeyboardInterrupt):  # what there is by then is recorded
        for each in tries(asked, mutants, args.seconds, args.jobs):
            done.append(each)
            print(
                f"{each.way:9} {each.seed} {each.commands:7} {each.seconds:6.1f} "
                f"{each.by or '-':34} {each.mutant}",
                file=sys.stderr,
                flush=True,
            )
    done.sort(key=lambda each: order[each.mutant, each.way, each.seed])
    return {"what": "commands up to the first violation", "mutants": rows(done)}


# Builds -------------------------------------------------------------------------------------------


def findings(
    engine: Engine, text: str, way: str, seed: int, seconds: float
) -> tuple[int, list[str]]:
    """Commands, and the findings of so many seconds."""
    if way == "unguided":
        plan = Plan(dict(CONFIGS), examples=None, seconds=seconds, seed=seed, distinct=None)
        outcome = campaign.run(engine, text, plan)
        return outcome.coverage.commands, sorted(each.id for each in outcome.findings)
    until = time.monotonic() + seconds
    rounds = Rounds(engine, text, seed, keeps=way == "guided")
    commands, ids = 0, set()
    while time.monotonic() < until:
        found: list[Finding] = []
        for done in rounds.round(lambda _: None, lambda: time.monotonic() > until):
            commands += done.coverage.commands
            found += done.findings
        shrink = Shrink(rounds.plan, tuple(found), tuple(rounds.known))
        for small in shrink.run(engine, lambda _: None, lambda: time.monotonic() > until):
            if small is not None:
                rounds.known.append(small.mark)
                ids.add(small.id)
    return commands, sorted(ids)


def of_builds(args: argparse.Namespace) -> dict[str, Any]:
    table = []
    for text in args.engine:
        for seed in range(args.seeds):
            for way in args.way or ("unguided", "guided"):
                with closing(EngineSpec(text, step_timeout=60).open()) as engine:
                    commands, ids = findings(engine, text, way, seed, args.seconds)
                row = {
                    "engine": text,
                    "way": way,
                    "seed": seed,
                    "commands": commands,
                    "findings": ids,
                }
                table.append(row)
                print(
                    f"{text} {way:9} {seed} {commands:7} {len(ids)}: {', '.join(ids)}",
                    file=sys.stderr,
                )
    return {"what": "findings, shrunk, in so many seconds of the clock", "builds": table}


# What is shown ------------------------------------------------------------------------------------


def table(document: dict[str, Any]) -> Iterator[str]:
    """As Markdown: the medians, and how many tries found something where some did not.

    Of named mutants the figures of runs by default are those of their own table, of 10 seeds each.
    """
    matrix = json.loads(MATRIX.read_text(encoding="utf-8"))
    sent = {
        row["name"]: row["cells"][matrix["columns"].index("sent")]["text"] for row in matrix["rows"]
    }
    ways = [way for way in WAYS if any(way in row for row in document["mutants"])]
    known = [] if "unguided" in ways else ["run"]
    yield f"| mutant | {' | '.join([*known, *ways])} |"
    yield "|---" * (1 + len(known) + len(ways)) + "|"
    for row in document["mutants"]:
        cells = [sent.get(row["mutant"], "-") for _ in known]
        for way in ways:
            if way not in row:
                cells.append("not tried")
                continue
            tried, found = len(row[way]["commands"]), row[way]["found"]
            middle = row[way]["median_commands"]
            text = "not found" if middle is None else f"{middle:g}"
            cells.append(text if found == tried else f"{text} ({found} of {tried})")
        name = row["mutant"].replace("|", "\\|")
        yield f"| {name} | " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log", type=Path, help="of systematic mutants: which are slow")
    parser.add_argument("--slow", type=int, default=25, help="so many of them at most")
    parser.add_argument("--named", nargs="*", help="named mutants: these, or all there are")
    parser.add_argument("--engine", action="append", help="builds, many times")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="many times")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each try")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once; for mutants")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--table", type=Path, help="a record: print it as Markdown, run nothing")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(json.loads(args.table.read_text(encoding="utf-8")))))
        return 0
    if not (args.log or args.engine) and args.named is None:
        parser.error("say --log FILE, --named or --engine TEXT")
    torch.set_num_threads(1)  # forked processes can't share the threads of this one
    made = of_builds(args) if args.engine else of_mutants(args)
    record(args.record, {**made, **described("cpu"), "seeds": args.seeds, "seconds": args.seconds})
    return 0


if __name__ == "__main__":
    sys.exit(main())
