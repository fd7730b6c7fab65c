"""What transitions must allow, in pieces that several share: the environment's side of guards.

What others lock, how much the tree has, what the client asks for: ``given``. Any legal choice
must be possible (:class:`slotproof_model.spec.transition.Allowance`).
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
"""Any number."""

# Locks -------------------------------------------------------------------------

_others, _swa_others = Var("given.others"), Var("given.swa_others")
"""Tree pages that are locked by others, in tokens: what stays protected after an unlock."""


def unlocking(when: Expr, mine: Expr) -> Allowance:
    """Whatever the others' locks cover, together with mine they cover what is protected.

    A legal unlock there is always: of what the others' locks can't cover.
    """
    their_sum = frame.lock_sum + lock_sum - mine
    possible = conj(
        is_aligned(_others),
        frame.lock_max <= _others,
        _others <= their_sum,
        _others <= full.protected,
        full.protected <= _others + mine,
    )
    swa_possible = conj(
        is_aligned(_swa_others),
        _swa_others >= 0,
        _swa_others <= their_sum,
        _swa_others <= swa.protected,
        swa.protected <= _swa_others + mine,
    )
    u = {"u": full.protected - _others, "swa_u": swa.protected - _swa_others}
    least = {
        "u": maximum(0, full.protected - their_sum),
        "swa_u": maximum(0, swa.protected - their_sum),
    }
    return Allowance(when & (possible & swa_possible), u, least)


# Matching ------------------------------------------------------------------------

m, fresh, swa_fresh = Var("given.m"), Var("given.fresh"), Var("given.swa_fresh")
"""What the tree has of a prompt, and what of it nobody had locked before."""
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
"""E ≤ max(0, m - W) after the cut to m, case by case."""

# To the tree -----------------------------------------------------------------------

q, dup, swa_dup = Var("given.q"), Var("given.dup"), Var("given.swa_dup")
"""Up to where the tree has the tokens, what of it it had before."""
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
"""What of the tree's sliding-window pages nobody locks any more after an insert."""


def room(tokens: Expr) -> Expr:
    """That many tokens are free, in the sliding-window pool as well."""
    return (tokens <= full.available) & (~config.swa | (tokens <= swa.available))
