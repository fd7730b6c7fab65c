"""A spec with something changed: what known bugs, wrong specs and variants are written with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slotproof_model.spec.expr import App, Expr, Operand, Var, ite
from slotproof_model.spec.invariant import Invariant
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.memory import EMPTY, Interval, Mem
from slotproof_model.spec.transition import Transition, assign
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec


@dataclass(frozen=True)
class Wrong:
    """A spec with something wrong, in however many places."""

    name: str
    sentence: str
    by: str
    """What refutes it: ``T-SAVE / INV-LOCK.slot``."""
    spec: Spec
    alone: bool = False
    """Nothing else refutes it, at any page size."""


def changed(*transitions: Transition) -> Spec:
    """The spec with these transitions instead of its own."""
    return Spec(transitions={**TRANSITIONS, **{each.id: each for each in transitions}})


def figure(old: Expr, new: Expr) -> Spec:
    """A figure that the engine computes wrongly, wherever an invariant speaks of it."""
    invariants: Mapping[str, Invariant] = {
        id_: replace(
            each, conjuncts={name: swap(expr, old, new) for name, expr in each.conjuncts.items()}
        )
        for id_, each in INVARIANTS.items()
    }
    return Spec(invariants=invariants)


def swap(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with one node (that very one) replaced."""
    if expr is old:
        return new
    if isinstance(expr, App):
        return App(expr.op, tuple(swap(arg, old, new) for arg in expr.args))
    return expr


def becomes(transition: Transition, *pairs: tuple[Var, Operand]) -> Transition:
    """The effect with other new values for these fields."""
    return replace(transition, effect={**transition.effect, **assign(*pairs)})


def less(transition: Transition, *names: str) -> Transition:
    """The effect without some fields."""
    rest = {key: expr for key, expr in transition.effect.items() if key not in names}
    return replace(transition, effect=rest)


def moving(transition: Transition, *memory: Mem) -> Transition:
    """Other memory moves."""
    return replace(transition, memory=memory)


def guarded(transition: Transition, **conjuncts: Expr) -> Transition:
    """The guard with these conjuncts, instead of those of the same name."""
    return replace(transition, guard={**transition.guard, **conjuncts})


def unguarded(transition: Transition, name: str) -> Transition:
    """The guard without a conjunct."""
    rest = {key: expr for key, expr in transition.guard.items() if key != name}
    return replace(transition, guard=rest)


def only_if(condition: Expr, mem: Mem) -> Mem:
    """A move that forgets everything unless the condition holds."""

    def shrink(span: Interval) -> Interval:
        return span if span is EMPTY else Interval(span.lo, ite(condition, span.hi, span.lo))

    return Mem(mem.move, shrink(mem.full), shrink(mem.swa))
