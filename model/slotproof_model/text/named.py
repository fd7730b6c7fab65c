"""Names of terms that occur in many formulas, for the documentation.

Terms are recognised by their structure, so a formula need not contain a term's name. ``state`` and
``transitions`` define the terms. This module only names them.
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
    """Name of letters and digits only, for TLA+."""
    expr: Expr
    sentence: str


_PARTS: tuple[tuple[str, str, str, str], ...] = (
    ("known", "Known", "known", "known tokens of the request: prompt and output"),
    ("answering", "Answering", "answering", "the client was told every known token"),
    ("answered", "Answered", "answered", "the history, if the turn ends now"),
    ("certain", "Certain", "certain", "tokens of prompt and answer known before the last rounds"),
    ("has_kv", "HasKv", "has_kv", "the request is matched, parked or running"),
    ("begun", "Begun", "begun", "the request is running, or parked between two chunks"),
    ("on_loan", "OnLoan", "on_loan", "slot and request describe the same KV"),
    ("locks_tree", "LocksTree", "locks_tree", "the request, or its lent slot, has a tree lock"),
    ("locks_either", "LocksEither", "locks_either", "tokens covered by the lock of locks_tree"),
    ("reusable", "Reusable", "reusable", "length to which a restore cuts the slot's KV"),
    ("held", "Held", "held", "private full-pool tokens of a slot at rest"),
    ("uncached", "Uncached", "uncached", "private full-pool tokens of a request with KV"),
    ("swa_held", "SwaHeld", "swa_held", "private sliding-window tokens of a slot at rest"),
    ("swa_uncached", "SwaUncached", "swa_uncached", "private sliding-window tokens of a request"),
    ("slot_rows", "SlotRows", "slot_rows", "number of the slot's rows"),
    ("req_rows", "ReqRows", "req_rows", "number of the request's rows, without a row on loan"),
    ("lock_sum", "LockSum", "lock_sum", "sum of the prefixes locked by slot and request"),
    ("lock_max", "LockMax", "lock_max", "the longer prefix locked by slot or request"),
    ("actor_has_kv", "ActorHasKv", "actor_has_kv", "the actor has KV: its request, or its slot"),
    ("own.C", "OwnC", "own.C", "C of the actor's KV"),
    ("own.A", "OwnA", "own.A", "A of the actor's KV"),
    ("own.Q", "OwnQ", "own.Q", "Q of the actor's KV: its protected prefix"),
    ("own.E", "OwnE", "own.E", "E of the actor's KV: its SWA cursor"),
    ("pinned", "Pinned", "pinned", "a lock of some actor covers the arbitrary page"),
    ("owns_full", "OwnsFull", "owns_full", "the row owns the arbitrary page, full pool"),
    ("owns_row", "OwnsRow", "owns_row", "number of uses of the arbitrary row by slot and request"),
    ("owns_swa", "OwnsSwa", "owns_swa", "the row owns the arbitrary page, sliding-window pool"),
)  # fmt: skip


@cache
def named() -> tuple[Named, ...]:
    """Return every named term, after the named terms that it uses.

    >>> next(each.sentence for each in named() if each.name == "known")
    'known tokens of the request: prompt and output'
    """
    terms = [
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
        # An older version of the spec may lack the term, or define it in the other module.
        for place in (transitions, state):
            with suppress(AttributeError):
                terms.append(Named(name, symbol, attrgetter(attribute)(place), sentence))
                break
    return tuple(terms)


def key(expr: Expr) -> Hashable:
    """Return a hashable key, equal for structurally equal expressions."""
    if isinstance(expr, Const):
        return (type(expr.value), expr.value)
    if isinstance(expr, Var):
        return expr.name
    assert isinstance(expr, App)
    return (expr.op, *map(key, expr.args))


@cache
def by_structure() -> dict[Hashable, tuple[Named, bool]]:
    """Map a term's structure to (named term, True if the term reads the state after the step)."""
    result: dict[Hashable, tuple[Named, bool]] = {}
    for term in named():
        result[key(term.expr)] = (term, False)
        result[key(state.after(term.expr))] = (term, True)
    return result
