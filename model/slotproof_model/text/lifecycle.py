"""Lifecycles of a turn and a slot: the transitions between their states.

The lifecycles are computed from guards and effects, without Z3. Kind, phase and flags are tried in
all combinations that the invariants allow. All other variables are unknown. A transition counts as
possible if its guard could hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product

from slotproof_model.spec import state
from slotproof_model.spec.expr import Sort
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.partly import PartialValue, partly
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts


@dataclass(frozen=True)
class Lifecycle:
    """The states of a turn, a slot, a session or a request, and the moves between them."""

    title: str
    states: tuple[str, ...]
    moves: Mapping[tuple[str, str], tuple[str, ...]]
    """Transitions, by the states before and after."""
    stays: Mapping[str, tuple[str, ...]]
    """Transitions that change variables but not the state."""


_FLAGS = tuple(var for var in state.STATE if var.sort is Sort.BOOL)
_RANGES: dict[str, range] = {"req.kind": range(3), "req.phase": range(5)}


@cache
def _situations() -> tuple[Mapping[str, PartialValue], ...]:
    """Return all combinations of kind, phase and flags allowed by the invariants."""
    names = [*_RANGES, *(var.name for var in _FLAGS)]
    ranges = [*_RANGES.values(), *([(False, True)] * len(_FLAGS))]
    formulas = conjuncts(Spec(), Kind.STATE).values()
    situations = []
    for values in product(*ranges):
        known: dict[str, PartialValue] = dict(zip(names, values, strict=True))
        if all(partly(expr, known) is not False for expr in formulas):
            situations.append(known)
    return tuple(situations)


def _phase(kind: int, known: Mapping[str, PartialValue]) -> str | None:
    if known["req.kind"] not in (state.NONE, kind):
        return None
    return next(name for name, number in state.PHASES.items() if number == known["req.phase"])


def _slot(known: Mapping[str, PartialValue]) -> str:
    if not known["slot.holding"]:
        return "no slot"
    return "on loan" if known["slot.lent"] else "holding"


def _session(known: Mapping[str, PartialValue]) -> str:
    if not known["session.open"]:
        return "closed"
    if known["session.closing"]:
        return "closing"
    return "in flight" if known["session.inflight"] else "idle"


def _lifecycle(
    title: str,
    states: tuple[str, ...],
    prefix: str,
    of: Callable[[Mapping[str, PartialValue]], str | None],
) -> Lifecycle:
    moves: dict[tuple[str, str], dict[str, None]] = {}
    stays: dict[str, dict[str, None]] = {}
    for transition in TRANSITIONS.values():
        writes = any(name.startswith(prefix) for name in transition.effect)
        for before in _situations():
            source = of(before)
            if source is None or not transition.possible(before):
                continue
            changed = {name: partly(expr, before) for name, expr in transition.effect.items()}
            after = {**before, **changed}
            target = of(after)
            if target is None:
                continue
            if target != source:
                moves.setdefault((source, target), {})[transition.id] = None
            elif writes and source != states[0]:
                stays.setdefault(source, {})[transition.id] = None
    return Lifecycle(
        title,
        states,
        {
            (source, target): tuple(moves[source, target])
            for source in states
            for target in states
            if (source, target) in moves
        },
        {source: tuple(stays[source]) for source in states if source in stays},
    )


@cache
def lifecycles() -> Mapping[str, Lifecycle]:
    """Return the lifecycles of a turn, a slot, a session, and a request without a session.

    >>> lifecycles()["slot"].moves["holding", "on loan"]
    ('T-RESTORE',)
    >>> lifecycles()["turn"].stays["running"]
    ('T-INSERT', 'T-DECODE', 'T-LAUNCH', 'T-RESULT', 'T-SWA-ADVANCE')
    """
    phases = tuple(state.PHASES)
    session = ("closed", "idle", "in flight", "closing")
    request = "The life of a request without a session"
    return {
        "turn": _lifecycle("The life of a turn", phases, "req.", partial(_phase, state.TURN)),
        "slot": _lifecycle("The life of a slot", ("no slot", "holding", "on loan"), "slot.", _slot),
        "session": _lifecycle("The life of a session", session, "session.", _session),
        "request": _lifecycle(request, phases, "req.", partial(_phase, state.PLAIN)),
    }
