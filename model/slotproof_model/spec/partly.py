"""Value of an expression in which only some variables have a value."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from slotproof_model.spec.expr import App, Const, Expr, Op, Var

PartialValue = int | bool | None
"""A value, or ``None`` if unknown."""


def partly(expr: Expr, known: Mapping[str, PartialValue]) -> PartialValue:
    """Return the value of an expression, given the values of some variables.

    >>> from slotproof_model.spec.state import req, slot
    >>> partly(slot.holding & (req.prompt > 0), {"slot.holding": False})
    False
    >>> partly(slot.holding & (req.prompt > 0), {"slot.holding": True}) is None
    True
    """
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Var):
        return known.get(expr.name)
    assert isinstance(expr, App)
    values = [partly(arg, known) for arg in expr.args]
    a, b = values[0], values[-1]
    match expr.op:
        case Op.AND:
            return False if False in (a, b) else None if None in values else True
        case Op.OR:
            return True if True in (a, b) else None if None in values else False
        case Op.ITE:
            if a is None:
                return values[1] if values[1] == values[2] else None
            return values[1] if a else values[2]
    if a is None or b is None:
        return None
    simple: dict[Op, Callable[[int, int], PartialValue]] = {
        Op.NOT: lambda x, _: not x, Op.EQ: operator.eq, Op.LE: operator.le, Op.LT: operator.lt,
        Op.ADD: operator.add, Op.SUB: operator.sub, Op.MIN: min, Op.MAX: max,
    }  # fmt: skip
    return simple[expr.op](a, b) if expr.op in simple else None
