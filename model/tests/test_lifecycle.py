"""Every arrow of a life can be walked."""

from __future__ import annotations

import z3

from slotproof_model.proofs.symbolic import Symbols
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, Var
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts
from slotproof_model.text.lifecycle import lifecycles


def _within(whose: str, name: str) -> Expr:
    """Return a formula for a state of a lifecycle."""
    kind = state.TURN if whose == "turn" else state.PLAIN
    phase = state.req.phase == state.PHASES.get(name, 0)
    session, slot = state.session, state.slot
    return {
        "no slot": ~slot.holding,
        "holding": slot.holding & ~slot.lent,
        "on loan": slot.holding & slot.lent,
        "closed": ~session.open,
        "closing": session.open & session.closing,
        "idle": session.open & ~session.closing & ~session.inflight,
        "in flight": session.open & ~session.closing & session.inflight,
        "absent": phase & (state.req.kind == state.NONE),
    }.get(name, phase & (state.req.kind == kind))


def test_every_arrow_can_be_walked() -> None:
    """Some state within the invariants lies at its tail, and the step leads to its tip."""
    hypotheses = [*conjuncts(Spec(), Kind.STATE).values(), *ENVIRONMENT.values()]
    edges = [
        (whose, source, target, id_)
        for whose, life in lifecycles().items()
        for (source, target), ids in life.moves.items()
        for id_ in ids
    ]
    for whose, source, target, id_ in edges:
        transition = TRANSITIONS[id_]
        symbols = Symbols(4, z3.Context())
        variables: list[Var] = [*state.STATE, *state.FRAME, *state.CONFIG, *transition.params]
        before = {var.name: symbols.var(var) for var in variables}
        after = dict(before)
        for name, expr in transition.full_effect.items():
            after[name] = symbols.term(expr, before)
        solver = symbols.solver()
        solver.add(*(symbols.term(e, before) for e in hypotheses))
        solver.add(*(symbols.term(e, before) for e in transition.full_guard.values()))
        solver.add(symbols.term(_within(whose, source), before))
        solver.add(symbols.term(_within(whose, target), after))
        symbols.settle(solver)
        assert solver.check() == z3.sat, (whose, source, target, id_)
