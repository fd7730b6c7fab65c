"""Which obligation kills a mutant of the spec, or why none can."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Literal

import z3

from slotproof.model.mutate import Mutant, systematic
from slotproof.model.obligations import Spec, Task, tasks
from slotproof.model.prove import RLIMIT, Prover, _variables
from slotproof.model.symbolic import Symbols, Term
from slotproof.model.transitions import TRANSITIONS

Fate = Literal["killed", "equivalent", "restricts", "survives"]
"""``restricts``: every step it makes is one that the spec allows, so it can break nothing."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    mutant: str
    fate: Fate
    by: str = ""
    """The obligation that is refuted."""


def judge(mutant: Mutant, page_sizes: Iterable[int] = (4, 1)) -> Verdict:
    """Prove the mutated transition; where all proofs go through, compare it with the right one."""
    spec = Spec(transitions={**TRANSITIONS, mutant.id: mutant.transition}, name=mutant.name)
    for page_size in page_sizes:
        for task in tasks(spec, mutant.id):
            prover = Prover(task, page_size)
            if not prover.satisfiable():
                return Verdict(mutant.name, "killed", f"vacuity: {task.name} can never happen")
            for result in prover.results():
                if result.status != "proved":
                    return Verdict(mutant.name, "killed", result.name)
    fates = {compare(mutant, page_size) for page_size in page_sizes}
    worst: Fate = max(fates, key=("equivalent", "restricts", "survives").index)
    return Verdict(mutant.name, worst)


def compare(mutant: Mutant, page_size: int) -> Fate:
    """How its steps relate to the right ones, in states within the invariants: both by proof."""
    right = next(iter(tasks(Spec(), mutant.id)))
    wrong = next(iter(tasks(Spec({**TRANSITIONS, mutant.id: mutant.transition}), mutant.id)))
    context = z3.Context()
    symbols = Symbols(page_size, context)
    names = {var.name: var for task in (right, wrong) for var in _variables(task)}
    values = {name: symbols.var(var) for name, var in names.items()}
    solver = z3.Solver(ctx=context)
    solver.set("random_seed", 0)
    solver.set("rlimit", RLIMIT)
    invariants = {k: e for k, e in right.hypotheses.items() if not k.startswith("guard.")}
    solver.add(*(symbols.term(expr, values) for expr in invariants.values()))
    guard_right, guard_wrong = (_guard(task, symbols, values) for task in (right, wrong))
    written = right.after.keys() | wrong.after.keys()
    differs = [
        _value(right, name, symbols, values) != _value(wrong, name, symbols, values)
        for name in written
    ]
    solver.add(*symbols.side)
    never = z3.BoolVal(False, context)
    elsewhere = z3.Or(never, *differs)
    if solver.check(z3.Or(guard_right != guard_wrong, z3.And(guard_right, elsewhere))) == z3.unsat:
        return "equivalent"
    more = z3.And(guard_wrong, z3.Or(z3.Not(guard_right), elsewhere))
    return "restricts" if solver.check(more) == z3.unsat else "survives"


def _guard(task: Task, symbols: Symbols, values: dict[str, Term]) -> Term:
    terms = [
        symbols.term(expr, values)
        for name, expr in task.hypotheses.items()
        if name.startswith("guard.")
    ]
    return z3.And(*terms, z3.BoolVal(True, symbols.context))


def _value(task: Task, name: str, symbols: Symbols, values: dict[str, Term]) -> Term:
    return symbols.term(task.after[name], values) if name in task.after else values[name]


def judge_all(jobs: int | None = None) -> list[Verdict]:
    """The fate of every systematic mutant."""
    mutants = list(systematic())
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(judge, mutants, chunksize=8))
