"""The others: when one actor moves, the invariants of any other one still hold.

An induction step looks at the actor that moves, with everybody else in its frame.
To another actor the mover is part of *its* frame, and the pools change under it.
Two actors are written out here, the rest is an arbitrary frame of both; what the
mover adds to the frame of the other is in ``state.ONE_MORE``. The environment's
facts about the frame are goals too, so they need not be assumed of later states.
"""

from __future__ import annotations

from collections.abc import Iterator

import z3

from slotproof.model import state
from slotproof.model.expr import variables
from slotproof.model.invariant import Kind
from slotproof.model.invariants import ENVIRONMENT
from slotproof.model.obligations import Result, Spec, Status, conjuncts
from slotproof.model.symbolic import Symbols, Term, aligned_variables
from slotproof.model.transition import Transition

_FRAME = frozenset(var.name for var in state.FRAME)
_SHARED = (*state.POOLS, *state.CONFIG)


def results(spec: Spec, transition: Transition, page_size: int | None) -> Iterator[Result]:
    """One obligation per state conjunct and fact of the environment, about an actor that waits.

    They are tried together first: nearly all hold.
    """
    goals = {
        **conjuncts(spec, Kind.STATE),
        **{f"environment.{name}": expr for name, expr in ENVIRONMENT.items()},
    }
    # What a guard says of the mover's own figures says nothing of the other's.
    chosen = aligned_variables(transition.full_guard.values()) & {v.name for v in transition.params}
    symbols = Symbols(page_size, z3.Context(), aligned_variables(goals.values()) | chosen)
    solver = symbols.solver()

    def holds(values: dict[str, Term]) -> list[Term]:
        return [symbols.term(expr, values) for expr in goals.values()]

    shared = {var.name: symbols.var(var, "all") for var in _SHARED}
    mover = {**shared, **{var.name: symbols.var(var, "mover") for var in state.ACTOR}}
    other = {**shared, **{var.name: symbols.var(var, "other") for var in state.ACTOR}}
    rest = {var.name: z3.Int(f"{var.name}.rest", symbols.context) for var in state.FRAME}

    def frame(of: dict[str, Term]) -> dict[str, Term]:
        """The rest, and one actor more."""
        values = {**of, **rest}
        return {name: symbols.term(expr, values) for name, expr in state.ONE_MORE.items()}

    before = {**mover, **frame(other), **{v.name: symbols.var(v) for v in transition.params}}
    guard = [symbols.term(expr, before) for expr in transition.full_guard.values()]
    solver.add(*holds(before), *guard, *holds({**other, **frame(mover)}))
    alone = {**shared, **rest}
    solver.add(*(symbols.term(ENVIRONMENT[name], alone) for name in ("frame", "locks")))
    after = {
        **before,
        **{name: symbols.term(expr, before) for name, expr in transition.full_effect.items()},
    }
    seen = {**other, **{var.name: after[var.name] for var in state.POOLS}, **frame(after)}
    moved = _FRAME | {var.name for var in state.POOLS if var.name in transition.full_effect}
    terms = {
        clause: symbols.term(expr, seen)
        for clause, expr in goals.items()
        if variables(expr) & moved
    }
    symbols.settle(solver)
    name = f"{transition.id} [others]"
    if solver.check() != z3.sat:
        yield Result(name, "possible", page_size, "unknown")
        return
    # What speaks of nothing that moved was assumed, and stays.
    framed = (each for each in goals if each not in terms)
    yield from (Result(name, each, page_size, "proved", (each,)) for each in framed)
    if solver.check(z3.Not(z3.And(*terms.values()))) == z3.unsat:
        yield from (Result(name, clause, page_size, "proved") for clause in terms)
        return
    for clause, term in terms.items():
        answer = solver.check(z3.Not(term))
        status: Status = "refuted" if answer == z3.sat else "unknown"
        yield Result(name, clause, page_size, "proved" if answer == z3.unsat else status)
