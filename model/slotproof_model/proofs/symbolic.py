"""The symbolic reading: the spec as Z3 terms, for one page size or for all at once.

Nothing of a transition is written again here. Every ⌊x⌋ becomes P·q with a
fresh quotient q, 0 ≤ x − P·q < P, instead of ``div``: linear, and fast.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import z3

from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var, same

Term: TypeAlias = Any
"""A Z3 term: z3-solver has no types."""
RLIMIT = 50_000_000
"""Z3's resource units per check; far above what any obligation needs."""
_OPERATORS: Mapping[Op, Callable[..., Term]] = {
    Op.ADD: operator.add, Op.SUB: operator.sub, Op.EQ: operator.eq, Op.LE: operator.le,
    Op.LT: operator.lt, Op.AND: z3.And, Op.OR: z3.Or, Op.NOT: z3.Not,
}  # fmt: skip


class Symbols:
    """Z3 terms for expressions over named variables, in one context.

    ``side`` collects what defines the floors: ``settle`` asserts it along with the terms.

    With ``page_size`` ``None`` the page size is a symbol P ≥ 1. Then P·q would
    not be linear, so a floor is a fresh f with f ≤ x < f + P that counts as a
    multiple of P. What that means is said by the one fact about multiples that
    proofs need: two of them that differ, differ by at least P. ``multiples``
    names the variables that hypotheses say are aligned; sums, minima and choices
    of multiples are multiples, so their floor is themselves.
    """

    def __init__(
        self, page_size: int | None, context: z3.Context, multiples: frozenset[str] = frozenset()
    ) -> None:
        self.page_size = page_size
        self.context = context
        self.multiples = multiples
        self.side: list[Term] = []
        self.page: Term = z3.IntVal(page_size, context) if page_size else z3.Int("P", context)
        if page_size is None:
            self.side.append(self.page >= 1)
        self._floors: dict[int, Term] = {}
        self._fresh = 0
        self._aligned: dict[int, Term] = {}
        """Terms known to be multiples of P, by Z3's id."""
        self._terms: dict[tuple[object, ...], Term] = {}
        """What was built, by operator and arguments: formulas share most of their parts."""
        self._kept: list[Term] = []
        """Keeps terms alive whose ids are keys."""

    def solver(self, rlimit: int = RLIMIT) -> z3.Solver:
        """A solver for these terms: a fixed seed, and resource units instead of wall time."""
        made = z3.Solver(ctx=self.context)
        made.set("random_seed", 0)
        made.set("rlimit", rlimit)
        return made

    def settle(self, solver: z3.Solver) -> None:
        """Assert what the terms built since the last time need."""
        solver.add(*self.side)
        self.side.clear()

    def var(self, var: Var, whose: str = "") -> Term:
        """The constant of a variable before the transition, or of a parameter; of several
        actors, that of one of them.

        Only these are multiples by hypothesis: a value after it must be shown to be one.
        """
        name = f"{var.name}.{whose}" if whose else var.name
        if var.sort is Sort.BOOL:
            return z3.Bool(name, self.context)
        constant = z3.Int(name, self.context)
        return self._is_multiple(constant) if var.name in self.multiples else constant

    def integer(self, name: str) -> Term:
        """A constant that is no variable of the spec."""
        return z3.Int(name, self.context)

    def term(self, expr: Expr, values: Mapping[str, Term]) -> Term:
        """The term of an expression, its variables given by name."""
        if isinstance(expr, Const):
            if isinstance(expr.value, bool):
                return z3.BoolVal(expr.value, self.context)
            result: Term = z3.IntVal(expr.value, self.context)
            return self._is_multiple(result) if expr.value == 0 else result
        if isinstance(expr, Var):
            return values[expr.name]
        assert isinstance(expr, App)
        args = [self.term(arg, values) for arg in expr.args]
        key = (expr.op, *(arg.get_id() for arg in args))
        known = self._terms.get(key)
        if known is not None:
            return known
        result = self._apply(expr.op, args)
        self._terms[key] = result
        self._kept += args
        closed = expr.op in (Op.ADD, Op.SUB, Op.MIN, Op.MAX)
        parts = args if closed else args[1:] if expr.op is Op.ITE else []
        if parts and all(part.get_id() in self._aligned for part in parts):
            self._is_multiple(result)
        return result

    def _is_multiple(self, term: Term) -> Term:
        """Note that the term is a multiple of P: it keeps its distance from every floor."""
        if self.page_size is None and term.get_id() not in self._aligned:
            for floor in self._floors.values():
                self._apart(floor, term)
            self._aligned[term.get_id()] = term
        return term

    def _apart(self, first: Term, second: Term) -> None:
        self.side.append(z3.Implies(first < second, first + self.page <= second))
        self.side.append(z3.Implies(second < first, second + self.page <= first))

    def _apply(self, op: Op, args: list[Term]) -> Term:
        a = args[0]
        match op:
            case Op.MIN:
                return z3.If(a <= args[1], a, args[1], self.context)
            case Op.MAX:
                return z3.If(a >= args[1], a, args[1], self.context)
            case Op.FLOOR:
                return self._floor(a)
            case Op.CEIL:
                return self._floor(a + (self.page - 1))
            case Op.ITE:
                return z3.If(*args, self.context)
        return _OPERATORS[op](*args)

    def _floor(self, value: Term) -> Term:
        if self.page_size == 1 or value.get_id() in self._aligned:
            return value
        value = z3.simplify(value)
        known = self._floors.get(value.get_id())
        if known is None:
            self._fresh += 1
            name = f"floor!{self._fresh}"
            if self.page_size is None:
                known = z3.Int(name, self.context)
            else:
                known = self.page_size * z3.Int(name, self.context)
            self._kept.append(value)
            self.side += [known <= value, value < known + self.page]
            self._floors[value.get_id()] = known
            if self.page_size is None:
                for other in self._aligned.values():
                    self._apart(known, other)
                self._aligned[known.get_id()] = known
        return known


def aligned_variables(formulas: Iterable[Expr]) -> frozenset[str]:
    """Variables that the formulas, taken together, say are multiples of the page size."""
    found: set[str] = set()
    todo = list(formulas)
    while todo:
        expr = todo.pop()
        if isinstance(expr, App) and expr.op is Op.AND:
            todo += expr.args
        elif isinstance(expr, App) and expr.op is Op.EQ:
            left, right = expr.args
            if (
                isinstance(left, App)
                and left.op is Op.FLOOR
                and isinstance(right, Var)
                and same(left.args[0], right)
            ):
                found.add(right.name)
    return frozenset(found)
