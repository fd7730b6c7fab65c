"""Proofs that could fail: no invariant is a tautology, no guard is empty for a profile.

Every check searches a witness: a state that breaks the conjunct, or a state within the invariants
in which the transition is enabled.
"""

from __future__ import annotations

import z3

from slotproof_model.proofs.obligations import tasks
from slotproof_model.proofs.symbolic import Symbols, Term
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, Var, walk
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.whole import LAYERS, Spec, conjuncts


class _Witness:
    """A solver over all variables of formulas. The environment is assumed."""

    def __init__(self, page_size: int) -> None:
        self.symbols = Symbols(page_size, z3.Context())
        self.solver = self.symbols.solver()
        self.values: dict[str, Term] = {}
        for expr in ENVIRONMENT.values():
            self.solver.add(self.term(expr))

    def term(self, expr: Expr) -> Term:
        for node in walk(expr):
            if isinstance(node, Var) and node.name not in self.values:
                self.values[node.name] = self.symbols.var(node)
        term = self.symbols.term(expr, self.values)
        self.symbols.settle(self.solver)
        return term

    def exists(self, *conditions: Term) -> bool:
        return bool(self.solver.check(*conditions) == z3.sat)


def tautologies(spec: Spec, page_size: int) -> list[str]:
    """Return the clauses that no state or step can break. The list must be empty."""
    witness = _Witness(page_size)
    formulas = {**conjuncts(spec, Kind.STATE), **conjuncts(spec, Kind.STEP)}
    for layer in LAYERS:
        formulas |= conjuncts(spec, Kind.STATE, layer)
    denials = {clause: z3.Not(witness.term(expr)) for clause, expr in formulas.items()}
    return [clause for clause, denial in denials.items() if not witness.exists(denial)]


def impossible(spec: Spec, page_size: int) -> dict[str, list[str]]:
    """Return by profile the transitions that can never be enabled under its choices."""
    never: dict[str, list[str]] = {name: [] for name in PROFILES}
    constants = {var.name: var for var in state.CONFIG}
    for transition in spec.transitions.values():
        counts = next(task for task in tasks(spec, transition.id) if task.layer == "counts")
        witness = _Witness(page_size)
        witness.solver.add(*(witness.term(expr) for expr in counts.hypotheses.values()))
        for name, profile in PROFILES.items():
            chosen = [
                witness.term(constants[f"config.{choice}"]) == value
                for choice, value in profile.choices.items()
                if f"config.{choice}" in constants
            ]
            if not witness.exists(*chosen):
                never[name].append(transition.id)
    return never
