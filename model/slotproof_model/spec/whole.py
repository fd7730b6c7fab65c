"""The whole spec in one object, or one with something wrong in it, and its formulas by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from slotproof_model.spec import lines, pages
from slotproof_model.spec.expr import Expr, variables
from slotproof_model.spec.invariant import Invariant, Kind, about, pool_of
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

POOLS = ("full", "swa")
ROWS = "rows"
LAYERS = (*POOLS, ROWS)
"""Where one arbitrary thing is looked at: a page of a pool, or a row."""


@dataclass(frozen=True)
class Spec:
    """What is proved: the spec itself, or one with something wrong in it."""

    transitions: Mapping[str, Transition] = field(default_factory=lambda: TRANSITIONS)
    invariants: Mapping[str, Invariant] = field(default_factory=lambda: INVARIANTS)
    name: str = "spec"
    unruled: frozenset[str] = frozenset()
    """Rules of the choices that are not kept (``unpinned``, of one pool ``swa.unpinned``): see
    :mod:`slotproof_model.spec.pages`."""

    def choices(
        self, transition: Transition, layer: str
    ) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """What a transition may do to one arbitrary page of a pool, or a row, and does."""
        rows = layer == ROWS
        rules, moved = lines.effect(transition) if rows else pages.effect(transition, layer)
        broken = {name for name in rules if self.unruled & {name, f"{layer}.{name}"}}
        return {name: rule for name, rule in rules.items() if name not in broken}, moved

    @property
    def rewritten(self) -> list[str]:
        """Transitions that are not the spec's."""
        return [name for name, each in self.transitions.items() if each is not TRANSITIONS[name]]

    @property
    def unproved(self) -> list[str]:
        """Transitions about which ``slotproof prove`` says nothing: those rewritten; all of
        them, where invariants are not the spec's."""
        same = self.invariants is INVARIANTS and not self.unruled
        return self.rewritten if same else list(self.transitions)


def _in_layer(name: str, expr: Expr, layer: str | None) -> bool:
    """Whether a conjunct is about what is looked at there; without a layer, about nothing such."""
    what = about(expr)
    if layer is None or not what:
        return layer is None and not what
    return what == ("line" if layer == ROWS else "page") and pool_of(name) in (None, layer)


def conjuncts(spec: Spec, kind: Kind, layer: str | None = None) -> dict[str, Expr]:
    """Formulas of one kind by clause; with a pool or ``rows``, those about a page or row of it."""
    same = spec.invariants is INVARIANTS
    return dict(_of_spec(kind, layer)) if same else _among(spec.invariants, kind, layer)


@cache
def _of_spec(kind: Kind, layer: str | None) -> dict[str, Expr]:
    return _among(INVARIANTS, kind, layer)


def _among(clauses: Mapping[str, Invariant], kind: Kind, layer: str | None) -> dict[str, Expr]:
    result: dict[str, Expr] = {}
    for invariant in clauses.values():
        for name, expr in invariant.conjuncts.items():
            steps = any(each.endswith("'") for each in variables(expr))
            if steps == (kind is Kind.STEP) and _in_layer(name, expr, layer):
                result[f"{invariant.id}.{name}"] = expr
    return result
