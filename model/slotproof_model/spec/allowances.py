"""Conditions shared by the allowances of several transitions, in terms of the environment.

Other actors' locks, the tree's content and client input are ``given`` variables. The guard must
hold for every legal value of these variables (:class:`slotproof_model.spec.transition.Allowance`).
"""

from __future__ import annotations

from slotproof_model.spec.expr import Expr, Var, conj, floor_page, is_aligned, ite, maximum, minimum
from slotproof_model.spec.state import (
    WAITING,
    config,
    frame,
    full,
    known,
    lock_sum,
    req,
    session,
    slot,
    swa,
)
from slotproof_model.spec.transition import Allowance

waiting = req.phase == WAITING
partial_slot = slot.holding & (session.history < slot.C)
some = Var("given.n")
"""Number chosen by the environment."""

# Locks -------------------------------------------------------------------------

_others, _swa_others = Var("given.others"), Var("given.swa_others")
"""Number of tree tokens locked by other actors. An unlock leaves these tokens protected."""


def unlocking(when: Expr, locked: Expr) -> Allowance:
    """Return the allowance for unlocking ``locked`` tokens, whatever legal locks other actors hold.

    A legal ``u`` always exists: the number of protected tokens less the sum of all other locks.
    """
    their_sum = frame.lock_sum + lock_sum - locked
    possible = conj(
        is_aligned(_others),
        frame.lock_max <= _others,
        _others <= their_sum,
        _others <= full.protected,
        full.protected <= _others + locked,
    )
    swa_possible = conj(
        is_aligned(_swa_others),
        _swa_others >= 0,
        _swa_others <= their_sum,
        _swa_others <= swa.protected,
        swa.protected <= _swa_others + locked,
    )
    u = {"u": full.protected - _others, "swa_u": swa.protected - _swa_others}
    least = {
        "u": maximum(0, full.protected - their_sum),
        "swa_u": maximum(0, swa.protected - their_sum),
    }
    return Allowance(when & (possible & swa_possible), u, least)


# Matching ------------------------------------------------------------------------

m, fresh, swa_fresh = Var("given.m"), Var("given.fresh"), Var("given.swa_fresh")
"""Length of the prompt's prefix in the tree, and number of its unlocked tokens per pool."""
legal_match = conj(
    is_aligned(m),
    m >= 0,
    m + config.reserve <= known,
    m <= config.width,
    is_aligned(fresh),
    fresh >= 0,
    fresh <= m,
    fresh <= full.evictable,
    m - fresh <= full.protected,
    is_aligned(swa_fresh),
    swa_fresh >= 0,
    swa_fresh <= m,
    swa_fresh <= swa.evictable,
    ~config.swa
    | (m <= swa.protected + swa_fresh)
    | ((config.window <= m) & (m - floor_page(m - config.window) <= swa.protected + swa_fresh)),
)

_length = minimum(slot.C, known - config.reserve)
reuse = ite(config.aligned_reuse, floor_page(_length), _length)
window_alive = (
    (slot.E == 0)
    | ((reuse >= slot.E) & (reuse - config.window >= slot.E))
    | (~config.swa & (reuse >= slot.E))
    | ((reuse < slot.E) & (floor_page(reuse) == 0))
)
"""The condition E ≤ max(0, m - W) after a cut to m, case by case."""

# To the tree -----------------------------------------------------------------------

q, dup, swa_dup = Var("given.q"), Var("given.dup"), Var("given.swa_dup")
"""End of the published prefix, and the tokens of each pool that the tree already holds."""
_cursor = maximum(req.Q, req.E)
legal_insert = conj(
    is_aligned(q),
    q >= req.Q,
    q <= req.C,
    q <= known,
    is_aligned(dup),
    dup >= 0,
    req.Q + dup <= q,
    is_aligned(swa_dup),
    swa_dup >= 0,
    (swa_dup == 0) | (_cursor + swa_dup <= req.Q + dup),
)
swa_unlocked = Var("given.swa_unlocked")
"""Tokens of the tree's sliding-window pages whose last lock an insert drops."""


def room(tokens: Expr) -> Expr:
    """Return the formula: each pool has at least this number of free tokens."""
    return (tokens <= full.available) & (~config.swa | (tokens <= swa.available))


GIVEN: dict[str, str] = {
    "n": "a number of tokens",
    "m": "tokens of the prompt that the tree holds",
    "fresh": "full-pool tokens of the matched prefix that have no lock yet",
    "swa_fresh": "sliding-window tokens of the matched prefix that have no lock yet",
    "others": "full-pool tokens of the tree that other actors' locks cover",
    "swa_others": "sliding-window tokens of the tree that other actors' locks cover",
    "swa_unlocked": "sliding-window tokens of the tree that lose their last lock",
}
"""Choices of the environment that are not parameters of a transition."""
