"""Mutants of the reference engine × what finds them: ``make mutant-table``, ``SEEDS=10``.

All oracles together run with several seeds, for medians. Then each group of :data:`FINDERS` runs
alone: on the trace that was found, and if it finds nothing there, in a search of its own in the
configuration that showed the bug. The page of oracles is written first (``tests.alone``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.observation import Observation, Violation
from slotproof.lockstep.oracles import ORACLES, Oracle, counts
from slotproof.lockstep.referee import play
from slotproof.matrices.table import Cell, Row, Table, write
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.plan import EXAMPLES, Plan, planned
from slotproof.support.terminal import say
from slotproof_engine.mutants import MUTANTS
from slotproof_model.bugs.museum import EXHIBITS
from tests import alone

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "mutants"
SHRUNK = "of the trace, shrunk"
WHO = (
    "Who says nothing of the trace found has a search of its own, with the first seed and the "
    "examples of that configuration. "
    "A row without any of them: the engine crashes (INV-ALIVE), or its own check is what is "
    "wrong (INV-CHECKER); the clause says which."
)
PROOF = "transitions of the shortest counterexample of the spec with this bug"


def equation(seen: Observation) -> Iterator[Violation]:
    """Yield violations of the equation alone: the five figures and the total."""
    sums = ("INV-SUM-FULL", "INV-SUM-SWA")
    return (each for each in counts.judge(seen) if each.invariant in sums)


def own_check(seen: Observation) -> Iterator[Violation]:
    """Yield what the engine notices by itself: its own check reports a leak, or raises."""
    check = seen.snapshot["checker"]
    if check["verdict"] in ("leak", "crash"):
        yield Violation("INV-CHECKER", "verdict", check["message"])


def _of(*names: str) -> dict[str, Oracle]:
    return {name: ORACLES[name] for name in names}


FINDERS: Mapping[str, Mapping[str, Oracle]] = {
    "own check": {"checker": own_check},
    "equation": {"counts": equation},
    "counts": _of("counts"),
    "pages": _of("pages", "rows", "locks", "reuse", "tables"),
    "content": _of("content", "lookup", "matches"),
    "clients": _of("history", "answers", "progress", "contract", "sessions", "limits", "operators"),
    "lockstep": _of("lockstep"),
}
"""The engine's own check first, then oracles that look closer and closer."""


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed that finds a mutant."""

    clause: str
    commands: int
    """Sent up to the first violation."""
    seconds: float
    length: int
    """Commands of the trace, shrunk."""


@dataclass(frozen=True)
class Killed:
    """The results of one mutant."""

    mutant: str
    seeds: int
    found: tuple[SeedResult, ...] = ()
    """Per seed that finds it."""
    alone: dict[str, int] = field(default_factory=dict)
    """By group of oracles: commands of the shortest trace it finds alone; absent if none."""

    @property
    def missed(self) -> bool:
        """Whether a seed did not find it."""
        return len(self.found) < self.seeds


def kill(name: str, plan: Plan, seeds: int) -> Killed:
    """Run the plan on a mutant with seeds from the plan's own upwards, then each group alone."""
    engine = InProcessEngine(name)
    found: list[SeedResult] = []
    trace: Trace | None = None
    for seed in range(plan.seed, plan.seed + seeds):
        outcome = campaign.run(engine, f"reference:{name}", replace(plan, seed=seed, distinct=1))
        if outcome.trace is not None and outcome.first is not None:
            clause, (commands, _, seconds) = outcome.trace.violations[0].clause, outcome.first
            found.append(SeedResult(clause, commands, seconds, len(outcome.trace.rows)))
            trace = trace or outcome.trace
    lengths = {group: _alone(engine, plan, group, trace) for group in FINDERS} if trace else {}
    by_group = {group: length for group, length in lengths.items() if length}
    return Killed(name, seeds, tuple(found), by_group)


def _alone(engine: InProcessEngine, plan: Plan, group: str, trace: Trace) -> int | None:
    """Return the length of a trace that the group alone finds. A crash counts for no group."""
    oracles = FINDERS[group]
    log = play(engine, replace(trace.setup, ignored=(), oracles=oracles), trace.commands).log
    if any(each.oracle for each in log[-1].violations):
        return len(log)
    there = {trace.config_name: trace.config}
    share = planned(plan, list(plan.configs)).get(trace.config_name)
    narrow = replace(plan, configs=there, examples=share, distinct=1, oracles=oracles)
    own = campaign.run(engine, trace.spec, narrow).trace
    return len(own.rows) if own and any(each.oracle for each in own.violations) else None


def table(done: list[Killed], plan: Plan, seeds: int) -> Table:
    """Return the table of the mutants that are done."""
    dead = sum(1 for each in done if not each.missed)
    missed = [each.mutant for each in done if each.found and "equation" not in each.alone]
    medians = f". Medians over {seeds} seeds" if seeds > 1 else ""
    notes = [
        f"{dead} of {len(done)} mutants are killed with every seed.",
        f"The equation alone misses {len(missed)}: {', '.join(missed)}." if missed else "",
        f"Sent, seconds: commands and time up to the first violation. Commands: {SHRUNK}{medians}.",
        f"The other columns: who alone finds it, in how many commands. Proof: {PROOF}.",
        f"Seeds from {plan.seed}, at most {plan.examples} examples for each mutant and seed. {WHO}",
    ]
    columns = ["clause", "sent", "seconds", "commands", *FINDERS, "proof"]
    rows = [Row(each.mutant, MUTANTS[each.mutant].sentence, _cells(each)) for each in done]
    title = "Mutants of the reference engine × what finds them"
    return Table(title, "mutant", columns, rows, [note for note in notes if note])


def _cells(killed: Killed) -> list[Cell]:
    found, good = killed.found, not killed.missed
    text = f"{len(found)} of {killed.seeds} seeds" if found else "survives"
    verdict = Cell(found[0].clause, "good") if good else Cell(text, "bad")
    figures = [Cell()] * 3
    if found:
        figures = [
            Cell(f"{median(each.commands for each in found):.0f}"),
            Cell(f"{median(each.seconds for each in found):.1f}"),
            Cell(f"{median(each.length for each in found):.0f}"),
        ]
    by_group = [
        Cell(str(killed.alone[group]), "good") if group in killed.alone else Cell()
        for group in FINDERS
    ]
    exhibit = EXHIBITS.get(killed.mutant)
    return [verdict, *figures, *by_group, Cell(str(exhibit.depth), "good") if exhibit else Cell()]


def main() -> int:
    """Write both pages; return 1 if a mutant survives a seed."""
    parser = argparse.ArgumentParser(prog="make mutant-table", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="Default: all.")
    parser.add_argument("--seeds", type=int, default=10, help="From 0 on.")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help="For each mutant and seed.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes at once.")
    parser.add_argument("--out", type=Path, default=FOLDER)
    asked = parser.parse_args()
    (asked.out / "oracles.md").write_text(alone.page(), encoding="utf-8")
    plan, done = (
        Plan({}, examples=asked.examples).of(InProcessEngine().capabilities),
        list[Killed](),
    )
    with ProcessPoolExecutor(asked.jobs, multiprocessing.get_context("spawn")) as pool:
        run = partial(kill, plan=plan, seeds=asked.seeds)
        for killed in pool.map(run, asked.names or MUTANTS):
            done.append(killed)
            say(f"{killed.mutant}: {len(killed.found)} of {asked.seeds} seeds")
            write(table(done, plan, asked.seeds), asked.out)
    return int(any(each.missed for each in done))


if __name__ == "__main__":
    sys.exit(main())
