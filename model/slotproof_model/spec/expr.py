"""The expression tree of the spec.

A formula is data, built from a closed set of operators over integer and boolean variables. Formulas
are linear except for ``ceil_page`` and ``floor_page``. Overloaded operators make a transition read
like the formula in a paper. Every reading (evaluate, symbolic, render, mutate) is a visitor over
the expression tree.

>>> x, y = Var("x"), Var("y")
>>> show(maximum(x + 1, y) <= ceil_page(y))
'max(x + 1, y) ≤ ⌈y⌉'
>>> bool(x == y)
Traceback (most recent call last):
    ...
TypeError: an expression has no truth value: use & | ~ and ite() instead of and/or/not/if
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, cast


class Sort(Enum):
    """Sorts (types) of expressions."""

    INT = "int"
    BOOL = "bool"


class Op(Enum):
    """All operators. Code that handles every operator handles every formula of the spec."""

    ADD = "+"
    SUB = "-"
    MIN = "min"
    MAX = "max"
    CEIL = "ceil_page"
    FLOOR = "floor_page"
    ITE = "ite"
    EQ = "="
    LE = "≤"
    LT = "<"
    AND = "∧"
    OR = "∨"
    NOT = "¬"

    @property
    def sort(self) -> Sort | None:
        """Sort of the result. ``None`` if the operands determine the sort."""
        if self in (Op.EQ, Op.LE, Op.LT, Op.AND, Op.OR, Op.NOT):
            return Sort.BOOL
        return None if self is Op.ITE else Sort.INT


class Expr:
    """An immutable term or formula. ``==`` builds a formula. Use :func:`same` to compare terms."""

    __slots__ = ()

    @property
    def sort(self) -> Sort:
        raise TypeError(f"{type(self).__name__} has no sort")

    def __add__(self, other: Operand) -> Expr:
        return App(Op.ADD, (self, lift(other)))

    def __radd__(self, other: Operand) -> Expr:
        return App(Op.ADD, (lift(other), self))

    def __sub__(self, other: Operand) -> Expr:
        return App(Op.SUB, (self, lift(other)))

    def __rsub__(self, other: Operand) -> Expr:
        return App(Op.SUB, (lift(other), self))

    def __le__(self, other: Operand) -> Expr:
        return App(Op.LE, (self, lift(other)))

    def __lt__(self, other: Operand) -> Expr:
        return App(Op.LT, (self, lift(other)))

    def __ge__(self, other: Operand) -> Expr:
        return App(Op.LE, (lift(other), self))

    def __gt__(self, other: Operand) -> Expr:
        return App(Op.LT, (lift(other), self))

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]  # builds a formula
        return App(Op.EQ, (self, lift(cast("Operand", other))))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]  # builds a formula
        return ~(self == other)

    def __and__(self, other: Operand) -> Expr:
        return App(Op.AND, (self, lift(other)))

    def __or__(self, other: Operand) -> Expr:
        return App(Op.OR, (self, lift(other)))

    def __invert__(self) -> Expr:
        return App(Op.NOT, (self,))

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "an expression has no truth value: use & | ~ and ite() instead of and/or/not/if"
        )


Operand: TypeAlias = Expr | int | bool


@dataclass(frozen=True, eq=False, slots=True)
class Const(Expr):
    """A literal."""

    value: int | bool

    @property
    def sort(self) -> Sort:
        return Sort.BOOL if isinstance(self.value, bool) else Sort.INT


@dataclass(frozen=True, eq=False, slots=True)
class Var(Expr):
    """A named variable: of the state, of the configuration, or a parameter."""

    name: str
    of: Sort = Sort.INT

    @property
    def sort(self) -> Sort:
        return self.of


@dataclass(frozen=True, eq=False, slots=True)
class App(Expr):
    """An operator applied to arguments. Sorts are checked on construction."""

    op: Op
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        sorts = [arg.sort for arg in self.args]
        if self.op is Op.ITE:
            good = sorts[0] is Sort.BOOL and sorts[1] is sorts[2]
        elif self.op in (Op.AND, Op.OR, Op.NOT):
            good = all(sort is Sort.BOOL for sort in sorts)
        elif self.op is Op.EQ:
            good = sorts[0] is sorts[1]
        else:
            good = all(sort is Sort.INT for sort in sorts)
        if not good:
            raise TypeError(f"{self.op.value} does not take {[sort.value for sort in sorts]}")

    @property
    def sort(self) -> Sort:
        return self.op.sort or self.args[1].sort


def lift(value: Operand) -> Expr:
    """Return an expression unchanged, and a literal as a constant expression."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, int):
        return Const(value)
    raise TypeError(f"{value!r} is no expression, integer or boolean")


TRUE, FALSE = Const(True), Const(False)


def ite(condition: Operand, then: Operand, other: Operand) -> Expr:
    """Return ``then`` if the condition holds, else ``other``.

    >>> show(ite(Var("lent", Sort.BOOL), 0, Var("A")))
    'ite(lent, 0, A)'
    """
    return App(Op.ITE, (lift(condition), lift(then), lift(other)))


def minimum(first: Operand, second: Operand) -> Expr:
    """Return the smaller value.

    >>> show(minimum(Var("C"), 7))
    'min(C, 7)'
    """
    return App(Op.MIN, (lift(first), lift(second)))


def maximum(first: Operand, second: Operand) -> Expr:
    """Return the larger value.

    >>> show(maximum(Var("Q"), Var("E")))
    'max(Q, E)'
    """
    return App(Op.MAX, (lift(first), lift(second)))


def ceil_page(value: Operand) -> Expr:
    """Return ⌈x⌉: the smallest multiple of the page size that is at least x.

    >>> show(ceil_page(Var("A")) - Var("Q"))
    '⌈A⌉ - Q'
    """
    return App(Op.CEIL, (lift(value),))


def floor_page(value: Operand) -> Expr:
    """Return ⌊x⌋: the largest multiple of the page size that is at most x.

    >>> show(floor_page(Var("C") - 1))
    '⌊C - 1⌋'
    """
    return App(Op.FLOOR, (lift(value),))


def is_aligned(value: Operand) -> Expr:
    """Return the formula: ``value`` is a multiple of the page size.

    >>> show(is_aligned(Var("Q")))
    '⌊Q⌋ = Q'
    """
    return floor_page(value) == value


def implies(premise: Operand, conclusion: Operand) -> Expr:
    """Return the formula: the conclusion holds wherever the premise does.

    >>> show(implies(Var("lent", Sort.BOOL), Var("held") == 0))
    '¬lent ∨ held = 0'
    """
    return ~lift(premise) | lift(conclusion)


def iff(first: Operand, second: Operand) -> Expr:
    """Return the formula: both hold, or neither holds.

    >>> show(iff(Var("inflight", Sort.BOOL), Var("kind") == 1))
    'inflight = (kind = 1)'
    """
    return lift(first) == lift(second)


def conj(*parts: Operand) -> Expr:
    """Return the conjunction of the parts, or the constant true if the list of parts is empty.

    >>> show(conj(Var("Q") >= 0, Var("Q") <= Var("C"))), show(conj())
    ('0 ≤ Q ∧ Q ≤ C', 'true')
    """
    result: Expr = TRUE
    for index, part in enumerate(parts):
        result = lift(part) if index == 0 else result & part
    return result


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all its subexpressions, top down.

    >>> [show(node) for node in walk(Var("C") + 1)]
    ['C + 1', 'C', '1']
    """
    yield expr
    if isinstance(expr, App):
        for arg in expr.args:
            yield from walk(arg)


def variables(expr: Expr) -> frozenset[str]:
    """Return the names of the variables in the expression.

    >>> sorted(variables(Var("C") <= Var("A")))
    ['A', 'C']
    """
    return frozenset(node.name for node in walk(expr) if isinstance(node, Var))


def substitute(expr: Expr, values: dict[str, Expr]) -> Expr:
    """Return the expression with the named variables replaced simultaneously.

    >>> show(substitute(Var("C") <= Var("A"), {"C": Var("A"), "A": lift(9)}))
    'A ≤ 9'
    """
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    if isinstance(expr, App):
        return App(expr.op, tuple(substitute(arg, values) for arg in expr.args))
    return expr


def same(first: Expr, second: Expr) -> bool:
    """Return True if both expressions are structurally equal.

    >>> same(Var("C") + 1, Var("C") + 1), same(Var("C") + 1, 1 + Var("C"))
    (True, False)
    """
    if isinstance(first, Const) and isinstance(second, Const):
        return first.value is second.value or (
            type(first.value) is type(second.value) and first.value == second.value
        )
    if isinstance(first, Var) and isinstance(second, Var):
        return first.name == second.name and first.of is second.of
    if isinstance(first, App) and isinstance(second, App):
        return first.op is second.op and all(map(same, first.args, second.args))
    return False


_LEVEL = {Op.OR: 1, Op.AND: 2, Op.EQ: 4, Op.LE: 4, Op.LT: 4, Op.ADD: 5, Op.SUB: 5}


def show(expr: Expr, level: int = 0) -> str:
    """Return the formula as one line of text.

    >>> show(ceil_page(Var("A")) <= Var("width"))
    '⌈A⌉ ≤ width'
    """
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Const):
        return str(expr.value).lower() if isinstance(expr.value, bool) else str(expr.value)
    assert isinstance(expr, App)
    args = expr.args
    if expr.op is Op.NOT:
        inner = args[0]
        if isinstance(inner, App) and inner.op is Op.NOT:
            return show(inner.args[0], level)
        if isinstance(inner, App) and inner.op is Op.EQ:
            return f"{show(inner.args[0], 5)} ≠ {show(inner.args[1], 5)}"
        return "¬" + show(inner, 6)
    if expr.op is Op.CEIL:
        return f"⌈{show(args[0])}⌉"
    if expr.op is Op.FLOOR:
        return f"⌊{show(args[0])}⌋"
    if expr.op not in _LEVEL:
        return f"{expr.op.value}({', '.join(show(arg) for arg in args)})"
    own = _LEVEL[expr.op]
    left = own + (own == 4)  # a = (b ≤ c), never a = b ≤ c
    right = left + (expr.op is Op.SUB)
    text = f"{show(args[0], left)} {expr.op.value} {show(args[1], right)}"
    return f"({text})" if own < level else text
