"""Systematic mutants × a run by default: ``make mutants``, ``N=400``, ``SEED=0``.

Each mutant has a fork of this process, in which all is imported, and a campaign as
``slotproof run --engine reference`` has it, up to the first finding. One that the run says
nothing of is recorded with its reason in ``survivors.toml``, or it is a hole: the status is 1.
Where a raise in its place survives too, no command reaches it.
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
"""Nobody could see it; no command reaches it, as a raise shows; a sentence of the spec, which the
reason names, allows it. What else is recorded is open: a hole."""
SECONDS = 1200.0
"""For a run: far more than it takes. What is still running then is no kill."""
MEMORY = 8 << 30
"""Bytes that a mutant may take: what a list without end has by the step time-out, not all there
are."""


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    name: str
    operator: str
    fate: str
    """killed, survives, unreachable, inconclusive, stuck; or as what it is recorded."""
    by: str = ""
    """The clause; why a run is inconclusive."""
    config: str = ""
    example: int = 0
    """Which one showed it."""
    seconds: float = 0.0


def recorded() -> dict[str, tuple[str, str]]:
    """By name: of which kind a survivor is, and why."""
    found = tomllib.loads(RECORD.read_text(encoding="utf-8")).get("survivor", [])
    return {each["name"]: (each["kind"], each["reason"]) for each in found}


class _Fork:
    """A process of its own for a mutant, or for a raise in its place."""

    def __init__(self, mutant: SystematicMutant, plan: Plan, survived: Fate | None = None) -> None:
        self.mutant, self.survived = mutant, survived
        """What is known of the mutant where this is a raise in its place."""
        self.begin = time.monotonic()
        context = multiprocessing.get_context("fork")
        self.pipe, told = context.Pipe(duplex=False)
        raises = survived is not None
        self.process = context.Process(target=_mutated, args=(mutant, plan, told, raises))
        self.process.start()
        told.close()

    def end(self) -> Fate:
        """What it came to, by now; it is no more."""
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
    """In that process: one campaign, and what it comes to."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.RLIM_INFINITY))

    def keep(findings: list[Finding]) -> None:
        """The first finding is enough; nothing is shrunk."""
        for each in findings:
            clause, config = each.trace.violations[0].clause, each.trace.config_name
            told.send({"fate": "killed", "by": clause, "config": config, "example": each.first})
            os._exit(0)

    engine = EngineSpec("reference").open()
    (mutant.apply_raise if raises else mutant.apply)()
    try:
        outcome = campaign.run(engine, "reference", plan, keep=keep)
    except EngineUnusable:  # which is told, and ends with status 2
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
    """What becomes of each, as it is known; so many processes at once.

    One that survives has a second process, with a raise in its place.
    """
    waiting: deque[tuple[SystematicMutant, Fate | None]] = deque((each, None) for each in mutants)
    working: dict[Connection, _Fork] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            mutant, survived = waiting.popleft()
            fork = _Fork(mutant, plan, survived)
            working[fork.pipe] = fork
        ended = wait(list(working), 1.0)
        late = time.monotonic() - seconds
        for pipe in [each for each in working if each in ended or working[each].begin < late]:
            fork = working.pop(pipe)
            fate = fork.end()
            if fate.fate == "survives" and fork.survived is None:
                waiting.appendleft((fork.mutant, fate))
            else:
                yield fate


# By hand ----------------------------------------------------------------------------------------


def main() -> int:
    """Run the mutants that are drawn, and tell; 1 where one survives that is not recorded."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, default=400, help="How many are drawn.")
    parser.add_argument("--seed", type=int, default=0, help="Which are drawn.")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="Default: as in a run.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes at once.")
    parser.add_argument("--again", action="store_true", help="Run those that are recorded too.")
    parser.add_argument("--name", action="append", help="These alone, recorded or not.")
    parser.add_argument(
        "--log", type=Path, help="A line of JSON for each; those that are there are not run again."
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)  # forked processes can't share the threads of this one
    every = list(systematic())
    chosen = drawn(every, asked.sample, asked.seed)
    if asked.name:
        chosen = [each for each in every if each.name in asked.name]
    known = {} if asked.again or asked.name else recorded()
    campaign.run(
        EngineSpec("reference").open(),
        "reference",
        Plan({}, examples=25).of(InProcessEngine().capabilities),
    )
    fates = {
        each.name: Fate(each.name, each.operator, known[each.name][0])
        for each in chosen
        if each.name in known
    }
    say(f"{len(chosen)} of {len(every)} mutants, seed {asked.seed}; {len(fates)} are recorded")
    if asked.log is not None and asked.log.exists():
        for line in asked.log.read_text(encoding="utf-8").splitlines():
            fate = Fate(**json.loads(line))
            fates.setdefault(fate.name, fate)
    plan = Plan({}, examples=asked.examples, distinct=1).of(InProcessEngine().capabilities)
    to_run = [each for each in chosen if each.name not in fates]
    for fate in run(to_run, plan, asked.jobs):
        fates[fate.name] = fate
        if asked.log is not None:
            with asked.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(fate)) + "\n")
        if fate.fate != "killed":
            say(f"{fate.fate}: {fate.name} ({fate.by or 'conforms'}, {fate.seconds:.0f} s)")
    of = [fates[each.name] for each in chosen]
    say_all(told(of))
    return int(any(fate.fate not in ("killed", *EXCUSED, "open") for fate in of))


def told(fates: list[Fate]) -> Iterator[str]:
    """The figures of a run."""
    counts = Counter(fate.fate for fate in fates)
    yield ", ".join(f"{count} {fate}" for fate, count in counts.most_common())
    clauses = Counter(fate.by.partition(".")[0] for fate in fates if fate.fate == "killed")
    yield "killed by " + ", ".join(f"{clause} {count}" for clause, count in clauses.most_common())
    excused = sum(counts[kind] for kind in EXCUSED)
    killed, meant = counts["killed"], len(fates) - excused
    yield (
        f"{killed} of {meant} killed ({100 * killed / max(1, meant):.1f} %); besides "
        + ", ".join(f"{counts[kind]} {kind}" for kind in EXCUSED)
        + f" ({100 * excused / max(1, len(fates)):.1f} % of {len(fates)})"
    )


if __name__ == "__main__":
    sys.exit(main())
