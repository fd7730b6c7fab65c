"""The symbolic reading: the spec as Z3 terms, for one constant page size.

Nothing of a transition is written again here. Every ⌊x⌋ becomes P·q with a
fresh quotient q, 0 ≤ x − P·q < P, instead of ``div``: linear, and fast.
"""

from __future__ import annotations

from collections.abc import Mapping

import z3

from slotproof.model import state
from slotproof.model.expr import App, Const, Expr, Op, Sort, Var

Term = z3.ExprRef


class Symbols:
    """Z3 terms for expressions over named variables, in one context.

    ``side`` collects what defines the quotients; assert it along with the terms.
    """

    def __init__(self, page_size: int, context: z3.Context) -> None:
        self.page_size = page_size
        self.context = context
        self.side: list[z3.BoolRef] = []
        self._cache: dict[int, tuple[Expr, Term]] = {}
        self._floors: dict[int, Term] = {}
        self._fresh = 0

    def var(self, var: Var, suffix: str = "") -> Term:
        """A constant of the variable's sort."""
        name = var.name + suffix
        if var.sort is Sort.BOOL:
            return z3.Bool(name, self.context)
        return z3.Int(name, self.context)

    def term(self, expr: Expr, values: Mapping[str, Term]) -> Term:
        """The term of an expression, its variables given by name."""
        if isinstance(expr, Const):
            if isinstance(expr.value, bool):
                return z3.BoolVal(expr.value, self.context)
            return z3.IntVal(expr.value, self.context)
        if isinstance(expr, Var):
            return values[expr.name]
        assert isinstance(expr, App)
        args = [self.term(arg, values) for arg in expr.args]
        return self._apply(expr.op, args)

    def _apply(self, op: Op, args: list[Term]) -> Term:  # noqa: PLR0911  # one line per operator
        a = args[0]
        match op:
            case Op.ADD:
                return a + args[1]
            case Op.SUB:
                return a - args[1]
            case Op.MIN:
                return z3.If(a <= args[1], a, args[1], self.context)
            case Op.MAX:
                return z3.If(a >= args[1], a, args[1], self.context)
            case Op.FLOOR:
                return self._floor(a)
            case Op.CEIL:
                return self._floor(a + (self.page_size - 1))
            case Op.ITE:
                return z3.If(a, args[1], args[2], self.context)
            case Op.EQ:
                return a == args[1]
            case Op.LE:
                return a <= args[1]
            case Op.LT:
                return a < args[1]
            case Op.AND:
                return z3.And(a, args[1])
            case Op.OR:
                return z3.Or(a, args[1])
            case Op.NOT:
                return z3.Not(a)

    def _floor(self, value: Term) -> Term:
        if self.page_size == 1:
            return value
        value = z3.simplify(value)
        known = self._floors.get(value.get_id())
        if known is None:
            self._fresh += 1
            quotient = z3.Int(f"q!{self._fresh}", self.context)
            known = self.page_size * quotient
            self._floors[value.get_id()] = known
            self.side += [known <= value, value < known + self.page_size]
        return known


def variables() -> tuple[Var, ...]:
    """Everything a state consists of: what changes, the frame, the configuration."""
    return (*state.STATE, *state.FRAME, *state.CONFIG)
