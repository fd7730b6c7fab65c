"""What the documents say of proofs is so: the needs suffice, and every arrow can be walked."""

from __future__ import annotations

import pytest
import z3

from slotproof_model.proofs import cores
from slotproof_model.proofs.obligations import Task, tasks
from slotproof_model.proofs.prove import Prover
from slotproof_model.proofs.symbolic import Symbols
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, Var
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import LAYERS, Spec, conjuncts
from slotproof_model.text import lifecycle

SOME = ("T-RESTORE", "T-SAVE", "T-REFUSE", "T-INSERT")


@pytest.mark.parametrize("id_", SOME)
def test_needs_suffice(id_: str) -> None:
    """Each invariant is preserved with nothing assumed but what its page lists."""
    needs = cores.load().needs[id_]
    for task in tasks(Spec(), id_):
        if task.layer not in ("counts", *LAYERS):
            continue
        for invariant, need in needs.items():
            goals = tuple(g for g in task.goals if g.clause.partition(".")[0] == invariant)
            listed = {name: expr for name, expr in task.hypotheses.items() if _is(name, need)}
            less = Task(id_, task.layer, listed, task.after, goals)
            for result in Prover([less], cores.CORES_AT).results(less):
                assert result.status == "proved", result.name


def _is(name: str, need: cores.Need) -> bool:
    kind, _, rest = name.partition(".")
    if kind == "guard":
        return rest in need.guard
    return kind in ("environment", "choice") or kind in need.invariants


def test_needs_can_be_too_few() -> None:
    """Without what is listed for it the proof fails: the check above can, too."""
    task = next(task for task in tasks(Spec(), "T-REFUSE") if task.layer == "counts")
    goals = tuple(g for g in task.goals if g.clause.startswith("INV-SUM-FULL"))
    less = Task("T-REFUSE", "counts", {}, task.after, goals)
    assert any(each.status == "refuted" for each in Prover([less], 4).results(less))


def _within(whose: str, name: str) -> Expr:
    """Being in a state of a life, as a formula."""
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
    for whose, here, there, id_ in lifecycle.edges():
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
        solver.add(symbols.term(_within(whose, here), before))
        solver.add(symbols.term(_within(whose, there), after))
        symbols.settle(solver)
        assert solver.check() == z3.sat, (whose, here, there, id_)
