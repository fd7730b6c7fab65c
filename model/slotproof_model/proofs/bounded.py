"""Bounded search: the shortest path from the initial state to a violated conjunct.

The world has one session and no other actor. The search goes depth by depth. After a depth without
a violation, the search asserts the invariants for this depth, which speeds up later depths. A
mutant's counterexample ends with a transition whose induction step fails, because all other
transitions preserve the invariants. The evaluate reading replays every counterexample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import z3

from slotproof_model.evaluation.evaluate import compile_step, compiled
from slotproof_model.evaluation.layout import INDEX, LAYOUT
from slotproof_model.proofs.obligations import tasks
from slotproof_model.proofs.prove import Prover
from slotproof_model.proofs.symbolic import Symbols, Term
from slotproof_model.spec import pages, state
from slotproof_model.spec.expr import Expr, Sort, Var, lift, substitute
from slotproof_model.spec.invariant import Kind, of_step
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.whole import POOLS, Spec, conjuncts

RLIMIT = 400_000_000
"""Limit of Z3 resource units per depth. The slowest exhibit needs about a quarter."""
_CHANGING = (*state.STATE, *state.PAGE)
_FIXED = (*state.FRAME, *state.CONFIG)


@dataclass(frozen=True)
class Move:
    """One step of a counterexample."""

    transition: str
    params: dict[str, int]
    after: dict[str, int]


@dataclass(frozen=True)
class Counterexample:
    """The shortest counterexample at one page size."""

    spec: str
    page_size: int
    pool: str
    """Pool of the arbitrary page in the search."""
    start: dict[str, int]
    moves: tuple[Move, ...]
    clauses: tuple[str, ...]

    @property
    def depth(self) -> int:
        return len(self.moves)


class Inconclusive(Exception):
    """Error raised if Z3 gives up at its resource limit."""


class Search:
    """Unrolled transitions of one spec, with one layer of variables per depth.

    ``last``: transitions that may be the last step of a counterexample, if known.
    """

    def __init__(
        self, spec: Spec, page_size: int, pool: str = "full", last: frozenset[str] | None = None
    ) -> None:
        self.spec, self.page_size, self.pool = spec, page_size, pool
        self.last = frozenset(spec.transitions) if last is None else last
        self.context = z3.Context()
        self.symbols = Symbols(page_size, self.context)
        self.solver = self.symbols.solver(RLIMIT)
        self.invariants = {
            **conjuncts(spec, Kind.STATE), **conjuncts(spec, Kind.STATE, pool)
        }  # fmt: skip
        self.steps = conjuncts(spec, Kind.STEP)
        self.fixed = {var.name: self._constant(var, "") for var in _FIXED}
        self.layers: list[dict[str, Term]] = [self._layer(0)]
        self.choices: list[Term] = []
        self.params: list[dict[str, Term]] = []
        self.this: dict[str, Term] = {}
        """Facts about the last step (``state.this_step``)."""
        self._initial()

    def _constant(self, var: Var, suffix: str) -> Term:
        make = z3.Bool if var.sort is Sort.BOOL else z3.Int
        return make(var.name + suffix, self.context)

    def _layer(self, depth: int) -> dict[str, Term]:
        own = {var.name: self._constant(var, f"@{depth}") for var in _CHANGING}
        return {**own, **self.fixed}

    def _initial(self) -> None:
        first = self.layers[0]
        nobody = {var.name: lift(0) for var in state.FRAME}
        place = {state.page.at.name: lift(0)}
        beginning = {**state.INITIAL, **state.INITIAL_PAGE, **place, **nobody}
        totals = {var.name for var in state.TOTALS}
        for name, term in first.items():
            if name in totals:
                self.solver.add(term >= 0)
            elif z3.is_bool(term) and name in beginning:
                self.solver.add(z3.Not(term))
            elif name in beginning:
                self.solver.add(term == self.symbols.term(beginning[name], first))
        self._assert(first, [*ENVIRONMENT.values(), *pages.ANYWHERE.values()])
        if self.pool == "swa":
            self.solver.add(first["config.swa"])
        for total in ("full.total", "swa.total"):  # gives smaller counterexamples than P·q
            self.solver.add(first[total] % self.page_size == 0)

    def _assert(self, values: dict[str, Term], formulas: list[Expr]) -> None:
        self.solver.add(*(self.symbols.term(expr, values) for expr in formulas))
        self.symbols.settle(self.solver)

    def extend(self) -> None:
        """Add one step: some transition leads from the last layer to a new layer.

        Transitions not yet enabled at this depth are left out. Proving that one transition is not
        enabled is far cheaper than searching over the transition, and speeds up the next layers.
        """
        depth = len(self.layers)
        before, after = self.layers[-1], self._layer(depth)
        chosen = z3.Int(f"step@{depth}", self.context)
        params: dict[str, Term] = {
            var.name: self._constant(var, f"@{depth}")
            for transition in self.spec.transitions.values()
            for var in (*transition.params, *pages.CHOICES)
        }
        values = {**before, **params}
        this = {var.name: self._constant(var, f"@{depth}") for var in state.this_step}
        options = []
        for number, transition in enumerate(self.spec.transitions.values()):
            legal, moved = self.spec.choices(transition, self.pool)
            guards = (*transition.full_guard.values(), *legal.values())
            enabled = z3.And(*(self.symbols.term(expr, values) for expr in guards))
            self.symbols.settle(self.solver)
            if self.solver.check(enabled) == z3.unsat:
                continue
            effect = {**transition.full_effect, **moved}
            parts = [chosen == number, enabled]
            for var in _CHANGING:
                name = var.name
                new = self.symbols.term(effect[name], values) if name in effect else before[name]
                parts.append(after[name] == new)
            for name, expr in transition.this_step.items():
                parts.append(this[name] == self.symbols.term(expr, values))
            options.append(z3.And(*parts))
        self.solver.add(z3.Or(z3.BoolVal(False, self.context), *options))
        self.symbols.settle(self.solver)
        self.layers.append(after)
        self.choices.append(chosen)
        self.params.append(params)
        self.this = this

    def _across(self) -> dict[str, Term]:
        """Return the variables' values before and after the last step, for step invariants."""
        primed = {f"{name}'": term for name, term in self.layers[-1].items()}
        return {**self.layers[-2], **primed, **self.this}

    def violated(self) -> Term:
        """Return the formula: a conjunct fails in the last layer or step, and a suspect transition
        took the step."""
        last = self.layers[-1]
        terms = [self.symbols.term(expr, last) for expr in self.invariants.values()]
        if len(self.layers) > 1:
            across = self._across()
            terms += [self.symbols.term(expr, across) for expr in self.steps.values()]
        self.symbols.settle(self.solver)
        suspect = z3.Or(
            z3.BoolVal(not self.choices, self.context),
            *(
                choice == number
                for choice in self.choices[-1:]
                for number, name in enumerate(self.spec.transitions)
                if name in self.last
            ),
        )
        return z3.And(suspect, z3.Not(z3.And(*terms)))

    def run(self, depth: int) -> Counterexample | None:
        """Return the shortest counterexample of at most this depth, or ``None`` if none exists."""
        for _ in range(depth + 1):
            bad = self.violated()
            self.solver.push()
            self.solver.add(bad)
            answer = self.solver.check()
            if answer == z3.sat:
                return self._found()
            if answer != z3.unsat:
                raise Inconclusive(f"{self.spec.name} at depth {len(self.choices)}")
            self.solver.pop()
            self._assert(self.layers[-1], list(self.invariants.values()))
            if len(self.choices) < depth:
                self.extend()
        return None

    def _found(self) -> Counterexample:
        self._tidy()
        model = self.solver.model()

        def number(term: Term) -> int:
            value = model.eval(term, model_completion=True)
            return int(z3.is_true(value)) if z3.is_bool(value) else int(value.as_long())

        names = list(self.spec.transitions)
        moves = []
        for index, choice in enumerate(self.choices):
            id_ = names[number(choice)]
            wanted = (*self.spec.transitions[id_].params, *pages.CHOICES)
            params = {
                var.name.removeprefix("param."): number(self.params[index][var.name])
                for var in wanted
            }
            after = {name: number(term) for name, term in self.layers[index + 1].items()}
            moves.append(Move(id_, params, after))
        start = {name: number(term) for name, term in self.layers[0].items()}
        clauses = [
            clause for clause, expr in self.invariants.items()
            if not z3.is_true(model.eval(self.symbols.term(expr, self.layers[-1]), True))
        ]  # fmt: skip
        if moves:
            across = self._across()
            clauses += [
                clause for clause, expr in self.steps.items()
                if not z3.is_true(model.eval(self.symbols.term(expr, across), True))
            ]  # fmt: skip
        return Counterexample(
            self.spec.name, self.page_size, self.pool, start, tuple(moves), tuple(clauses)
        )

    def _tidy(self) -> None:
        """Look for a violation with small numbers, which is easier to read."""
        first = self.layers[0]
        numbers = [term for of in self.params for term in of.values() if z3.is_int(term)]
        for limit in (2, 4, 8):
            self.solver.push()
            self.solver.add(
                first["full.total"] <= limit * self.page_size,
                first["swa.total"] <= limit * self.page_size,
                first["rows.total"] <= 2,
                self.fixed["config.width"] <= limit * self.page_size,
                self.fixed["config.window"] <= limit,
                *(term <= limit * self.page_size for term in numbers),
            )
            if self.solver.check() == z3.sat:
                return
            self.solver.pop()
        self.solver.check()


def replay(spec: Spec, counterexample: Counterexample) -> bool:
    """Return True if the evaluate reading takes the same steps and breaks the same clauses.

    Clauses about a page are left to Z3, because evaluate has no pages.
    """
    vector = [counterexample.start[name] for name in LAYOUT]
    before_last = vector
    for move in counterexample.moves:
        step = compile_step(spec.transitions[move.transition], counterexample.page_size)
        if step.blocked(vector, move.params) is not None:
            return False
        before, vector = vector, list(vector)
        step.apply(vector, move.params)
        if any(int(vector[INDEX[name]]) != move.after[name] for name in LAYOUT):
            return False
        before_last = before
    formulas = {**conjuncts(spec, Kind.STATE), **conjuncts(spec, Kind.STEP)}
    broken = [formulas[clause] for clause in counterexample.clauses if clause in formulas]
    size, last = counterexample.page_size, counterexample.moves[-1:]
    return all(not _holds(spec, expr, size, before_last, vector, last) for expr in broken)


def _holds(
    spec: Spec, expr: Expr, page_size: int, before: list[int], now: list[int], last: Sequence[Move]
) -> bool:
    """Return a formula's value on plain integers, for the last state or the last step."""
    if not of_step(expr):
        return bool(compiled(expr, page_size)(now, {}))
    (move,) = last
    known = substitute(expr, spec.transitions[move.transition].this_step)
    return bool(compiled(known, page_size, "v, w, p")(before, now, move.params))


def suspects(spec: Spec, page_size: int) -> frozenset[str] | None:
    """Return the transitions with a failed obligation. No other transition can break an invariant.

    Return ``None`` for the spec itself: its search covers all transitions.
    """
    if not spec.unproved:
        return None
    provers = {name: Prover(tasks(spec, name), page_size) for name in spec.unproved}
    return frozenset(
        name for name, prover in provers.items()
        if any(goal.status != "proved" for task in prover.tasks for goal in prover.results(task))
    )  # fmt: skip


def shortest(
    spec: Spec, page_size: int, depth: int, last: frozenset[str] | None = None
) -> Counterexample | None:
    """Return the shortest counterexample of at most ``depth`` steps in either pool, or ``None``.

    >>> from slotproof_model.bugs.museum import EXHIBITS
    >>> shortest(EXHIBITS["22790d-two-in-flight"].spec, page_size=1, depth=3).depth
    3
    """
    best: Counterexample | None = None
    for pool in POOLS:
        limit = depth if best is None else best.depth - 1
        best = Search(spec, page_size, pool, last).run(limit) or best
    return best
