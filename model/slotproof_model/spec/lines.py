"""The row layer: what a transition does to one arbitrary row of ``req_to_token``.

As for pages: take any row. It is free, or this actor's (its slot's or its turn's), or another's,
and nothing else; what is true of an arbitrary row is true of all. Which row an allocation takes
is a parameter of the transition; that the row is free is a rule.
"""

from __future__ import annotations

from slotproof_model.spec.expr import Expr, implies, ite
from slotproof_model.spec.memory import Move
from slotproof_model.spec.places import later
from slotproof_model.spec.state import has_kv, line, req, slot
from slotproof_model.spec.transition import Transition

ANYWHERE = {"choice.row": line.number >= 0}
"""The row may be any."""

_mine: Expr = ite(has_kv, req.row, slot.row)


def effect(transition: Transition) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Rules of the choice, and the new values of the row's variables."""
    free: Expr = line.free
    rules: dict[str, Expr] = {}
    for mem in transition.memory:
        if mem.move is Move.TAKE_ROW:
            takes = (mem.full.length == 1) & (later(req.row, transition.effect) == line.number)
            rules["fresh"] = implies(takes, line.free == 1)
            free = free - ite(takes, 1, 0)
        elif mem.move is Move.GIVE_ROW:
            free = free + ite((mem.full.length == 1) & (_mine == line.number), 1, 0)
    return rules, {line.free.name: free}
