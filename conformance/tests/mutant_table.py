"""Mutants of the reference engine × oracles: ``make mutant-table``, ``SEEDS=10``.

First, all oracles together run with several seeds, for medians. Then each group of :data:`FINDERS`
runs alone, on the shrunk trace. If the group finds nothing, it gets its own search in the
configuration of the trace. The page of oracles is written first (``tests.alone``).
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
    "Oracles that miss the bug on this trace get their own search, with the first seed and the "
    "examples of its configuration. "
    "In a row without any of them, the engine crashes (INV-ALIVE) or its own check is wrong "
    "(INV-CHECKER)."
)
PROOF = "transitions of the shortest counterexample if the spec has this bug"


def equation(seen: Observation) -> Iterator[Violation]:
    """Yield violations of the equation alone: the five figures and the total."""
    sums = ("INV-SUM-FULL", "INV-SUM-SWA")
    return (violation for violation in counts.judge(seen) if violation.invariant in sums)


def own_check(seen: Observation) -> Iterator[Violation]:
    """Yield the engine's own reports: its self-check finds a leak, or raises."""
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
    "content": _of("content", "lookup", "matches", "economy"),
    "clients": _of("history", "answers", "progress", "contract", "sessions", "limits", "operators"),
    "lockstep": _of("lockstep"),
}
"""The engine's own check comes first, then oracles that look closer and closer."""


@dataclass(frozen=True)
class SeedResult:
    """Result of a seed that finds the mutant."""

    clause: str
    commands: int
    """Sent up to the first violation."""
    seconds: float
    length: int
    """Commands of the trace, shrunk."""


@dataclass(frozen=True)
class Killed:
    """Results for one mutant."""

    mutant: str
    seeds: int
    found: tuple[SeedResult, ...] = ()
    """One result per seed that finds the mutant."""
    alone: dict[str, int] = field(default_factory=dict)
    """By group of oracles: length of the shortest trace the group finds alone. Absent if none."""

    @property
    def missed(self) -> bool:
        """True if a seed did not find the mutant."""
        return len(self.found) < self.seeds


def kill(name: str, plan: Plan, seeds: int) -> Killed:
    """Run the plan on a mutant with ``seeds`` seeds, from the plan's own up, then every group."""
    engine = InProcessEngine(name)
    results: list[SeedResult] = []
    trace: Trace | None = None
    for seed in range(plan.seed, plan.seed + seeds):
        outcome = campaign.run(engine, f"reference:{name}", replace(plan, seed=seed, distinct=1))
        if outcome.trace is not None and outcome.first is not None:
            clause, (commands, _, seconds) = outcome.trace.violations[0].clause, outcome.first
            results.append(SeedResult(clause, commands, seconds, len(outcome.trace.rows)))
            trace = trace or outcome.trace
    lengths = {group: _alone(engine, plan, group, trace) for group in FINDERS} if trace else {}
    by_group = {group: length for group, length in lengths.items() if length}
    return Killed(name, seeds, tuple(results), by_group)


def _alone(engine: InProcessEngine, plan: Plan, group: str, trace: Trace) -> int | None:
    """Return the length of a trace found by the group alone. A crash counts for no group."""
    oracles = FINDERS[group]
    log = play(engine, replace(trace.setup, ignored=(), oracles=oracles), trace.commands).log
    if any(violation.oracle for violation in log[-1].violations):
        return len(log)
    configs = {trace.config_name: trace.config}
    share = planned(plan, list(plan.configs)).get(trace.config_name)
    narrow = replace(plan, configs=configs, examples=share, distinct=1, oracles=oracles)
    own = campaign.run(engine, trace.spec, narrow).trace
    return len(own.rows) if own and any(violation.oracle for violation in own.violations) else None


def table(done: list[Killed], plan: Plan, seeds: int) -> Table:
    """Return the table of the finished mutants."""
    dead = sum(1 for killed in done if not killed.missed)
    missed = [killed.mutant for killed in done if killed.found and "equation" not in killed.alone]
    medians = f". Medians over {seeds} seeds" if seeds > 1 else ""
    notes = [
        f"{dead} of {len(done)} mutants are killed with every seed.",
        f"The equation alone misses {len(missed)}: {', '.join(missed)}." if missed else "",
        f"Sent, seconds: commands and time up to the first violation. Commands: {SHRUNK}{medians}.",
        f"Other columns: commands of a trace found by these oracles alone. Proof: {PROOF}.",
        f"Seeds from {plan.seed}, at most {plan.examples} examples for each mutant and seed. {WHO}",
    ]
    columns = ["clause", "sent", "seconds", "commands", *FINDERS, "proof"]
    rows = [Row(killed.mutant, MUTANTS[killed.mutant].sentence, _cells(killed)) for killed in done]
    title = "Mutants of the reference engine × oracles"
    return Table(title, "mutant", columns, rows, [note for note in notes if note])


def _cells(killed: Killed) -> list[Cell]:
    results, good = killed.found, not killed.missed
    text = f"{len(results)} of {killed.seeds} seeds" if results else "survives"
    verdict = Cell(results[0].clause, "good") if good else Cell(text, "bad")
    figures = [Cell()] * 3
    if results:
        figures = [
            Cell(f"{median(result.commands for result in results):.0f}"),
            Cell(f"{median(result.seconds for result in results):.1f}"),
            Cell(f"{median(result.length for result in results):.0f}"),
        ]
    by_group = [
        Cell(str(killed.alone[group]), "good") if group in killed.alone else Cell()
        for group in FINDERS
    ]
    exhibit = EXHIBITS.get(killed.mutant)
    return [verdict, *figures, *by_group, Cell(str(exhibit.depth), "good") if exhibit else Cell()]


def main() -> int:
    """Write both pages. Return 1 if a mutant survives a seed."""
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
    return int(any(killed.missed for killed in done))


if __name__ == "__main__":
    sys.exit(main())
