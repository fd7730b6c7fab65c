"""The row layer: effect of a transition on one arbitrary row of ``req_to_token``.

Take any row, as the page layer takes any page. The row is free, or belongs to this actor's slot or
request, or to another actor. A fact about an arbitrary row holds for all rows. The row that a
request takes is a parameter of the transition, and a rule requires the row to be free.
"""

from __future__ import annotations

from slotproof_model.spec.expr import Expr, implies, ite
from slotproof_model.spec.memory import Move
from slotproof_model.spec.places import later
from slotproof_model.spec.state import has_kv, line, req, slot
from slotproof_model.spec.transition import Transition

ANYWHERE = {"choice.row": line.number >= 0}
"""Assumption about the arbitrary row."""

_mine: Expr = ite(has_kv, req.row, slot.row)


def effect(transition: Transition) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Return the rule for the choice of a row, and the new value of the row's variable."""
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
