"""Discharging obligations with Z3: one solver per task, one check per goal.

Every hypothesis is an assumption with a name, so that each proof says what it
used. A goal of whose variables the transition writes none is preserved by
framing and needs no solver. ``rlimit`` instead of wall time and a fixed seed:
the same spec gives the same result on any machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import z3

from slotproof.model import pages, state
from slotproof.model.expr import Expr, Sort, Var, variables, walk
from slotproof.model.obligations import INIT, Spec, Task, tasks
from slotproof.model.symbolic import Symbols, Term, aligned_variables

RLIMIT = 50_000_000
"""Z3's resource units per check; far above what any obligation needs."""
PAGE_SIZES = (1, 4, 16, 64)
Status = Literal["proved", "refuted", "unknown"]


@dataclass(frozen=True)
class Result:
    """One obligation: ``T-RESTORE / INV-ONCE.never_both / P=16``."""

    transition: str
    clause: str
    page_size: int | None
    status: Status
    core: tuple[str, ...] = ()
    """Hypotheses that the proof used; the clause alone where framing suffices."""
    model: dict[str, int] = field(default_factory=dict)
    """Where it is refuted: a state before, and parameters."""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.transition} / {self.clause} / P={self.page_size or 'any'}"


@dataclass(frozen=True)
class Vacuity:
    """Whether a guard can hold together with the invariants at all."""

    transition: str
    page_size: int | None
    satisfiable: bool


class Prover:
    """One task at one page size."""

    def __init__(self, task: Task, page_size: int | None) -> None:
        self.task = task
        self.page_size = page_size
        context = z3.Context()
        formulas = list(task.hypotheses.values())
        self.symbols = Symbols(page_size, context, aligned_variables(formulas))
        before = {var.name: self.symbols.var(var) for var in _variables(task)}
        after = {name: self.symbols.term(expr, before) for name, expr in task.after.items()}
        self.values: dict[str, Term] = dict(before)
        for name in [*before]:
            self.values[name + "'"] = after.get(name, before[name])
        self.solver = z3.Solver(ctx=context)
        self.solver.set("random_seed", 0)
        self.solver.set("rlimit", RLIMIT)
        self.named = {z3.Bool(f"use!{name}", context): name for name in task.hypotheses}
        for label, name in self.named.items():
            term = self.symbols.term(task.hypotheses[name], self.values)
            self.solver.add(z3.Implies(label, term))
        self._settle()

    def _settle(self) -> None:
        self.solver.add(*self.symbols.side)
        self.symbols.side.clear()

    def satisfiable(self) -> bool:
        """Whether the hypotheses hold in some state."""
        return bool(self.solver.check(*self.named) == z3.sat)

    def results(self) -> Iterator[Result]:
        """Every goal of the task."""
        written = set(self.task.after)
        for goal in self.task.goals:
            touched = {each.removesuffix("'") for each in variables(goal.expr)} & written
            if not touched and self.task.transition != INIT and goal.clause in self.task.hypotheses:
                yield self._result(goal.clause, "proved", (goal.clause,), 0.0)
                continue
            started = time.perf_counter()
            term = self.symbols.term(goal.expr, self.values)
            self._settle()
            self.solver.push()
            self.solver.add(z3.Not(term))
            answer = self.solver.check(*self.named)
            seconds = time.perf_counter() - started
            if answer == z3.unsat:
                used = (self.named[label] for label in self.solver.unsat_core())
                yield self._result(goal.clause, "proved", tuple(sorted(used)), seconds)
            elif answer == z3.sat:
                yield self._result(goal.clause, "refuted", (), seconds, self._model())
            else:
                yield self._result(goal.clause, "unknown", (), seconds)
            self.solver.pop()

    def _model(self) -> dict[str, int]:
        model = self.solver.model()
        found = {}
        for name, term in self.values.items():
            if not name.endswith("'"):
                value = model.eval(term, model_completion=True)
                found[name] = int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()
        return found

    def _result(
        self,
        clause: str,
        status: Status,
        core: tuple[str, ...],
        seconds: float,
        model: dict[str, int] | None = None,
    ) -> Result:
        return Result(self.task.name, clause, self.page_size, status, core, model or {}, seconds)


def _variables(task: Task) -> list[Var]:
    """The state, the frame, the configuration, and whatever else the task speaks of."""
    known: dict[str, Var] = {
        var.name: var for var in (*state.STATE, *state.FRAME, *state.CONFIG, *state.PAGE)
    }
    for expr in (*task.hypotheses.values(), *task.after.values()):
        known.update({node.name: node for node in walk(expr) if isinstance(node, Var)})
    known.update({var.name: var for var in pages.CHOICES})
    return [var for name, var in known.items() if not name.endswith("'")]


def _work(job: tuple[Spec, str, int | None]) -> tuple[list[Result], list[Vacuity]]:
    spec, transition, page_size = job
    results: list[Result] = []
    vacuity: list[Vacuity] = []
    for task in tasks(spec, transition):
        prover = Prover(task, page_size)
        vacuity.append(Vacuity(task.name, page_size, prover.satisfiable()))
        results += prover.results()
    return results, vacuity


def prove(
    spec: Spec | None = None,
    page_sizes: Iterable[int | None] = PAGE_SIZES,
    jobs: int | None = None,
    only: Iterable[str] | None = None,
) -> tuple[list[Result], list[Vacuity]]:
    """Discharge every obligation. ``None`` among the page sizes is all of them at once."""
    spec = spec or Spec()
    names = list(only) if only is not None else [INIT, *spec.transitions]
    work = [(spec, name, size) for size in page_sizes for name in names]
    results: list[Result] = []
    vacuity: list[Vacuity] = []
    workers = min(jobs or os.cpu_count() or 1, len(work))
    if workers <= 1:
        batches = map(_work, work)
        for found, empty in batches:
            results += found
            vacuity += empty
        return results, vacuity
    with ProcessPoolExecutor(workers) as pool:
        for found, empty in pool.map(_work, work, chunksize=4):
            results += found
            vacuity += empty
    return results, vacuity


__all__ = ["PAGE_SIZES", "Expr", "Prover", "Result", "Sort", "Vacuity", "prove"]
