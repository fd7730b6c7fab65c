"""Conversion of expression trees to the form in which a person would write a formula.

⌊x⌋ = x becomes "P divides x", ¬a ∨ b an implication, a ≤ b ∧ b ≤ c one chain. Kinds, phases and
shared terms appear by name. Text and TLA+ are rendered from ``Form`` objects.
"""

from __future__ import annotations

from dataclasses import dataclass

from slotproof_model.spec import state
from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var
from slotproof_model.text.named import Named, by_structure, key


@dataclass(frozen=True)
class Form:
    """A node of a formula: a shape and its parts."""

    shape: str
    """variable, number, truth, word, named, min, max, ceil, floor, cut, if, sum, implies, iff, not,
    and, or, chain, equal, different, aligned."""
    parts: tuple[Form, ...] = ()
    text: str = ""
    """Name, number or word. For a chain or a sum: the signs, one character each."""
    named: Named | None = None
    after: bool = False
    """True for the value after the step, of a variable or named term."""


KINDS = {state.NONE: "none", state.TURN: "turn", state.PLAIN: "plain"}
PHASES = {number: name for name, number in state.PHASES.items()}
ROWS = {state.NO_ROW: "no_row"}


def words_of(name: str) -> dict[int, str]:
    """Return the names of the numbers that a variable can have, if they have names.

    >>> words_of("req.phase'")[4]
    'running'
    """
    name = name.rstrip("'")
    return {"req.kind": KINDS, "req.phase": PHASES, "slot.row": ROWS, "req.row": ROWS}.get(name, {})


def form(expr: Expr, words: dict[int, str] | None = None, name_it: bool = True) -> Form:
    """Return the expression in the form in which a person would write it.

    ``words`` gives names to numbers. With ``name_it`` false, a named term is written out.
    """
    words = words or {}
    if isinstance(expr, Const):
        return _literal(expr, words)
    if isinstance(expr, Var):
        return Form("variable", text=expr.name.rstrip("'"), after=expr.name.endswith("'"))
    assert isinstance(expr, App)
    known = by_structure().get(key(expr)) if name_it else None
    if known:
        return Form("named", text=known[0].name, named=known[0], after=known[1])
    match expr.op:
        case Op.MIN | Op.MAX | Op.CEIL | Op.FLOOR:
            shape = {Op.MIN: "min", Op.MAX: "max", Op.CEIL: "ceil", Op.FLOOR: "floor"}[expr.op]
            return Form(shape, tuple(map(form, expr.args)))
        case Op.ADD | Op.SUB:
            return _sum(expr)
        case Op.ITE:
            cut = _cut(expr)
            test, then, other = expr.args
            if isinstance(test, Const):
                return form(then if test.value else other, words)
            return cut or Form("if", (form(test), form(then, words), form(other, words)))
        case Op.NOT:
            return _negation(expr.args[0])
        case Op.AND:
            return _conjunction([form(part) for part in _flat(expr, Op.AND)])
        case Op.OR:
            first, second = expr.args
            if isinstance(first, App) and first.op is Op.NOT:
                return Form("implies", (form(first.args[0]), form(second)))
            return Form("or", tuple(form(part) for part in _flat(expr, Op.OR)))
        case Op.EQ | Op.LE | Op.LT:
            return _comparison(expr)


def _literal(expr: Const, words: dict[int, str]) -> Form:
    if isinstance(expr.value, bool):
        return Form("truth", text=str(expr.value).lower())
    if expr.value in words:
        return Form("word", text=words[expr.value])
    return Form("number", text=str(expr.value))


def _flat(expr: Expr, op: Op) -> list[Expr]:
    """Return the parts of a conjunction or disjunction. Named terms are not split."""
    if isinstance(expr, App) and expr.op is op:
        first, *rest = expr.args
        if key(first) in by_structure():
            return [first, *rest]
        return [*_flat(first, op), *(part for arg in rest for part in _inner(arg, op))]
    return [expr]


def _inner(expr: Expr, op: Op) -> list[Expr]:
    return [expr] if key(expr) in by_structure() else _flat(expr, op)


def _sum(expr: App) -> Form:
    """Return nested sums and differences as one flat sum."""
    parts: list[Form] = []
    signs = ""
    node: Expr = expr
    while (
        isinstance(node, App)
        and node.op in (Op.ADD, Op.SUB)
        and (node is expr or key(node) not in by_structure())
    ):
        last = form(node.args[1])
        if last.text == "0" and last.shape == "number":
            pass
        elif node.op is Op.ADD and last.shape == "sum" and last.text[0] == "+":
            parts[:0], signs = last.parts, last.text + signs
        else:
            parts.insert(0, last)
            signs = ("+" if node.op is Op.ADD else "-") + signs
        node = node.args[0]
    first = form(node)
    if not parts:
        return first
    if first.shape == "number" and first.text == "0":
        return Form("sum", tuple(parts), signs)
    return Form("sum", (first, *parts), "+" + signs)


def _cut(expr: App) -> Form | None:
    """Return ite(E ≤ n, n, ⌊n⌋) as cut(n, E): the rule behind free_tail and trim."""
    test, then, other = expr.args
    if (
        isinstance(test, App)
        and test.op is Op.LE
        and isinstance(other, App)
        and other.op is Op.FLOOR
        and key(other.args[0]) == key(then) == key(test.args[1])
    ):
        return Form("cut", (form(then), form(test.args[0])))
    return None


def _negation(inner: Expr) -> Form:
    if isinstance(inner, App) and key(inner) not in by_structure():
        if inner.op is Op.NOT:
            return form(inner.args[0])
        if inner.op is Op.EQ and inner.args[0].sort is Sort.INT:
            return Form("different", _comparison(inner).parts)
        if inner.op in (Op.LE, Op.LT):
            turned = Op.LT if inner.op is Op.LE else Op.LE
            return _comparison(App(turned, (inner.args[1], inner.args[0])))
    return Form("not", (form(inner),))


def _comparison(expr: App) -> Form:
    left, right = expr.args
    if expr.op is Op.EQ and left.sort is Sort.BOOL:
        return Form("iff", (form(left), form(right)))
    if (
        expr.op is Op.EQ
        and isinstance(left, App)
        and left.op is Op.FLOOR
        and key(left.args[0]) == key(right)
    ):
        return Form("aligned", (form(right),))
    words = _words(left) or _words(right)
    sides = (form(left, words), form(right, words))
    if expr.op is Op.EQ:
        return Form("equal", sides)
    return Form("chain", sides, "≤" if expr.op is Op.LE else "<")


def _words(expr: Expr) -> dict[int, str]:
    return words_of(expr.name) if isinstance(expr, Var) else {}


def _conjunction(parts: list[Form]) -> Form:
    """Merge comparisons into chains, and merge equations with the same number: a = b = 0."""
    merged: list[Form] = []
    for part in parts:
        for index, earlier in enumerate(merged):
            joined = _joined(earlier, part)
            if joined:
                merged[index] = joined
                break
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else Form("and", tuple(merged))


def _joined(first: Form, second: Form) -> Form | None:
    if first.shape == second.shape == "chain" and first.parts[-1] == second.parts[0]:
        return Form("chain", first.parts + second.parts[1:], first.text + second.text)
    if (
        first.shape == second.shape == "equal"
        and first.parts[-1] == second.parts[-1]
        and first.parts[-1].shape in ("number", "word")
        and all(part.shape == "variable" for part in first.parts[:-1] + second.parts[:-1])
    ):
        return Form("equal", (*first.parts[:-1], *second.parts))
    return None
