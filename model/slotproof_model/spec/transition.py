"""What a transition is: who causes it, guard, memory moves, effect, and what its event says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from slotproof_model.spec import state
from slotproof_model.spec.expr import FALSE, Const, Expr, Operand, Sort, Var, lift, variables
from slotproof_model.spec.memory import Mem, affordable, counts
from slotproof_model.spec.partly import PartialValue, partly

Cause = Literal["a client", "time", "the scheduler", "the tree"]
"""Whoever makes it happen."""
Stage = Literal["session", "queue", "match", "run", "finish", "abort", "retract"]
"""Part of an engine's code that carries it out."""
Course = Literal["every request", "every later turn", "some"]
"""What goes through it where nothing special happens."""


@dataclass(frozen=True)
class Allowance:
    """In states with ``when`` the transition is enabled with ``params``."""

    when: Expr
    params: Mapping[str, Expr] = field(default_factory=dict)
    """By name, without ``param.``: terms over the state and what is given. What is not among
    them is itself given (see :func:`given`)."""
    always: Mapping[str, Expr] = field(default_factory=dict)
    """Parameters for which there is a legal choice wherever the rest of the guard holds: this
    one, a term over the state alone (``T-CLOSE [unlock] / EXISTS.u``)."""


@dataclass(frozen=True)
class Transition:
    """One step of one actor. All of it is data.

    ``guard`` is split into named conjuncts; ``effect`` gives the new value of
    the actor's variables (simultaneously, in terms of the old ones); what
    happens to the pools' figures follows from ``memory``.
    """

    id: str
    sentence: str
    by: Cause
    stage: Stage
    guard: dict[str, Expr]
    params: tuple[Param, ...] = ()
    memory: tuple[Mem, ...] = ()
    effect: dict[str, Expr] = field(default_factory=dict)
    detaches: str | None = None
    """The kind as which a request goes on alone, without the session."""
    source: str = ""
    course: Course = "some"
    needs: str = ""
    """What an engine must have switched on of which the spec knows nothing."""
    means: dict[str, Expr] = field(default_factory=dict)
    """What is true of the states before and after it, by parameter of its event. Other names
    say what the label claims, or what the sentence promises beyond the invariants.

    The author of a driver reads this: what he reports must be true of the engine. That the
    effect agrees is an obligation (``T-CLOSE / MEANS.u``): a parameter that does nothing, or
    something else than it says, is noticed."""
    allows: Allowance = field(default_factory=lambda: Allowance(FALSE))
    """Where the environment may ask for it: an engine that does it then is not to be blamed.

    A guard that is too strict breaks no invariant and raises false alarms. Here the environment
    chooses, and every conjunct of the guard must hold (``T-CLOSE / ALLOWS.u``). Stated from
    the environment's side, so in other words than the guard, wherever there are any."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Its parameters, as an event names them."""
        return tuple(var.name.removeprefix("param.") for var in self.params)

    @cached_property
    def full_guard(self) -> dict[str, Expr]:
        """The guard, and what the memory moves need to be there."""
        return {**self.guard, **affordable(self.memory)}

    @cached_property
    def full_effect(self) -> dict[str, Expr]:
        """The effect, and what the memory moves do to the figures."""
        return {**self.effect, **counts(self.memory)}

    # What follows from guard and effect ---------------------------------------

    def possible(self, known: Mapping[str, PartialValue]) -> bool:
        """Whether the guard may hold where these variables have these values."""
        return all(partly(expr, known) is not False for expr in self.full_guard.values())

    def becomes(self, var: Var) -> PartialValue:
        """The number or truth that the variable becomes, where that is always the same."""
        value = self.effect.get(var.name)
        return value.value if isinstance(value, Const) else None

    @cached_property
    def has_actor(self) -> bool:
        """Whether it is about a session or a request at all, and not about the tree alone."""
        formulas = (*self.full_guard.values(), *self.full_effect.values())
        own = frozenset(var.name for var in state.ACTOR)
        return not own.isdisjoint(self.effect.keys() | set().union(*map(variables, formulas)))

    @cached_property
    def starts(self) -> str:
        """``session``, ``turn`` or ``request`` (one without a session); empty where nothing."""
        if self.becomes(state.session.open):
            return "session"
        kind = self.becomes(state.req.kind)
        return "turn" if kind == state.TURN else "request" if kind == state.PLAIN else ""

    @cached_property
    def choices(self) -> dict[str, bool]:
        """What of the configuration it can't do without."""
        return {
            var.name: not value
            for var in state.CONFIG
            if var.sort is Sort.BOOL
            for value in (False, True)
            if not self.possible({var.name: value})
        }


@dataclass(frozen=True, eq=False, slots=True)
class Param(Var):
    """A parameter: chosen by the client, the scheduler or the tree; the guard says how freely."""

    sentence: str = ""


def param(name: str, sentence: str) -> Param:
    return Param(f"param.{name}", Sort.INT, sentence)


def given(chosen: Param) -> Var:
    """A parameter as the environment chooses it, where it must be allowed."""
    return Var(f"given.{chosen.name.removeprefix('param.')}")


def assign(*pairs: tuple[Var, Operand]) -> dict[str, Expr]:
    return {var.name: lift(value) for var, value in pairs}
