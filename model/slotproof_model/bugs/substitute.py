"""One thing taken for another: what a mutant may put in the place of a variable, or of a part.

A length is taken for its neighbour (C for A, Q for E), the slot's for the request's, one pool's
figure for the other's, a parameter for another of the event; a rounding goes the other way, a
phase is another. A transition has the effect, or the memory moves, of one of the same stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from slotproof_model.spec import state
from slotproof_model.spec.expr import App, Expr, Op, Sort, Var, lift, same, variables
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

_ALL = {var.name: var for var in (*state.STATE, *state.FRAME, *state.CONFIG)}
_NEIGHBOURS: dict[str, tuple[str, ...]] = {
    "C": ("A",),
    "A": ("C",),
    "Q": ("E", "C"),
    "E": ("Q",),
    "prompt": ("output",),
    "output": ("prompt",),
    "available": ("evictable",),
    "evictable": ("protected",),
    "protected": ("evictable",),
    "holding": ("lent",),
    "lent": ("holding",),
    "open": ("inflight",),
    "inflight": ("closing",),
    "closing": ("inflight",),
    "lock_max": ("lock_sum",),
    "lock_sum": ("lock_max",),
}
_COUNTERPARTS = (
    {"slot": "req", "req": "slot", "full": "swa", "swa": "full"},
    {"session.history": "req.prompt", "req.prompt": "session.history"},
    {"param.u": "param.swa_u", "param.swa_u": "param.u", "param.q": "param.dup"},
    {"param.dup": "param.swa_dup", "param.swa_dup": "param.dup", "param.swa_x": "param.swa_u"},
    {"param.d": "param.k", "param.k": "param.d", "param.n": "param.k"},
)


def mistaken(expr: Expr) -> Iterator[Expr]:
    """What may be put in the place of an expression, itself and not what is in it.

    >>> from slotproof_model.spec.expr import show
    >>> [show(each) for each in mistaken(state.slot.C)]
    ['slot.A', 'req.C']
    """
    if isinstance(expr, Var):
        names = dict.fromkeys(_others(expr.name))
        yield from (found for name in names if (found := _named(name, expr.sort)) is not None)
    elif isinstance(expr, App) and expr.op in (Op.CEIL, Op.FLOOR):
        yield App(Op.FLOOR if expr.op is Op.CEIL else Op.CEIL, expr.args)
    elif isinstance(expr, App) and expr.op is Op.EQ and same(expr.args[0], state.req.phase):
        for phase in state.PHASES.values():
            if not same(expr.args[1], lift(phase)):
                yield expr.args[0] == phase


def _others(name: str) -> Iterator[str]:
    group, _, field = name.partition(".")
    for neighbour in _NEIGHBOURS.get(field, ()):
        yield f"{group}.{neighbour}"
    for table in _COUNTERPARTS:
        if name in table:
            yield table[name]
        elif group in table:
            yield f"{table[group]}.{field}"


def _named(name: str, sort: Sort) -> Var | None:
    if name.startswith("param."):
        return Var(name)
    found = _ALL.get(name)
    return found if found is not None and found.sort is sort else None


def sibling_parts(transition: Transition) -> Iterator[tuple[str, str, Transition]]:
    """Which part, whose, and the transition with it."""
    for other in TRANSITIONS.values():
        if other is transition or other.stage != transition.stage:
            continue
        for part in ("effect", "memory"):
            mutated: Transition = replace(transition, **{part: getattr(other, part)})
            if getattr(transition, part) is not getattr(other, part):
                yield part, other.id, mutated


def knows(transition: Transition) -> bool:
    """Whether it has the parameters that it speaks of."""
    formulas = (*transition.full_guard.values(), *transition.full_effect.values())
    spoken = {name for expr in formulas for name in variables(expr) if name.startswith("param.")}
    return spoken <= {var.name for var in transition.params}
