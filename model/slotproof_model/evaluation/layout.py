"""Where the variables of a state stand in a vector, so that nobody else has to count.

A *vector* is what one actor sees: pools and rows, the actor, the frame, the configuration.
An actor's *values* are its part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slotproof_model.spec import state
from slotproof_model.spec.expr import Const, Expr, Var

Vector = list[int]
Values = tuple[int, ...]

LAYOUT: tuple[str, ...] = tuple(var.name for var in state.SEEN)
"""The variables, in their order."""
INDEX: dict[str, int] = {name: index for index, name in enumerate(LAYOUT)}
"""Where each stands in a vector."""
POOLS = slice(0, len(state.POOLS))
ACTOR = slice(POOLS.stop, len(state.STATE))
OWN: dict[str, int] = {var.name: index for index, var in enumerate(state.ACTOR)}
"""Where each of an actor's variables stands among its values."""


def _part(group: Iterable[Var]) -> slice:
    places = [OWN[var.name] for var in group]
    return slice(places[0], places[-1] + 1)


SESSION = _part(state.session)
SLOT = _part(state.slot)
REQUEST = _part(state.req)
"""Parts of an actor's values."""


def _numbers(formulas: Iterable[Expr], totals: Mapping[str, int]) -> Values:
    """The values of constants and totals."""
    return tuple(
        totals[each.name] if isinstance(each, Var) else int(each.value)
        for each in formulas
        if isinstance(each, (Const, Var))
    )


EMPTY_ACTOR: Values = _numbers((state.INITIAL[var.name] for var in state.ACTOR), {})
"""Nobody: what an actor was before it began and is after it ended."""


def initial_pools(full: int, swa: int, rows: int) -> Values:
    """The figures of pools and rows of which everything is free.

    >>> initial_pools(full=64, swa=0, rows=4)
    (64, 64, 0, 0, 0, 0, 0, 0, 4, 4)
    """
    totals = dict(zip((var.name for var in state.TOTALS), (full, swa, rows), strict=True))
    return _numbers((state.INITIAL[var.name] for var in state.POOLS), totals)


def alone(prompt: int) -> Values:
    """The values of a request that goes on alone.

    >>> alone(9)[OWN["req.prompt"]]
    9
    """
    return _numbers(state.alone(prompt).values(), {})


def by_itself(values: Sequence[int], constants: Sequence[int]) -> Vector:
    """A vector in which only the actor and the configuration count."""
    return [*_NO_POOLS, *values, *NO_FRAME, *constants]


_NO_POOLS, NO_FRAME = (0,) * len(state.POOLS), (0,) * len(state.FRAME)


# The frame -------------------------------------------------------------------

_LONGEST = [var.name for var in state.FRAME].index(state.frame.lock_max.name)


def locks(share: Sequence[int]) -> int:
    """Of what an actor adds to the frame of the others: the longest prefix that it locks."""
    return share[_LONGEST]


def two_longest(shares: Iterable[Sequence[int]]) -> tuple[int, int]:
    """The longest locks of two different actors."""
    first = second = 0
    for share in shares:
        length = share[_LONGEST]
        if length > first:
            first, second = length, first
        elif length > second:
            second = length
    return first, second


def others(total: Sequence[int], longest: tuple[int, int], mine: Sequence[int] | None) -> Vector:
    """The frame of an actor: all shares but its own, added up; of locks the longest."""
    if mine is None:
        frame = list(total)
        frame[_LONGEST] = longest[0]
        return frame
    frame = [both - own for both, own in zip(total, mine, strict=True)]
    frame[_LONGEST] = longest[mine[_LONGEST] == longest[0]]
    return frame
