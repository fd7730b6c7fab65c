"""Order of the state's variables in a vector.

A *vector* is one actor's view: pools and rows, the actor, the frame, the configuration. An actor's
*values* are the part of the vector with the actor's own variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotproof_model.spec import state
from slotproof_model.spec.expr import Const, Expr, Var

Vector = list[int]
Values = tuple[int, ...]

LAYOUT: tuple[str, ...] = tuple(var.name for var in state.SEEN)
"""Variables of a vector, in order."""
INDEX: dict[str, int] = {name: index for index, name in enumerate(LAYOUT)}
"""Index of a variable in a vector."""
POOLS = slice(0, len(state.POOLS))
ACTOR = slice(POOLS.stop, len(state.STATE))
OWN: dict[str, int] = {var.name: index for index, var in enumerate(state.ACTOR)}
"""Index of an actor's variable among the actor's values."""


def _part(group: Iterable[Var]) -> slice:
    places = [OWN[var.name] for var in group]
    return slice(places[0], places[-1] + 1)


SESSION = _part(state.session)
SLOT = _part(state.slot)
REQUEST = _part(state.req)
"""Slices of an actor's values: the variables of session, slot and request."""


def _numbers(formulas: Iterable[Expr], totals: Mapping[str, int]) -> Values:
    """Return the values of formulas, each of them a constant or a variable in ``totals``."""
    return tuple(
        totals[formula.name] if isinstance(formula, Var) else int(formula.value)
        for formula in formulas
        if isinstance(formula, (Const, Var))
    )


EMPTY_ACTOR: Values = _numbers((state.INITIAL[var.name] for var in state.ACTOR), {})
"""Values of an actor that does not exist yet, or no longer exists."""


def initial_pools(full: int, swa: int, rows: int) -> Values:
    """Return the initial counts of pools and rows, with all memory free.

    >>> initial_pools(full=64, swa=0, rows=4)
    (64, 64, 0, 0, 0, 0, 0, 0, 4, 4)
    """
    totals = dict(zip((var.name for var in state.TOTALS), (full, swa, rows), strict=True))
    return _numbers((state.INITIAL[var.name] for var in state.POOLS), totals)


def alone(prompt: int) -> Values:
    """Return the values of a detached request.

    >>> alone(9)[OWN["req.prompt"]]
    9
    """
    return _numbers(state.alone(prompt).values(), {})


def by_itself(values: Sequence[int], constants: Sequence[int]) -> Vector:
    """Return the vector of a lone actor, with zero for every count of pools and frame."""
    return [*_NO_POOLS, *values, *NO_FRAME, *constants]


_NO_POOLS, NO_FRAME = (0,) * len(state.POOLS), (0,) * len(state.FRAME)


# The frame -------------------------------------------------------------------

_LONGEST = [var.name for var in state.FRAME].index(state.frame.lock_max.name)


def locks(share: Sequence[int]) -> int:
    """Return the length of the longest prefix that an actor locks, given the actor's share."""
    return share[_LONGEST]


def two_longest(shares: Iterable[Sequence[int]]) -> tuple[int, int]:
    """Return the two greatest lock lengths, counting one lock per actor."""
    first = second = 0
    for share in shares:
        length = share[_LONGEST]
        if length > first:
            first, second = length, first
        elif length > second:
            second = length
    return first, second


def others(total: Sequence[int], longest: tuple[int, int], own: Sequence[int] | None) -> Vector:
    """Return an actor's frame: the sum of other actors' shares, and other actors' longest lock."""
    if own is None:
        frame = list(total)
        frame[_LONGEST] = longest[0]
        return frame
    frame = [both - own for both, own in zip(total, own, strict=True)]
    frame[_LONGEST] = longest[own[_LONGEST] == longest[0]]
    return frame
