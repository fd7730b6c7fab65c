"""The whole spec in one object, possibly with an error in it, and its formulas by kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from slotproof_model.spec import lines, pages
from slotproof_model.spec.expr import Expr
from slotproof_model.spec.invariant import Invariant, Kind, about, of_step, pool_of
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

POOLS = ("full", "swa")
ROWS = "rows"
LAYERS = (*POOLS, ROWS)
"""Layers about one arbitrary page of a pool, or about one arbitrary row."""


@dataclass(frozen=True)
class Spec:
    """Subject of the proofs: the spec itself, or a copy of the spec with an error in it."""

    transitions: Mapping[str, Transition] = field(default_factory=lambda: TRANSITIONS)
    invariants: Mapping[str, Invariant] = field(default_factory=lambda: INVARIANTS)
    name: str = "spec"
    unruled: frozenset[str] = frozenset()
    """Rules of :mod:`slotproof_model.spec.pages` that this spec omits: ``unpinned``, or
    ``swa.unpinned`` for one pool."""

    def choices(
        self, transition: Transition, layer: str
    ) -> tuple[dict[str, Expr], dict[str, Expr]]:
        """Return the rules and the effect of a transition on an arbitrary page or row."""
        rows = layer == ROWS
        rules, moved = lines.effect(transition) if rows else pages.effect(transition, layer)
        broken = {name for name in rules if self.unruled & {name, f"{layer}.{name}"}}
        return {name: rule for name, rule in rules.items() if name not in broken}, moved

    @property
    def rewritten(self) -> list[str]:
        """IDs of the transitions that differ from the right transitions."""
        steps = self.transitions.items()
        return [name for name, transition in steps if transition is not TRANSITIONS[name]]

    @property
    def unproved(self) -> list[str]:
        """Transitions that ``slotproof prove`` does not cover: the rewritten transitions, or all
        transitions if this object's invariants differ from the spec's."""
        same = self.invariants is INVARIANTS and not self.unruled
        return self.rewritten if same else list(self.transitions)


def _in_layer(name: str, expr: Expr, layer: str | None) -> bool:
    """Return True if the conjunct is about ``layer``'s page or row (``None``: about neither)."""
    what = about(expr).replace("step", "")
    if layer is None or not what:
        return layer is None and not what
    return what == ("line" if layer == ROWS else "page") and pool_of(name) in (None, layer)


def conjuncts(spec: Spec, kind: Kind, layer: str | None = None) -> dict[str, Expr]:
    """Return a kind's formulas by clause: about ``layer``'s page or row, or about neither."""
    same = spec.invariants is INVARIANTS
    return dict(_of_spec(kind, layer)) if same else _among(spec.invariants, kind, layer)


@cache
def _of_spec(kind: Kind, layer: str | None) -> dict[str, Expr]:
    return _among(INVARIANTS, kind, layer)


def _among(clauses: Mapping[str, Invariant], kind: Kind, layer: str | None) -> dict[str, Expr]:
    result: dict[str, Expr] = {}
    for invariant in clauses.values():
        for name, expr in invariant.conjuncts.items():
            if of_step(expr) == (kind is Kind.STEP) and _in_layer(name, expr, layer):
                result[f"{invariant.id}.{name}"] = expr
    return result
