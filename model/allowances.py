"""What the spec must allow: an engine that does this is not to be blamed.

Invariants say what may not happen; a guard that is too strict breaks none of
them and raises false alarms. Here the environment chooses (what others lock,
how much the tree has, what the client asks for), and the transition must be
enabled: under the invariants, ``when`` implies every conjunct of its guard with
these parameters (``T-CLOSE / ALLOWS.u``). Stated from the environment's side,
so in other words than the guard, wherever there are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof.model.language import *


@dataclass(frozen=True)
class Allowance:
    """In states with ``when`` the transition is enabled with ``params``."""

    when: Expr
    params: Mapping[str, Expr] = field(default_factory=dict)
    """By name, without ``param.``: terms over the state and what is given."""


def given(name: str) -> Var:
    """Something that the environment chooses."""
    return Var(f"given.{name}")


_waiting = turn.phase == WAITING
_running = turn.phase == RUNNING

others, swa_others = given("others"), given("swa_others")
"""Tree pages that are locked by others, in tokens: what stays protected after an unlock."""


def _unlock(locked: Expr, kv: Kv) -> tuple[Expr, dict[str, Expr]]:
    """Whatever the others' locks cover, together with mine they cover what is protected."""
    mine = ite(locked, kv.Q, 0)
    their_sum = frame.lock_sum + lock_sum - mine
    possible = conj(
        is_aligned(others),
        frame.lock_max <= others,
        others <= their_sum,
        others <= full.protected,
        full.protected <= others + mine,
    )
    swa_possible = conj(
        is_aligned(swa_others),
        swa_others >= 0,
        swa_others <= their_sum,
        swa_others <= swa.protected,
        swa.protected <= swa_others + mine,
    )
    u = {"u": full.protected - others, "swa_u": swa.protected - swa_others}
    return possible & swa_possible, u


def _unlocking(when: Expr, locked: Expr, kv: Kv, **more: Expr) -> Allowance:
    possible, u = _unlock(locked, kv)
    return Allowance(when & possible, {**u, **more})


n, swa_n = given("n"), given("swa_n")
_short = (n >= 0) & is_aligned(n)
_swa_short = (swa_n >= 0) & is_aligned(swa_n) & (config.swa | (swa_n == 0))

# What the tree has of a prompt, and what of it nobody had locked before.
m, fresh, swa_fresh = given("m"), given("fresh"), given("swa_fresh")
_matched = conj(
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
)

# What goes to the tree, what of it the tree had already.
q, dup, swa_dup = given("q"), given("dup"), given("swa_dup")
_cursor = maximum(turn_kv.Q, turn_kv.E)
_inserted = conj(
    is_aligned(q),
    q >= turn_kv.Q,
    q <= turn_kv.C,
    q <= known,
    is_aligned(dup),
    dup >= 0,
    turn_kv.Q + dup <= q,
    is_aligned(swa_dup),
    swa_dup >= 0,
    (swa_dup == 0) | (_cursor + swa_dup <= turn_kv.Q + dup),
)
_published = {"q": q, "dup": dup, "swa_dup": swa_dup}

_length = minimum(slot_kv.C, known - config.reserve)
_reuse = ite(config.aligned_reuse, floor_page(_length), _length)
_window_alive = (
    (slot_kv.E == 0)
    | ((_reuse >= slot_kv.E) & (_reuse - config.window >= slot_kv.E))
    | (~config.swa & (_reuse >= slot_kv.E))
    | ((_reuse < slot_kv.E) & (floor_page(_reuse) == 0))
)

t, sampled, row = given("t"), given("sampled"), given("row")
d, k, e, F = given("d"), given("k"), given("e"), given("F")


def _room(tokens: Expr) -> Expr:
    """That many tokens are free, in the sliding-window pool as well."""
    return (tokens <= full.available) & (~config.swa | (tokens <= swa.available))


_aborting = _unlocking(is_turn & has_kv, turn_locked, turn_kv)
_relock = given("relock")
"""What of the tree's sliding-window pages the request locks anew after an insert."""

ALLOWED: dict[str, Allowance] = {
    "T-OPEN": Allowance(~session.open & (turn.kind == NONE)),
    "T-CLOSE": _unlocking(
        session.open & ~session.closing & ~session.inflight, slot_kv.locked, slot_kv
    ),
    "T-CLOSE-DEFER": Allowance(session.inflight & ~session.closing),
    "T-REAP": _unlocking(session.open & ~session.inflight, slot_kv.locked, slot_kv),
    "T-SUBMIT": Allowance(
        conj(
            session.open & ~session.closing & ~session.inflight,
            n >= 0,
            (n >= 1) | (session.history >= 1),
        ),
        {"new": n},
    ),
    "T-REJECT": Allowance(
        session.open & (session.inflight | session.closing) & (n >= 0), {"prompt": n}
    ),
    "T-DOOM": Allowance(
        is_turn & _waiting & ~(slot.holding & (session.history < slot_kv.C)) & (n >= 0),
        {"prompt": n},
    ),
    "T-PLAIN-SUBMIT": Allowance((turn.kind == NONE) & ~session.open & (n >= 1), {"prompt": n}),
    "T-MATCH": Allowance(
        _waiting & (is_plain | ~slot.holding) & _matched, {"m": m, "u": fresh, "swa_u": swa_fresh}
    ),
    "T-RESTORE": Allowance(
        is_turn & _waiting & slot.holding & (_reuse >= slot_kv.Q) & _window_alive
    ),
    "T-DISCARD": _unlocking(slot.holding & ~slot.lent, slot_kv.locked, slot_kv),
    "T-REFUSE": _unlocking(turn.phase == MATCHED, turn_kv.locked, turn_kv),
    "T-EXTEND": Allowance(
        conj(
            (turn.phase == MATCHED) | (turn.phase == PARKED),
            t >= turn_kv.C,
            t <= known,
            t <= config.width,
            (sampled == 0) | ((sampled == 1) & (t == known)),
            ite(turn_kv.row == NO_ROW, (row >= 0) & (rows.free >= 1), row == turn_kv.row),
            _room(ceil_page(t) - ceil_page(turn_kv.A)),
        ),
        {"t": t, "sampled": sampled, "row": row},
    ),
    "T-PARK": Allowance(_running & (known > turn_kv.C)),
    "T-INSERT": Allowance(
        conj(
            in_batch & ~slot.lent,
            _inserted,
            is_aligned(fresh),
            fresh >= q - turn_kv.Q - dup,
            fresh <= q - turn_kv.Q,
            fresh <= full.evictable + (q - turn_kv.Q - dup),
            full.protected + fresh >= q,
            is_aligned(_relock) & (_relock >= 0) & (_relock <= turn_kv.Q),
            is_aligned(swa_fresh) & (swa_fresh >= 0) & (swa_fresh <= q),
            swa_fresh <= swa.evictable,
            config.swa | ((_relock == 0) & (swa_fresh == 0)),
            _relock <= swa.protected,
            swa.protected - _relock + swa_fresh <= frame.lock_sum + q,
        ),
        {**_published, "u": fresh, "swa_u": swa_fresh, "swa_x": _relock},
    ),
    "T-DECODE": Allowance(
        conj(
            _running & (known <= turn_kv.C + 1),
            d >= 0,
            k >= 0,
            turn_kv.C + k <= turn_kv.A + d,
            turn_kv.A + d <= config.width,
            _room(ceil_page(turn_kv.A + d) - ceil_page(turn_kv.A)),
        ),
        {"d": d, "k": k},
    ),
    "T-SWA-ADVANCE": Allowance(
        config.swa & in_batch & is_aligned(e) & (e > turn_kv.E) & (e + config.window <= turn_kv.C),
        {"e": e},
    ),
    "T-SAVE": Allowance(
        conj(
            is_turn & _running,
            turn.prompt <= turn_kv.C,
            F >= 0,
            turn.output >= F,
            turn.prompt + F >= turn_kv.Q,
        ),
        {"F": F},
    ),
    "T-ABORT": _aborting,
    "T-ABORT-PUBLISH": _unlocking(
        is_turn & in_batch & config.abort_publishes & _inserted, turn_locked, turn_kv, **_published
    ),
    "T-OOM": _aborting,
    "T-ABORT-WAITING": Allowance(
        is_turn & _waiting & ~(slot.holding & (session.history < slot_kv.C))
    ),
    "T-ABORT-PARTIAL": Allowance(
        conj(
            is_turn & _waiting,
            slot.holding & (session.history < slot_kv.C) & (session.history >= slot_kv.Q),
        )
    ),
    "T-RETRACT": Allowance(is_turn & in_batch & config.retract_keeps),
    "T-RETRACT-WIPE": _unlocking(is_turn & in_batch & ~config.retract_keeps, turn_locked, turn_kv),
    "T-EVICT": Allowance(
        _short & _swa_short & (n <= full.evictable) & (swa_n <= swa.evictable),
        {"n": n, "swa_n": swa_n},
    ),
    "T-PLAIN-FINISH": _unlocking(
        is_plain & _running & _inserted, turn_kv.locked, turn_kv, **_published
    ),
    "T-PLAIN-ABORT": _unlocking(is_plain, turn_kv.locked, turn_kv),
    "T-PLAIN-RETRACT": _unlocking(is_plain & in_batch, turn_kv.locked, turn_kv),
}
