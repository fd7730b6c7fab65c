"""A transition: its cause, guard, memory moves, effect, and the meaning of its event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from slotproof_model.spec import state
from slotproof_model.spec.expr import FALSE, Const, Expr, Operand, Sort, Var, lift, variables
from slotproof_model.spec.memory import Mem, Move, affordable, counts
from slotproof_model.spec.partly import PartialValue, partly

Cause = Literal["a client", "time", "the scheduler", "the tree"]
"""Cause of a transition."""
Stage = Literal["session", "queue", "match", "run", "finish", "abort", "retract"]
"""Part of an engine's code that carries out a transition."""
Course = Literal["every request", "every later turn", "some"]
"""Requests that take the transition in the normal course of events."""


@dataclass(frozen=True)
class Allowance:
    """Claim that the guard is not too strict: wherever ``when`` holds, the guard holds for
    ``params``."""

    when: Expr
    params: Mapping[str, Expr] = field(default_factory=dict)
    """Values of parameters, as terms over the state and ``given`` values. Names lack ``param.``. A
    parameter that is left out is itself a ``given`` value (see :func:`given`)."""
    always: Mapping[str, Expr] = field(default_factory=dict)
    """A legal value of each named parameter, as a term over the state alone. The value is legal
    wherever the other guard conjuncts hold (obligation ``T-CLOSE [unlock] / EXISTS.u``)."""


@dataclass(frozen=True)
class Transition:
    """One step of one actor, as plain data.

    ``guard`` is split into named conjuncts. ``effect`` gives the actor's variables their new
    values, simultaneously and in terms of the old values. Only ``memory`` changes the pools' token
    counts.
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
    """Kind of the request that leaves the session and continues alone."""
    reports: dict[str, Expr] = field(default_factory=dict)
    """Values of some variables in :data:`state.this_step`, in terms of the parameters."""
    source: str = ""
    course: Course = "some"
    needs: str = ""
    """An engine feature that the transition requires, and that the spec does not model."""
    means: dict[str, Expr] = field(default_factory=dict)
    """Meaning of each event parameter, as a formula over the states before and after. Entries that
    name no parameter are claims made by the transition's name or sentence, but by no invariant.

    Written for authors of drivers: the parameters that a driver reports must satisfy the formulas.
    The effect must satisfy the formulas too (obligation ``T-CLOSE / MEANS.u``).
    """
    allows: Allowance = field(default_factory=lambda: Allowance(FALSE))
    """States in which an engine may take the transition, as its environment sees them.

    A guard that is too strict breaks no invariant, but it raises false alarms. Every guard conjunct
    must therefore hold wherever the allowance holds (obligation ``T-CLOSE / ALLOWS.u``). Where
    possible, an allowance uses other terms than the guard.
    """

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, as in an event."""
        return tuple(var.name.removeprefix("param.") for var in self.params)

    @cached_property
    def full_guard(self) -> dict[str, Expr]:
        """The guard, plus the conjuncts required by the memory moves."""
        return {**self.guard, **affordable(self.memory)}

    @cached_property
    def full_effect(self) -> dict[str, Expr]:
        """The effect, plus the new counts of pools and rows after the memory moves."""
        return {**self.effect, **counts(self.memory)}

    @cached_property
    def this_step(self) -> dict[str, Expr]:
        """Values of the variables in :data:`state.this_step`. A missing position is -1."""
        nothing = {var.name: FALSE if var.sort is Sort.BOOL else lift(0) for var in state.this_step}
        given_to_tree = [mem.full.hi for mem in self.memory if mem.move is Move.TO_TREE]
        return {
            **nothing,
            state.this_step.at.name: lift(-1),
            state.this_step.detached.name: lift(self.detaches is not None),
            state.this_step.published.name: given_to_tree[0] if given_to_tree else lift(-1),
            **self.reports,
        }

    # Consequences of guard and effect ------------------------------------------

    def possible(self, known: Mapping[str, PartialValue]) -> bool:
        """Return False if the known values of some variables contradict the guard, else True."""
        return all(partly(expr, known) is not False for expr in self.full_guard.values())

    def becomes(self, var: Var) -> PartialValue:
        """Return the constant that the effect assigns to the variable, else ``None``."""
        value = self.effect.get(var.name)
        return value.value if isinstance(value, Const) else None

    @cached_property
    def has_actor(self) -> bool:
        """True if the transition concerns a session or a request, not only the tree."""
        formulas = (*self.full_guard.values(), *self.full_effect.values())
        own = frozenset(var.name for var in state.ACTOR)
        return not own.isdisjoint(self.effect.keys() | set().union(*map(variables, formulas)))

    @cached_property
    def starts(self) -> str:
        """Thing that the transition starts: ``session``, ``turn``, plain ``request``, or empty."""
        if self.becomes(state.session.open):
            return "session"
        kind = self.becomes(state.req.kind)
        return "turn" if kind == state.TURN else "request" if kind == state.PLAIN else ""

    @cached_property
    def choices(self) -> dict[str, bool]:
        """Configuration flags that the transition requires, by name."""
        return {
            var.name: not value
            for var in state.CONFIG
            if var.sort is Sort.BOOL
            for value in (False, True)
            if not self.possible({var.name: value})
        }


@dataclass(frozen=True, eq=False, slots=True)
class Param(Var):
    """A parameter, chosen by the client, the scheduler or the tree within the guard's limits."""

    sentence: str = ""


def param(name: str, sentence: str) -> Param:
    return Param(f"param.{name}", Sort.INT, sentence)


def given(chosen: Param) -> Var:
    """Return the variable for the value of a parameter that the environment chooses."""
    return Var(f"given.{chosen.name.removeprefix('param.')}")


def assign(*pairs: tuple[Var, Operand]) -> dict[str, Expr]:
    return {var.name: lift(value) for var, value in pairs}
