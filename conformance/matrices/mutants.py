"""Mutants of the reference engine × oracles: who kills which, in how many commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from slotproof.conformance import campaign
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.matrices.table import Cell, Row, Table
from slotproof.conformance.oracles import ORACLES
from slotproof.conformance.plan import Plan
from slotproof.impl.mutants import MUTANTS

ALIVE = "alive"
"""Not an oracle: the referee itself sees an engine that crashes or hangs."""


@dataclass(frozen=True)
class Killed:
    """What a run found of a mutant."""

    mutant: str
    clause: str = ""
    """Of the plainest trace; empty if the mutant survives."""
    commands: int = 0
    oracles: dict[str, int] | None = None
    """By oracle: commands of the shortest trace at whose end it speaks."""
    interrupted: bool = False


def kill(name: str, plan: Plan) -> Killed:
    """Run the plan on a mutant, up to the first configuration that finds something."""
    outcome = campaign.run(InProcessEngine(name), f"reference:{name}", plan)
    if outcome.trace is None:
        return Killed(name, interrupted=outcome.interrupted)
    oracles: dict[str, int] = {}
    for trace in outcome.traces:
        for each in trace.violations:
            speaker = each.oracle or ALIVE
            oracles[speaker] = min(len(trace.rows), oracles.get(speaker, len(trace.rows)))
    first = outcome.trace.violations[0].clause
    return Killed(name, first, len(outcome.trace.rows), oracles, outcome.interrupted)


def kills(plan: Plan, jobs: int) -> Iterator[Killed]:
    """One mutant after the other, or some at once; always in the same order."""
    if jobs == 1:
        for name in MUTANTS:
            yield kill(name, plan)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"))
    try:
        yield from pool.map(kill, MUTANTS, [plan] * len(MUTANTS))
    finally:
        pool.shutdown(cancel_futures=True)


def run(
    plan: Plan, jobs: int, tell: Callable[[str, int, int], None], write: Callable[[Table], None]
) -> list[Killed]:
    """Kill every mutant; ``write`` gets the table after each. Ctrl-C ends it with what there is."""
    done: list[Killed] = []
    try:
        for killed in kills(plan, jobs):
            done.append(killed)
            tell(killed.mutant, len(done), len(MUTANTS))
            write(table(done, plan))
            if killed.interrupted:
                break
    except KeyboardInterrupt:
        pass
    return done


def table(done: list[Killed], plan: Plan) -> Table:
    """What is known so far."""
    names = [*ORACLES, ALIVE]
    rows = []
    for each in done:
        verdict = Cell(each.clause, "good") if each.clause else Cell("survives", "bad")
        cells = [verdict, Cell(str(each.commands or ""))]
        for name in names:
            commands = (each.oracles or {}).get(name)
            cells.append(Cell(str(commands), "good") if commands else Cell())
        rows.append(Row(each.mutant, MUTANTS[each.mutant].sentence, cells))
    dead = sum(1 for each in done if each.clause)
    notes = [
        f"{dead} of {len(MUTANTS)} mutants are killed.",
        "Numbers are commands of the shortest trace at whose end the oracle speaks.",
        f"Seed {plan.seed}, at most {plan.examples} examples for each mutant.",
    ]
    columns = ["clause", "commands", *names]
    return Table("Mutants of the reference engine × oracles", "mutant", columns, rows, notes)
