"""Every step invariant: what must hold across every transition.

They relate a state and the next one (``after``). Proved of the spec, and
evaluated on every step that an engine is seen to take.
"""

from __future__ import annotations

from slotproof_model.spec.allowances import reuse
from slotproof_model.spec.expr import (
    Expr,
    conj,
    floor_page,
    iff,
    implies,
    is_aligned,
    ite,
    maximum,
    minimum,
)
from slotproof_model.spec.invariant import Invariant, Kind, step
from slotproof_model.spec.state import (
    MATCHED,
    NONE,
    PARKED,
    PLAIN,
    RUNNING,
    TURN,
    WAITING,
    Pool,
    actor_has_kv,
    after,
    begun,
    config,
    full,
    has_kv,
    is_plain,
    known,
    lock_sum,
    own,
    req,
    req_has_row,
    session,
    slot,
    swa,
)

_lives = (req.kind != NONE) & (after(req.kind) != NONE)
_ends = (req.kind != NONE) & (after(req.kind) == NONE)
_matched = (req.phase == WAITING) & (after(req.phase) == MATCHED)
_partial = slot.holding & (session.history < slot.C)

_has_kv = after(has_kv)
_stays = actor_has_kv & after(actor_has_kv)
"""The actor's KV, a turn's or a slot's, is there before and after."""
_told = after(req.output) - req.output

ROWS_STEP = step(
    "INV-ROWS-STEP",
    "KV stays in its row: a turn's while it runs, and the slot that it leaves behind has the "
    "turn's.",
    stays=implies(after(slot.holding), after(slot.row) == ite(slot.holding, slot.row, req.row)),
    req=implies(has_kv & _has_kv & req_has_row, after(req.row) == req.row),
)
ALIGN_STEP = step(
    "INV-ALIGN-STEP",
    "Only whole pages are allocated, freed or moved; with aligned reuse what is reused ends at a "
    "page boundary.",
    full=is_aligned(after(full.available) - full.available),
    swa=is_aligned(after(swa.available) - swa.available),
    reuse=implies(_matched & config.aligned_reuse, is_aligned(after(req.C))),
)
INFLIGHT_STEP = step(
    "INV-INFLIGHT-STEP",
    "Only the turn that is in flight, by ending, clears that; a new one never displaces it. A "
    "session ends only when nothing is in flight, and a close that was asked for is not forgotten.",
    clears=implies(session.inflight & ~after(session.inflight), after(req.kind) != TURN),
    keeps=implies(session.inflight & after(session.inflight), after(req.prompt) == req.prompt),
    defers=implies(~session.closing & after(session.closing), session.inflight),
    closes=implies(session.closing & ~session.inflight, ~after(session.inflight)),
    ends=implies(session.open & ~after(session.open), ~session.inflight),
    remembers=implies(session.closing & after(session.open), after(session.closing)),
)
_tells = after(session.open) & (after(session.history) != session.history)

HISTORY = Invariant(
    "INV-HISTORY",
    Kind.STEP,
    "History is empty when a session opens, and changes only where a running turn finishes and "
    "leaves its KV in the slot: to prompt and output of that turn. The next prompt is history plus "
    "new tokens.",
    {
        "sampled": implies(session.open & _tells, after(session.history) <= known),
        "only_at_finish": implies(
            session.open & _tells,
            conj(
                session.inflight & ~after(session.inflight),
                req.phase == RUNNING,
                after(session.history) >= req.prompt,
                after(slot.holding) & ~after(slot.lent),
            ),
        ),
        "begins": implies(~session.open, ~_tells),
    },
    {
        "prompt": "a turn's prompt is, token by token, the history and the new tokens",
        "history": "a session's history is, token by token, that of its finished turns",
    },
)

LIFE_STEP = step(
    "INV-LIFE-STEP",
    "A request waits, is matched, runs, and may be parked or wait again; what it is and its "
    "prompt stay the same.",
    kind=implies(_lives, after(req.kind) == req.kind),
    prompt=implies(_lives & is_plain, after(req.prompt) == req.prompt),
    begins=implies(req.kind == NONE, after(req.phase) <= WAITING),
    matched=implies(after(req.phase) == MATCHED, req.phase <= MATCHED),
    runs=implies(after(req.phase) == RUNNING, has_kv),
    parked=implies(after(req.phase) == PARKED, begun),
)

COVER_STEP = step(
    "INV-COVER-STEP",
    "Known tokens only grow; one is sampled, and a round decodes, only when all before it have KV, "
    "and a turn finishes only with its prompt prefilled. KV counts as computed, and tokens become "
    "known, where a batch runs and nothing else happens: KV of known tokens, of those that the "
    "round tells, of one more under overlap scheduling.",
    keeps=implies(_lives, after(req.output) >= req.output),
    samples=implies(
        _lives & (after(req.output) > req.output),
        after(req.C) >= after(req.prompt) + after(req.output) - 1,
    ),
    decodes=implies(_lives & (req.phase == RUNNING) & (after(req.C) > req.C), known - 1 <= req.C),
    finishes=implies(
        _ends & after(session.open) & (after(session.history) > session.history),
        req.prompt <= req.C,
    ),
    computes=implies(
        _stays & (after(own.C) > own.C),
        (after(req.phase) == RUNNING) & (after(own.E) == own.E) & (after(own.Q) == own.Q),
    ),
    prefills=implies((req.phase != RUNNING) & (after(req.phase) == RUNNING), after(req.C) <= known),
    rounds=implies(
        _lives & (req.phase == RUNNING) & _has_kv,
        (after(req.C) <= req.C + _told) | (config.overlap & (after(req.C) <= known + 1)),
    ),
    tells=implies(
        _lives & (_told > 0),
        conj(
            after(req.phase) == RUNNING,
            (after(own.E) == own.E) & (after(own.Q) == own.Q),
            config.overlap | (req.phase != RUNNING) | (after(own.C) > own.C),
        ),
    ),
)


def _cut_to(upto: Expr) -> Expr:
    """What a cut to that many positions must leave: a cut below the cursor moves down to its page's
    beginning."""
    return minimum(own.C, ite(upto >= own.E, upto, floor_page(upto)))


KEEP_STEP = step(
    "INV-KEEP-STEP",
    "KV that stays is not lost: a restore reuses all that known tokens, reserve and profile allow, "
    "an end cuts no further than to the history, and else C never shrinks. A match or a restore "
    "leaves the reserve to be recomputed. A refused turn still has its slot, if it had one.",
    reserve=implies(_matched, after(req.C) + config.reserve <= known),
    restores=implies(_stays & _matched, after(own.C) >= _cut_to(reuse)),
    ends=implies(_stays & _ends, after(own.C) >= _cut_to(after(session.history))),
    runs=implies(_stays & ~_matched & ~_ends, after(own.C) >= own.C),
    refused=implies(
        has_kv & ~begun & (after(req.phase) == WAITING), iff(after(slot.holding), slot.holding)
    ),
)
CURSOR_STEP = step(
    "INV-CURSOR-STEP",
    "The cursor moves up only while the request runs or is parked, and back only as far as the KV "
    "is cut.",
    up=implies(_stays & (after(own.E) > own.E), begun & (after(req.phase) >= PARKED)),
    back=implies(_stays, after(own.E) >= minimum(own.E, after(own.C))),
)
QUEUED_STEP = step(
    "INV-QUEUED-STEP",
    "A queued turn that ends leaves memory and its session's slot alone, but for what a retract "
    "left above the history.",
    slot=implies(
        _ends & (req.phase == WAITING) & ~_partial,
        conj(
            iff(after(slot.holding), slot.holding),
            after(slot.A) == slot.A,
            after(full.available) == full.available,
        ),
    ),
)


def _rise(pool: Pool) -> Expr:
    return after(pool.protected) - pool.protected


_relocks = (req.phase >= PARKED) & (after(req.phase) >= PARKED)
"""An insert may lock what the window needs anew. Other steps between these phases may not, and
are bounded no better here."""

LOCK_STEP = step(
    "INV-LOCK-STEP",
    "Protected changes by no more than the locks that are taken or released; in the sliding-window "
    "pool so much is protected after a match as its window needs.",
    rises=_rise(full) <= maximum(0, after(lock_sum) - lock_sum),
    falls=0 - _rise(full) <= maximum(0, lock_sum - after(lock_sum)),
    swa_rises=_rise(swa) <= ite(_relocks, after(lock_sum), maximum(0, after(lock_sum) - lock_sum)),
    swa_falls=0 - _rise(swa) <= ite(_relocks, lock_sum, maximum(0, lock_sum - after(lock_sum))),
    window=implies(
        config.swa & _matched & ~slot.holding,
        after(req.Q) - floor_page(maximum(0, after(req.Q) - config.window)) <= after(swa.protected),
    ),
)


def _published(pool: Pool) -> Expr:
    """By how much the tree grows."""
    return after(pool.evictable) + after(pool.protected) - pool.evictable - pool.protected


_valid = floor_page(minimum(own.C, ite(has_kv | session.inflight, known, session.history)))
"""Whole pages of the actor's KV that are committed, for tokens that are known."""

PUBLISH_STEP = step(
    "INV-PUBLISH-STEP",
    "No more goes to the tree than whole pages of committed KV of known tokens. When a request "
    "ends, its KV goes there only if it was running or parked; without a session, only if it was "
    "running.",
    turn=implies(_ends & (req.kind == TURN) & (_published(full) > 0), req.phase >= PARKED),
    plain=implies(_ends & (req.kind == PLAIN) & (_published(full) > 0), req.phase == RUNNING),
    committed=_published(full) <= ite(actor_has_kv, maximum(0, _valid - own.Q), 0),
    swa_committed=_published(swa)
    <= ite(actor_has_kv, maximum(0, _valid - maximum(own.Q, own.E)), 0),
)

STEPS: dict[str, Invariant] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Invariant)
}
