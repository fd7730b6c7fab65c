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
    """Whether a guard can hold together with the invariants, and its step then does something."""

    transition: str
    page_size: int | None
    satisfiable: bool
    idle: bool = False
    """The step never changes anything."""

    @property
    def vacuous(self) -> bool:
        return self.idle or not self.satisfiable


class Prover:
    """All tasks of one transition at one page size, in one solver: they share most hypotheses."""

    def __init__(self, work: Iterable[Task], page_size: int | None) -> None:
        self.tasks = tuple(work)
        self.page_size = page_size
        context = z3.Context()
        hypotheses = [expr for task in self.tasks for expr in task.hypotheses.values()]
        self.symbols = Symbols(page_size, context, aligned_variables(hypotheses))
        self.before: dict[str, Term] = {
            var.name: self.symbols.var(var) for task in self.tasks for var in _variables(task)
        }
        self.solver = z3.Solver(ctx=context)
        self.solver.set("random_seed", 0)
        self.solver.set("rlimit", RLIMIT)
        self._labels: dict[Expr, Term] = {}

    def _hypotheses(self, task: Task) -> dict[Term, str]:
        """A label per hypothesis, whose name the core then shows; each is asserted once."""
        named = {}
        for name, expr in task.hypotheses.items():
            label = self._labels.get(expr)
            if label is None:
                label = z3.Bool(f"use!{len(self._labels)}!{name}", self.symbols.context)
                self._labels[expr] = label
                self.solver.add(z3.Implies(label, self.symbols.term(expr, self.before)))
            named[label] = name
        self._settle()
        return named

    def _settle(self) -> None:
        self.solver.add(*self.symbols.side)
        self.symbols.side.clear()

    def vacuity(self, task: Task) -> Vacuity:
        """Whether the hypotheses hold in some state, and the step then changes something."""
        labels = list(self._hypotheses(task))
        possible = bool(self.solver.check(*labels) == z3.sat)
        if not possible or task.layer != "counts" or task.transition == INIT:
            return Vacuity(task.name, self.page_size, possible)
        changes = [
            self.symbols.term(expr, self.before) != self.before[name]
            for name, expr in task.after.items()
        ]
        self._settle()
        some = z3.Or(z3.BoolVal(task.detaches, self.symbols.context), *changes)
        idle = bool(self.solver.check(*labels, some) != z3.sat)
        return Vacuity(task.name, self.page_size, possible, idle)

    def results(self, task: Task) -> Iterator[Result]:
        """Every goal of the task."""
        named = self._hypotheses(task)
        values = dict(self.before)
        for name, term in self.before.items():
            expr = task.after.get(name)
            values[f"{name}'"] = term if expr is None else self.symbols.term(expr, self.before)
        self._settle()
        written = set(task.after)
        for goal in task.goals:
            touched = {each.removesuffix("'") for each in variables(goal.expr)} & written
            if not touched and task.transition != INIT and goal.clause in task.hypotheses:
                yield self._result(task, goal.clause, "proved", (goal.clause,), 0.0)
                continue
            started = time.perf_counter()
            term = self.symbols.term(goal.expr, values)
            self._settle()
            self.solver.push()
            self.solver.add(z3.Not(term))
            answer = self.solver.check(*named)
            seconds = time.perf_counter() - started
            if answer == z3.unsat:
                used = (named[label] for label in self.solver.unsat_core())
                yield self._result(task, goal.clause, "proved", tuple(sorted(used)), seconds)
            elif answer == z3.sat:
                yield self._result(task, goal.clause, "refuted", (), seconds, self._model())
            else:
                yield self._result(task, goal.clause, "unknown", (), seconds)
            self.solver.pop()

    def _model(self) -> dict[str, int]:
        model = self.solver.model()
        found = {}
        for name, term in self.before.items():
            value = model.eval(term, model_completion=True)
            found[name] = int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()
        return found

    def _result(
        self,
        task: Task,
        clause: str,
        status: Status,
        core: tuple[str, ...],
        seconds: float,
        model: dict[str, int] | None = None,
    ) -> Result:
        return Result(task.name, clause, self.page_size, status, core, model or {}, seconds)


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
    prover = Prover(tasks(spec, transition), page_size)
    for task in prover.tasks:
        vacuity.append(prover.vacuity(task))
        results += prover.results(task)
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
