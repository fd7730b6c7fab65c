"""Run the default search on systematic mutants: ``make mutants``, ``N=400``, ``SEED=0``.

Each mutant gets a fork of this process, with everything imported, and a campaign as in ``slotproof
run --engine reference``, up to the first finding. A survivor is recorded in ``survivors.toml``
with its reason, or it is a hole: the exit status is 1. If a raise in its place survives too, no
command reaches it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from slotproof.engines.base import EngineUnusable
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.search import campaign, report
from slotproof.search.findings import Finding
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.statuses import CONFORMS
from slotproof.support.terminal import say, say_all
from tests.systematic.places import SystematicMutant, drawn, systematic

RECORD = Path(__file__).with_name("survivors.toml")
EXCUSED = ("equivalent", "unreachable", "policy")
"""Equivalent: invisible from outside. Unreachable: no command reaches it, as a raise shows. Policy:
a sentence of the spec, named in the reason, allows it. Any other record is open: a hole."""
SECONDS = 1200.0
"""Time limit of a run, in seconds. It is generous: a run cut off by it is no kill."""
MEMORY = 8 << 30
"""Memory limit of a mutant, in bytes: the size of an endless list at the step timeout."""


@dataclass(frozen=True)
class Fate:
    """Result of a mutant."""

    name: str
    operator: str
    fate: str
    """killed, survives, unreachable, inconclusive, stuck, died, or the recorded kind."""
    by: str = ""
    """Violated clause, or the reason for an inconclusive run."""
    config: str = ""
    example: int = 0
    """Number of the example with the violation."""
    seconds: float = 0.0


def recorded() -> dict[str, tuple[str, str]]:
    """Return the kind and the reason of each recorded survivor, by name."""
    survivors = tomllib.loads(RECORD.read_text(encoding="utf-8")).get("survivor", [])
    return {survivor["name"]: (survivor["kind"], survivor["reason"]) for survivor in survivors}


class _Fork:
    """A forked process for a mutant, or for a raise in its place."""

    def __init__(self, mutant: SystematicMutant, plan: Plan, survived: Fate | None = None) -> None:
        self.mutant, self.survived = mutant, survived
        """The mutant's result, if this process has a raise in its place."""
        self.begin = time.monotonic()
        context = multiprocessing.get_context("fork")
        self.pipe, told = context.Pipe(duplex=False)
        raises = survived is not None
        self.process = context.Process(target=_mutated, args=(mutant, plan, told, raises))
        self.process.start()
        told.close()

    def end(self) -> Fate:
        """Kill the process and return its result."""
        said: dict[str, Any] = {"fate": "stuck"}
        if self.pipe.poll():
            try:
                said = self.pipe.recv()
            except EOFError:
                said = {"fate": "died"}
        self.process.kill()
        self.process.join()
        self.pipe.close()
        taken = round(time.monotonic() - self.begin, 2)
        if self.survived is None:
            return Fate(self.mutant.name, self.mutant.operator, **said, seconds=taken)
        fate = "unreachable" if said["fate"] == "survives" else "survives"
        return replace(self.survived, fate=fate, by=said.get("by", ""))


def _mutated(mutant: SystematicMutant, plan: Plan, told: Connection, raises: bool) -> None:
    """Run one campaign in the forked process, and send its result."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))

    def keep(findings: list[Finding]) -> None:
        """Send the first finding and exit, without shrinking."""
        for finding in findings:
            clause, config = finding.trace.violations[0].clause, finding.trace.config_name
            told.send({"fate": "killed", "by": clause, "config": config, "example": finding.first})
            os._exit(0)

    engine = EngineSpec("reference").open()
    (mutant.apply_raise if raises else mutant.apply)()
    try:
        outcome = campaign.run(engine, "reference", plan, keep=keep)
    except EngineUnusable:  # The run reports it and ends with status 2.
        told.send({"fate": "killed", "by": "unusable"})
        os._exit(0)
    summary = report.summary(outcome, plan, engine.capabilities)
    if summary["status"] == CONFORMS:
        told.send({"fate": "survives"})
    else:
        never = ", ".join(summary["transitions"]["never"])
        told.send({"fate": "inconclusive", "by": summary["unearned"] or f"never: {never}"})
    os._exit(0)


def run(
    mutants: Iterable[SystematicMutant], plan: Plan, jobs: int, seconds: float = SECONDS
) -> Iterator[Fate]:
    """Yield the result of every mutant as it ends, with ``jobs`` processes at once.

    A survivor gets a second process, with a raise in its place.
    """
    waiting: deque[tuple[SystematicMutant, Fate | None]] = deque(
        (mutant, None) for mutant in mutants
    )
    working: dict[Connection, _Fork] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            mutant, survived = waiting.popleft()
            fork = _Fork(mutant, plan, survived)
            working[fork.pipe] = fork
        ended = wait(list(working), 1.0)
        late = time.monotonic() - seconds
        for pipe in [end for end in working if end in ended or working[end].begin < late]:
            fork = working.pop(pipe)
            fate = fork.end()
            if fate.fate == "survives" and fork.survived is None:
                waiting.appendleft((fork.mutant, fate))
            else:
                yield fate


# Command line -----------------------------------------------------------------------------------


def main() -> int:
    """Run the drawn mutants and report. Return 1 if one survives without a record."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="Number of mutants to draw.")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the draw.")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="Default: as in a run.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes at once.")
    parser.add_argument("--again", action="store_true", help="Run recorded survivors too.")
    parser.add_argument("--name", action="append", help="Run only this mutant, even if recorded.")
    parser.add_argument(
        "--log", type=Path, help="Results, a line of JSON each. Listed mutants are not run again."
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)  # Forked processes can't share this process's threads.
    every = list(systematic())
    chosen = drawn(every, asked.sample, asked.seed)
    if asked.name:
        chosen = [mutant for mutant in every if mutant.name in asked.name]
    known = {} if asked.again or asked.name else recorded()
    campaign.run(
        EngineSpec("reference").open(),
        "reference",
        Plan({}, examples=25).of(InProcessEngine().capabilities),
    )
    fates = {
        mutant.name: Fate(mutant.name, mutant.operator, known[mutant.name][0])
        for mutant in chosen
        if mutant.name in known
    }
    say(f"{len(chosen)} of {len(every)} mutants, seed {asked.seed}; {len(fates)} recorded, not run")
    if asked.log is not None and asked.log.exists():
        for line in asked.log.read_text(encoding="utf-8").splitlines():
            fate = Fate(**json.loads(line))
            fates.setdefault(fate.name, fate)
    plan = Plan({}, examples=asked.examples, distinct=1).of(InProcessEngine().capabilities)
    to_run = [mutant for mutant in chosen if mutant.name not in fates]
    for fate in run(to_run, plan, asked.jobs):
        fates[fate.name] = fate
        if asked.log is not None:
            with asked.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(fate)) + "\n")
        if fate.fate != "killed":
            say(f"{fate.fate}: {fate.name} ({fate.by or 'conforms'}, {fate.seconds:.0f} s)")
    of = [fates[mutant.name] for mutant in chosen]
    say_all(told(of))
    return int(any(fate.fate not in ("killed", *EXCUSED, "open") for fate in of))


def told(fates: list[Fate]) -> Iterator[str]:
    """Yield the figures of a run."""
    counts = Counter(fate.fate for fate in fates)
    yield ", ".join(f"{count} {fate}" for fate, count in counts.most_common())
    clauses = Counter(fate.by.partition(".")[0] for fate in fates if fate.fate == "killed")
    yield "killed by " + ", ".join(f"{clause} {count}" for clause, count in clauses.most_common())
    excused = sum(counts[kind] for kind in EXCUSED)
    killed, meant = counts["killed"], len(fates) - excused
    yield (
        f"{killed} of {meant} killed ({100 * killed / max(1, meant):.1f} %). Excused: "
        + ", ".join(f"{counts[kind]} {kind}" for kind in EXCUSED)
        + f" ({100 * excused / max(1, len(fates)):.1f} % of {len(fates)})"
    )


if __name__ == "__main__":
    sys.exit(main())
