"""What a transition is: parameters, guard, memory moves, effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from slotproof.model.expr import Expr, Operand, Var, lift
from slotproof.model.memory import Mem, affordable, counts


@dataclass(frozen=True)
class Transition:
    """One step of one actor. All of it is data.

    ``guard`` is split into named conjuncts; ``effect`` gives the new value of
    the actor's variables (simultaneously, in terms of the old ones); what
    happens to the pools' figures follows from ``memory``.
    """

    id: str
    sentence: str
    guard: dict[str, Expr]
    params: tuple[Var, ...] = ()
    memory: tuple[Mem, ...] = ()
    effect: dict[str, Expr] = field(default_factory=dict)
    detaches: str | None = None
    """The kind as which a request goes on alone, without the session."""
    source: str = ""

    @cached_property
    def full_guard(self) -> dict[str, Expr]:
        """The guard, and what the memory moves need to be there."""
        return {**self.guard, **affordable(self.memory)}

    @cached_property
    def full_effect(self) -> dict[str, Expr]:
        """The effect, and what the memory moves do to the figures."""
        return {**self.effect, **counts(self.memory)}


def param(name: str) -> Var:
    """A parameter: chosen by the client, the scheduler or the tree; the guard says how freely."""
    return Var(f"param.{name}")


def assign(*pairs: tuple[Var, Operand]) -> dict[str, Expr]:
    return {var.name: lift(value) for var, value in pairs}
