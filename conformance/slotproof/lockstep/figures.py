"""Values of the terms in a false formula, for the sentence of a violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var, walk
from slotproof_model.text.idioms import words_of
from slotproof_model.text.render import formula, symbol

LONGEST = 60
"""Maximum length of a term that is printed in full, in characters."""
Value: TypeAlias = Callable[[Expr], int]


def figures(
    expr: Expr,
    page: int,
    before: Sequence[int],
    after: Sequence[int] = (),
    said: Mapping[str, int] | None = None,
) -> str:
    """Explain a false formula by the sides of each failed comparison and the values of flags.

    ``after`` is the state after a step. ``said`` has the parameters of an event.

    >>> from slotproof_model.evaluation.layout import INDEX
    >>> from slotproof_model.spec.state import rows, slot
    >>> state = [0] * len(INDEX)
    >>> state[INDEX["rows.total"]], state[INDEX["slot.row"]] = 4, 2
    >>> figures((rows.free == rows.total) & (rows.free >= 0), 1, state)
    'rows.free is 0, rows.total is 4'
    >>> figures(slot.holding | (slot.row < 0), 1, state)
    'slot.holding is 0; slot.row is 2'
    """

    def value(term: Expr) -> int:
        speaks = {node.name for node in walk(term) if isinstance(node, Var)}
        if any(name.startswith("param.") for name in speaks):
            return _of(term, page, "v, p")(before, said or {})
        return _of(term, page, "v, w")(before, after)

    return "; ".join(dict.fromkeys(_false(expr, value)))


def in_a_line(view: Mapping[str, object]) -> str:
    """Return the fields of a slot or a request in one line. A set flag appears as its name. Unset
    flags, unknown values and a missing row are left out.

    >>> in_a_line({"lent": False, "row": -1, "C": 4}), in_a_line({"phase": "running", "lent": True})
    ('C=4', 'running lent')
    """
    words = []
    for name, value in view.items():
        if isinstance(value, bool):
            words += [name] if value else []
        elif name in ("kind", "phase"):
            words.append(str(value))
        elif value is not None and not (name == "row" and value == -1):
            words.append(f"{name}={value}")
    return " ".join(words)


_of = lru_cache(maxsize=4096)(compiled)


def _false(expr: Expr, value: Value) -> Iterator[str]:
    """Yield an explanation for each false part of a formula."""
    if not isinstance(expr, App):
        yield from _flags(expr, value)
        return
    match expr.op:
        case Op.AND:
            for part in expr.args:
                if not value(part):
                    yield from _false(part, value)
        case Op.OR:  # The premise of an implication is true, so only its conclusion is explained.
            told = [part for part in expr.args if getattr(part, "op", None) is not Op.NOT]
            for part in told or expr.args:
                yield from _false(part, value)
        case Op.ITE:
            yield from _false(expr.args[1 if value(expr.args[0]) else 2], value)
        case Op.EQ | Op.LE | Op.LT if expr.args[0].sort is Sort.INT:
            yield ", ".join(_side(side, value) for side in expr.args if not isinstance(side, Const))
        case _:
            yield from _flags(expr, value)


def _side(term: Expr, value: Value) -> str:
    if isinstance(term, Var):
        return next(_flags(term, value))
    text = formula(term)
    if len(text) <= LONGEST:
        return f"{text} is {value(term)}"
    return f"{', '.join(_flags(term, value))} ({value(term)})"


def _flags(expr: Expr, value: Value) -> Iterator[str]:
    """Yield each variable of an expression with its value."""
    named = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    for name in sorted(named):
        number = int(value(named[name]))
        yield f"{symbol(name)} is {words_of(name).get(number, number)}"
