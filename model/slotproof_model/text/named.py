"""Terms that occur in many formulas, and their names: documents say the name instead.

Found by structure, so a formula need not be written with the name. What a state
is made of is in ``state`` and what transitions share in ``transitions``; this
module only names it.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from slotproof_model.spec import state, transitions
from slotproof_model.spec.expr import App, Const, Expr, Var


@dataclass(frozen=True)
class Named:
    """A term with a name."""

    name: str
    symbol: str
    """The name where only letters and digits may stand (TLA+)."""
    expr: Expr
    sentence: str


_PARTS: tuple[tuple[str, str, str, str], ...] = (
    ("known", "Known", "known", "tokens that the request knows"),
    ("has_kv", "HasKv", "has_kv", "the request is matched, parked or running"),
    ("begun", "Begun", "begun", "the request is running, or parked between two chunks"),
    ("on_loan", "OnLoan", "on_loan", "slot and request describe the same KV"),
    ("locks_tree", "LocksTree", "locks_tree", "the request, or its lent slot, has a tree lock"),
    ("locks_either", "LocksEither", "locks_either", "how many tokens that locks"),
    ("reusable", "Reusable", "reusable", "to how much a restore cuts the slot's KV"),
    ("held", "Held", "held", "private tokens of a slot that is not on loan"),
    ("uncached", "Uncached", "uncached", "private tokens of a request that has KV"),
    ("swa_held", "SwaHeld", "swa_held", "the same of the sliding-window pool"),
    ("swa_uncached", "SwaUncached", "swa_uncached", "the same of the sliding-window pool"),
    ("slot_rows", "SlotRows", "slot_rows", "rows of the slot"),
    ("req_rows", "ReqRows", "req_rows", "rows of the request, without one on loan"),
    ("lock_sum", "LockSum", "lock_sum", "prefixes that slot and request lock, added up"),
    ("lock_max", "LockMax", "lock_max", "the longer of them"),
    ("actor_has_kv", "ActorHasKv", "actor_has_kv", "the actor has KV: its request, or its slot"),
    ("own.C", "OwnC", "own.C", "committed of that KV"),
    ("own.A", "OwnA", "own.A", "what of it is allocated"),
    ("own.Q", "OwnQ", "own.Q", "its protected prefix"),
    ("own.E", "OwnE", "own.E", "its cursor"),
    ("pinned", "Pinned", "pinned", "somebody's lock covers the arbitrary page"),
    ("owns_full", "OwnsFull", "owns_full", "the row owns the arbitrary page, full pool"),
    ("owns_row", "OwnsRow", "owns_row", "how often slot and request have the arbitrary row"),
    ("owns_swa", "OwnsSwa", "owns_swa", "the same of the sliding-window pool"),
)  # fmt: skip


@cache
def named() -> tuple[Named, ...]:
    """Every named term, each after those it is made of.

    >>> next(each.sentence for each in named() if each.name == "known")
    'tokens that the request knows'
    """
    found = [
        Named(f"{word}{pool}({who})", f"{who.capitalize()}{symbol}", make(kv), sentence)
        for who, kv in (("slot", state.slot), ("req", state.req))
        for word, pool, symbol, make, sentence in (
            ("private", "", "Private", state.private, f"tokens that the {who}'s row owns"),
            (
                "private",
                "_swa",
                "PrivateSwa",
                state.swa_private,
                f"tokens that the {who}'s row owns in the sliding-window pool",
            ),
            ("locks", "", "Locks", state.locks, f"tokens of the tree that the {who} itself locks"),
        )
    ]
    for name, symbol, attribute, sentence in _PARTS:
        # An older version of the spec may lack it, or have it elsewhere.
        for place in (transitions, state):
            with suppress(AttributeError):
                found.append(Named(name, symbol, attrgetter(attribute)(place), sentence))
                break
    return tuple(found)


def key(expr: Expr) -> Hashable:
    """The structure of an expression: equal for equal structures."""
    if isinstance(expr, Const):
        return (type(expr.value), expr.value)
    if isinstance(expr, Var):
        return expr.name
    assert isinstance(expr, App)
    return (expr.op, *map(key, expr.args))


@cache
def by_structure() -> dict[Hashable, tuple[Named, bool]]:
    """Named terms by structure, and whether of the state after the step."""
    result: dict[Hashable, tuple[Named, bool]] = {}
    for each in named():
        result[key(each.expr)] = (each, False)
        result[key(state.after(each.expr))] = (each, True)
    return result
