"""The symbolic reading: the spec as Z3 terms, for one page size or for all at once.

Terms are built from the expression trees, so no transition is written a second time. Every ⌊x⌋
becomes P·q with a fresh quotient q and 0 ≤ x − P·q < P, which is linear and faster than ``div``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import z3

from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var, same

Term: TypeAlias = Any
"""A Z3 term. z3-solver has no types."""
RLIMIT = 50_000_000
"""Limit of Z3's resource units per check, far above the need of any obligation."""
_OPERATORS: Mapping[Op, Callable[..., Term]] = {
    Op.ADD: operator.add, Op.SUB: operator.sub, Op.EQ: operator.eq, Op.LE: operator.le,
    Op.LT: operator.lt, Op.AND: z3.And, Op.OR: z3.Or, Op.NOT: z3.Not,
}  # fmt: skip


class Symbols:
    """Z3 terms for expressions over named variables, in one context.

    ``side`` collects the definitions of floors. ``settle`` asserts these definitions.

    If ``page_size`` is ``None``, the page size is a symbol P ≥ 1. With a symbolic P, P·q is not
    linear. A floor is therefore a fresh f with f ≤ x < f + P, recorded as a multiple of P. The
    proofs need one fact about multiples: two different multiples differ by at least P.
    ``multiples`` names the variables that are aligned by hypothesis. Sums, minima and conditionals
    of multiples are multiples, so rounding down does not change them.
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
        """Terms already built, by operator and arguments. Formulas share most of their parts."""
        self._kept: list[Term] = []
        """Terms stored so that Z3 does not reuse their ids, which serve as keys."""

    def solver(self, rlimit: int = RLIMIT) -> z3.Solver:
        """Return a solver with a fixed seed, limited by resource units in place of time."""
        made = z3.Solver(ctx=self.context)
        made.set("random_seed", 0)
        made.set("rlimit", rlimit)
        return made

    def settle(self, solver: z3.Solver) -> None:
        """Assert the side conditions of the terms built since the last call."""
        solver.add(*self.side)
        self.side.clear()

    def var(self, var: Var, whose: str = "") -> Term:
        """Return the constant of a parameter, or of a variable before the transition. ``whose``
        names one of several actors.

        Only constants returned by this method may be multiples of P by hypothesis. For a value
        after the transition, alignment must be proved.
        """
        name = f"{var.name}.{whose}" if whose else var.name
        if var.sort is Sort.BOOL:
            return z3.Bool(name, self.context)
        constant = z3.Int(name, self.context)
        return self._is_multiple(constant) if var.name in self.multiples else constant

    def integer(self, name: str) -> Term:
        """Return a constant that does not stand for a variable of the spec."""
        return z3.Int(name, self.context)

    def term(self, expr: Expr, values: Mapping[str, Term]) -> Term:
        """Return the term of an expression, given its variables' terms by name."""
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
        """Record the term as a multiple of P, at least P away from every different multiple."""
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
    """Return the variables that the formulas together require to be multiples of the page size."""
    aligned: set[str] = set()
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
                aligned.add(right.name)
    return frozenset(aligned)
