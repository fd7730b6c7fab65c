"""What the terms of a formula come to that does not hold: the figures of a violation's sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var, walk
from slotproof_model.text.idioms import words_of
from slotproof_model.text.render import formula, symbol

LONGEST = 60
"""Characters of a term that is written out."""
Value: TypeAlias = Callable[[Expr], int]


def figures(
    expr: Expr,
    page: int,
    before: Sequence[int],
    after: Sequence[int] = (),
    said: Mapping[str, int] | None = None,
) -> str:
    """Why it is false: both sides of each comparison that fails, what it has of flags.

    ``after`` is the state after a step, ``said`` the parameters of an event.

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
    """The figures of a slot or a request. A flag is its name where it is set; what nobody knows is
    not there, nor is a row where there is none.

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
    """The parts of a formula that make it false."""
    if not isinstance(expr, App):
        yield from _flags(expr, value)
        return
    match expr.op:
        case Op.AND:
            for part in expr.args:
                if not value(part):
                    yield from _false(part, value)
        case Op.OR:  # of an implication the conclusion; that the premise holds says less
            told = [part for part in expr.args if getattr(part, "op", None) is not Op.NOT]
            for part in told or expr.args:
                yield from _false(part, value)
        case Op.ITE:
            yield from _false(expr.args[1 if value(expr.args[0]) else 2], value)
        case Op.EQ | Op.LE | Op.LT if expr.args[0].sort is Sort.INT:
            yield ", ".join(_side(each, value) for each in expr.args if not isinstance(each, Const))
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
    """Every variable that occurs, and what it is."""
    named = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    for name in sorted(named):
        found = int(value(named[name]))
        yield f"{symbol(name)} is {words_of(name).get(found, found)}"
