"""Proofs of obligations with Z3: one solver per transition, one check per goal.

Every hypothesis is a named assumption, so that a proof lists the hypotheses that it uses. If the
transition writes no variable of a goal, framing proves the goal without a solver. Z3 has a fixed
seed, and a limit on resource units but not on time. Results are therefore the same on any machine.

The reason for which a goal holds is decided by proofs and models, at one page size. It depends on
no unsat core, because the name of a parameter can change a core.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import get_args

import z3

from slotproof_model.proofs import others
from slotproof_model.proofs.obligations import (
    INIT,
    Goal,
    Reason,
    Result,
    Status,
    Task,
    premise,
    tasks,
)
from slotproof_model.proofs.pool import pool
from slotproof_model.proofs.symbolic import Symbols, Term, aligned_variables
from slotproof_model.spec import pages, state
from slotproof_model.spec.expr import Expr, Var, variables, walk
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.whole import Spec

PAGE_SIZES = (1, 4, 16, 64)
OTHERS_AT = (4, None)
"""Page sizes at which other actors' invariants are proved too: 4, and all sizes at once. Tests
prove some of these invariants at page sizes 1 and 64."""
REASONS_AT = 4
"""Page size at which reasons are decided. Transitions and clauses are the same at any page size."""


@dataclass(frozen=True)
class Vacuity:
    """Result of a check that the guard can hold with the invariants, and that the step has an
    effect."""

    transition: str
    page_size: int | None
    problem: str = ""
    """``can never happen`` or ``changes nothing`` if proved, ``unknown`` if Z3 gave up."""

    @property
    def vacuous(self) -> bool:
        return bool(self.problem)


def _check(solver: z3.Solver, named: Mapping[Term, str]) -> z3.CheckSatResult:
    """Check like ``solver.check(*named)``, but without casting some 400 labels anew for each goal.
    The casts took an eighth of all proof time."""
    assumed = (z3.Ast * len(named))(*(label.as_ast() for label in named))
    answer = z3.Z3_solver_check_assumptions(solver.ctx.ref(), solver.solver, len(named), assumed)
    return z3.CheckSatResult(answer)


class Bare:
    """A solver that assumes guard, environment and choices, but no invariant of the state before.

    ``named`` has the assumptions' names by label, for unsat cores. The proofs have another solver:
    with their invariants, it takes ten times as long to find a model.
    """

    def __init__(self, solver: z3.Solver, named: Mapping[Term, str]) -> None:
        self.solver, self.named = solver, named
        self._possible: dict[Term, bool] = {}
        """Answers about premises. Many clauses share a premise."""

    def reason(self, goal: Term, premise: Term | None) -> tuple[Reason, tuple[str, ...]]:
        """Return the reason for which a goal holds, if it holds, and the unsat core.

        If Z3 gives up without invariants, the goal counts as inductive.
        """
        core = self._core(z3.Not(goal))
        if core is None:
            return "inductive", ()
        if premise is None:
            return "effect", core
        if premise not in self._possible:
            self._possible[premise] = self._core(premise) is None
        return "effect" if self._possible[premise] else "excluded", core

    def _core(self, formula: Term) -> tuple[str, ...] | None:
        """Return the names of the assumptions that exclude the formula, or ``None`` if the formula
        is possible."""
        self.solver.push()
        self.solver.add(formula)
        core = None
        if _check(self.solver, self.named) == z3.unsat:
            core = tuple(sorted(self.named[label] for label in self.solver.unsat_core()))
        self.solver.pop()
        return core


class Prover:
    """All tasks of one transition at one page size, in one solver with shared hypotheses.

    ``reasons``: True to decide the reason for which each goal holds.
    """

    def __init__(self, work: Iterable[Task], page_size: int | None, reasons: bool = False) -> None:
        self.tasks = tuple(work)
        self.page_size = page_size
        self.reasons = reasons
        context = z3.Context()
        hypotheses = [expr for task in self.tasks for expr in task.hypotheses.values()]
        self.symbols = Symbols(page_size, context, aligned_variables(hypotheses))
        self.before: dict[str, Term] = {
            var.name: self.symbols.var(var) for task in self.tasks for var in variables_of(task)
        }
        self.solver = self.symbols.solver()
        # branching by activity alone saves a fifth of the time of all proofs
        self.solver.set("case_split", 0)
        self._labels: dict[Expr, Term] = {}
        self._definitions: list[Term] = []
        """Definitions of all floors so far."""

    def _settle(self, bare: Bare | None = None) -> None:
        """Assert the definitions of new floors."""
        self._definitions += self.symbols.side
        if bare is not None:
            bare.solver.add(*self.symbols.side)
        self.symbols.settle(self.solver)

    def _hypotheses(self, task: Task) -> dict[Term, str]:
        """Return the hypotheses' names by label, for the unsat core. Assert each hypothesis
        once."""
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

    def _bare(self, task: Task, named: Mapping[Term, str]) -> Bare:
        few = {label: name for label, name in named.items() if not _is_invariant(name)}
        solver = self.symbols.solver()
        solver.set("case_split", 0)
        solver.add(*self._definitions)
        for label, name in few.items():
            term = self.symbols.term(task.hypotheses[name], self.before)
            solver.add(z3.Implies(label, term))
        return Bare(solver, few)

    def vacuity(self, task: Task) -> Vacuity:
        """Check that some state satisfies the hypotheses, and that the step then has an effect."""
        # The page layer's tasks assume more, and their hypotheses are checked.
        if task.layer.startswith("choices"):
            return Vacuity(task.name, self.page_size)
        labels = list(self._hypotheses(task))
        answer = self.solver.check(*labels)
        if answer != z3.sat:
            if answer == z3.unsat and self._without_window(task):
                return Vacuity(task.name, self.page_size)
            why = "can never happen" if answer == z3.unsat else "unknown"
            return Vacuity(task.name, self.page_size, why)
        if task.layer != "counts" or task.transition == INIT:
            return Vacuity(task.name, self.page_size)
        changes = [
            self.symbols.term(expr, self.before) != self.before[name]
            for name, expr in task.after.items()
        ]
        self._settle()
        some = z3.Or(z3.BoolVal(task.detaches, self.symbols.context), *changes)
        answer = self.solver.check(*labels, some)
        why = "" if answer == z3.sat else "changes nothing" if answer == z3.unsat else "unknown"
        return Vacuity(task.name, self.page_size, why)

    def _without_window(self, task: Task) -> bool:
        """Return True if the guard excludes the pool of the arbitrary page."""
        if "environment.pool" not in task.hypotheses:
            return False
        guard = [name for name in task.hypotheses if name.startswith("guard.")]
        few = {name: task.hypotheses[name] for name in (*guard, "environment.pool")}
        return bool(self.solver.check(*self._hypotheses(replace(task, hypotheses=few))) == z3.unsat)

    def results(self, task: Task) -> Iterator[Result]:
        """Yield the result of every goal of the task."""
        named = self._hypotheses(task)
        values = dict(self.before)
        for name, term in self.before.items():
            expr = task.after.get(name)
            values[f"{name}'"] = term if expr is None else self.symbols.term(expr, self.before)
        self._settle()
        bare = self._bare(task, named) if self.reasons else None
        for goal in task.goals:
            if framed(task, goal):
                proved = self._result(task, goal.clause, "proved", (goal.clause,), 0.0)
                yield replace(proved, reason="framing")
                continue
            started = time.perf_counter()
            term = self.symbols.term(goal.expr, values)
            self._settle(bare)
            reason: Reason | None = None
            if bare is not None:
                assumed = premise(goal.expr)
                needed = None if assumed is None else self.symbols.term(assumed, values)
                self._settle(bare)
                reason, core = bare.reason(term, needed)
                if reason != "inductive":
                    seconds = time.perf_counter() - started
                    proved = self._result(task, goal.clause, "proved", core, seconds)
                    yield replace(proved, reason=reason)
                    continue
            self.solver.push()
            self.solver.add(z3.Not(term))
            answer = _check(self.solver, named)
            seconds = time.perf_counter() - started
            if answer == z3.unsat:
                core = tuple(sorted(named[label] for label in self.solver.unsat_core()))
                proved = self._result(task, goal.clause, "proved", core, seconds)
                yield replace(proved, reason=reason)
            elif answer == z3.sat:
                model = self._small_model(named)
                yield self._result(task, goal.clause, "refuted", (), seconds, model)
            else:
                yield self._result(task, goal.clause, "unknown", (), seconds)
            self.solver.pop()

    def _small_model(self, named: Mapping[Term, str]) -> dict[str, int]:
        """Return a counterexample with small numbers if there is one, for readers."""
        most = 8 * (self.page_size or 4)
        for limit in (most, 8 * most):
            self.solver.push()
            small = [term <= limit for term in self.before.values() if z3.is_int(term)]
            self.solver.add(*small)
            if _check(self.solver, named) == z3.sat:
                model = self._model()
                self.solver.pop()
                return model
            self.solver.pop()
        _check(self.solver, named)
        return self._model()

    def _model(self) -> dict[str, int]:
        model = self.solver.model()
        values = {}
        for name, term in self.before.items():
            value = model.eval(term, model_completion=True)
            values[name] = int(z3.is_true(value)) if z3.is_bool(value) else value.as_long()
        return values

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


def _is_invariant(hypothesis: str) -> bool:
    return hypothesis.startswith("INV-")


def framed(task: Task, goal: Goal) -> bool:
    """Return True if the goal was assumed, and the step writes no variable of the goal."""
    if task.transition == INIT or goal.clause not in task.hypotheses:
        return False
    return not {name.removesuffix("'") for name in variables(goal.expr)} & set(task.after)


def variables_of(task: Task) -> list[Var]:
    """Return the variables of state, frame, configuration and task."""
    known: dict[str, Var] = {var.name: var for var in (*state.SEEN, *state.PAGE, *state.LINE)}
    goals = (goal.expr for goal in task.goals)
    for expr in (*task.hypotheses.values(), *task.after.values(), *goals):
        for node in walk(expr):
            if isinstance(node, Var):
                name = node.name.removesuffix("'")
                known.setdefault(name, node if name == node.name else Var(name, node.of))
    known.update({var.name: var for var in pages.CHOICES})
    return list(known.values())


def _others(spec: Spec, transition: Transition, page_size: int | None) -> Iterator[Result]:
    """Yield the results about actors at rest, with reasons at :data:`REASONS_AT` only."""
    reasons = _others_reasons(spec, transition, page_size) if page_size == REASONS_AT else {}
    for result in others.results(spec, transition, page_size):
        reason: Reason | None = None
        if result.core == (result.clause,):
            reason = "framing"
        elif result.status == "proved":
            reason = reasons.get((result.transition, result.clause))
        yield replace(result, reason=reason)


def _others_reasons(
    spec: Spec, transition: Transition, page_size: int | None
) -> dict[tuple[str, str], Reason]:
    """Return the reasons for which the goals about actors at rest hold, by task and clause."""
    pair = others.Pair(spec, transition, lambda names: Symbols(page_size, z3.Context(), names))
    solver = pair.symbols.solver()
    reasons: dict[tuple[str, str], Reason] = {}
    for name, look in others.looks(pair):
        goals = others.touched(look)
        premises = {clause: premise(expr) for clause, expr in goals.items()}
        terms = pair.terms(goals, look.seen)
        needed = pair.terms({c: e for c, e in premises.items() if e is not None}, look.seen)
        assumed = {**pair.assumed, **look.assumed}
        pair.symbols.settle(solver)
        solver.push()
        solver.add(*(term for fact, term in assumed.items() if not _is_invariant(fact)))
        bare = Bare(solver, {})
        for clause, term in terms.items():
            reasons[name, clause] = bare.reason(term, needed.get(clause))[0]
        solver.pop()
    return reasons


def _work(job: tuple[Spec, str, int | None]) -> tuple[list[Result], list[Vacuity]]:
    spec, transition, page_size = job
    results: list[Result] = []
    vacuity: list[Vacuity] = []
    every = list(tasks(spec, transition))
    # Unless P is a number, the floors of one task slow down the proofs of the others.
    for some in [[task] for task in every] if page_size is None else [every]:
        prover = Prover(some, page_size, page_size == REASONS_AT)
        # A state at page size 4 suffices for any P, and Z3 finds it at once.
        small = prover if page_size else Prover(prover.tasks, 4)
        for task in prover.tasks:
            check = small.vacuity(task)
            if check.vacuous and small is not prover:
                check = prover.vacuity(task)
            vacuity.append(replace(check, page_size=page_size))
            results += prover.results(task)
    if transition != INIT and page_size in OTHERS_AT:
        results += _others(spec, spec.transitions[transition], page_size)
    return results, vacuity


def prove(
    spec: Spec | None = None,
    page_sizes: Iterable[int | None] = PAGE_SIZES,
    jobs: int | None = None,
    only: Iterable[str] | None = None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> tuple[list[Result], list[Vacuity]]:
    """Prove every obligation. ``None`` among the page sizes stands for all page sizes at once.

    ``tell`` gets the number of finished (transition, page size) pairs and the number of all pairs.

    >>> results, vacuity = prove(page_sizes=[1], jobs=1, only=["T-OPEN"])
    >>> {result.status for result in results}, [check for check in vacuity if check.vacuous]
    ({'proved'}, [])
    """
    spec = spec or Spec()
    names = list(only) if only is not None else [INIT, *spec.transitions]
    work = [(spec, name, size) for size in page_sizes for name in names]
    results: list[Result] = []
    vacuity: list[Vacuity] = []
    workers = min(jobs or os.cpu_count() or 1, len(work))
    with ExitStack() as stack:
        batches: Iterator[tuple[list[Result], list[Vacuity]]] = map(_work, work)
        if workers > 1:
            batches = stack.enter_context(pool(workers)).map(_work, work, chunksize=4)
        for done, (batch, empty) in enumerate(batches, 1):
            results += batch
            vacuity += empty
            tell(done, len(work))
    return results, vacuity


def reasons(results: Iterable[Result]) -> dict[str, int] | None:
    """Return the number of obligations for each reason, at the page size at which reasons are
    decided. Return ``None`` if the results are about other page sizes.

    Excluded obligations do not count as proved.

    >>> results, _ = prove(page_sizes=[4], jobs=1, only=["T-OPEN"])
    >>> figures = reasons(results)
    >>> figures["proved"] + figures["excluded"] == figures["obligations"] == len(results)
    True
    """
    number = Counter(result.reason for result in results if result.page_size == REASONS_AT)
    if not number:
        return None
    figures = {reason: number[reason] for reason in get_args(Reason)}
    return {
        "page_size": REASONS_AT,
        "obligations": number.total(),
        "proved": sum(figures.values()) - figures["excluded"],
        **figures,
    }


__all__ = ["PAGE_SIZES", "REASONS_AT", "Prover", "Result", "Vacuity", "prove", "reasons"]
