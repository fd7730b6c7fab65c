"""Other implementations that break nothing: no clause may refute them.

They are wrong as accounts of the spec's transitions, so every variant has its own meaning of events
and its own allowance.
"""

from __future__ import annotations

from dataclasses import replace

from slotproof_model.bugs.museum import changed
from slotproof_model.spec import transitions as t
from slotproof_model.spec.expr import (
    FALSE,
    Expr,
    ceil_page,
    conj,
    floor_page,
    is_aligned,
    ite,
    maximum,
    minimum,
    substitute,
)
from slotproof_model.spec.memory import Interval, Mem, Move, free
from slotproof_model.spec.state import begun, config, is_turn, known, req, session, slot
from slotproof_model.spec.transition import Allowance, Transition, assign, given
from slotproof_model.spec.whole import Spec
from tests.checks.wrong import becomes, guarded


def _otherwise(transition: Transition) -> Spec:
    """Return the spec with another transition, which allows exactly its guard."""
    chosen: dict[str, Expr] = {var.name: given(var) for var in transition.params}
    allowed = (substitute(expr, chosen) for expr in transition.full_guard.values())
    return changed(replace(transition, means={}, allows=Allowance(conj(*allowed))))


_at_history = t.cut(req, session.history)
_without_slack = t.cut(req, minimum(req.C, known))
_whole = ceil_page(t._trimmed.A)
_q_of_slot = (t.q >= slot.Q) & (t.q <= floor_page(slot.C)) & is_aligned(t.q)

VARIANTS: dict[str, Spec] = {
    # An abort cuts the slot back to the history instead of removing it.
    "abort-keeps-slot": _otherwise(
        replace(
            t.T_ABORT,
            params=(),
            guard={"turn": is_turn & begun & slot.lent, "possible": session.history >= req.Q},
            memory=(_at_history.memory,),
            effect={
                **t.cut_lengths(slot, _at_history),
                **assign((slot.lent, FALSE)),
                **t.turn_over,
            },
        )
    ),
    # An abort gives the slot back as it was lent, and frees what the turn added.
    "abort-gives-back": _otherwise(
        replace(
            t.T_ABORT,
            params=(),
            guard={
                "turn": is_turn & begun & slot.lent,
                "possible": (session.history >= slot.C) & (req.Q == slot.Q) & (req.E == slot.E),
            },
            memory=(free(req, ceil_page(slot.A), ceil_page(req.A)),),
            effect={**assign((slot.lent, FALSE)), **t.turn_over},
        )
    ),
    # Memory pressure gives an idle slot's KV to the tree.
    "discard-publishes": _otherwise(
        replace(
            t.T_DISCARD,
            params=(t.q, *t.UNLOCK),
            guard={
                **t.T_DISCARD.guard,
                "idle": ~session.inflight,
                "q": _q_of_slot,
                "cursor": slot.E <= slot.Q,
            },
            memory=(
                Mem(Move.TO_TREE, Interval(slot.Q, t.q), Interval(slot.Q, t.q)),
                free(slot, t.q, ceil_page(slot.A)),
                *t.T_DISCARD.memory[1:],
            ),
        )
    ),
    # A retract that preserves KV frees the memory past C.
    "retract-frees-slack": _otherwise(
        replace(
            t.T_RETRACT,
            memory=(_without_slack.memory,),
            effect={**t.T_RETRACT.effect, **t.cut_lengths(slot, _without_slack)},
        )
    ),
    # An engine that tracks blocks: A of a saved slot is a multiple of the page size.
    "save-whole-pages": _otherwise(
        guarded(becomes(t.T_SAVE, (slot.A, _whole)), width=_whole <= config.width)
    ),
    # A match sets the cursor where the window begins.
    "match-moves-cursor": _otherwise(
        becomes(t.T_MATCH, (req.E, ite(config.swa, floor_page(maximum(0, t.m - config.window)), 0)))
    ),
}
