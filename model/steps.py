"""Every step invariant: what must hold across every transition.

They relate a state and the next one (``after``). Proved of the spec, and
evaluated on every step that an engine is seen to take.
"""

from __future__ import annotations

from slotproof.model.invariant import Invariant, Kind, step
from slotproof.model.language import *

ROWS_STEP = step(
    "INV-ROWS-STEP",
    "KV stays in its row: the slot that a turn leaves behind has the turn's.",
    stays=implies(
        after(slot.holding), after(slot_kv.row) == ite(slot.holding, slot_kv.row, turn_kv.row)
    ),
)
ALIGN_STEP = step(
    "INV-ALIGN-STEP",
    "Only whole pages are allocated, freed or moved.",
    full=is_aligned(after(full.available) - full.available),
    swa=is_aligned(after(swa.available) - swa.available),
)
INFLIGHT_STEP = step(
    "INV-INFLIGHT-STEP",
    "Only the turn that is in flight, by ending, clears that; a new one never displaces it.",
    clears=implies(session.inflight & ~after(session.inflight), after(turn.kind) != TURN),
    keeps=implies(session.inflight & after(session.inflight), after(turn.prompt) == turn.prompt),
    defers=implies(~session.closing & after(session.closing), session.inflight),
)
HISTORY = Invariant(
    "INV-HISTORY",
    Kind.STEP,
    "History changes only when a turn finishes; the next prompt is history plus new tokens.",
    {
        "only_at_finish": (after(session.history) == session.history)
        | (session.inflight & ~after(session.inflight) & (after(session.history) >= turn.prompt))
        | ~session.open
        | ~after(session.open)
    },
    {
        "prompt": "a turn's prompt is, token by token, the history and the new tokens",
        "history": "a session's history is, token by token, that of its finished turns",
    },
)

_lives = (turn.kind != NONE) & (after(turn.kind) == turn.kind)
_ends = (turn.kind != NONE) & (after(turn.kind) == NONE)
_partial = slot.holding & (session.history < slot_kv.C)

COVER_STEP = step(
    "INV-COVER-STEP",
    "Known tokens only grow; one is sampled only when all before it have KV, and a turn finishes "
    "only with its prompt prefilled.",
    keeps=implies(_lives, after(turn.output) >= turn.output),
    samples=implies(
        _lives & (after(turn.output) > turn.output),
        after(turn_kv.C) >= after(turn.prompt) + after(turn.output) - 1,
    ),
    finishes=implies(
        _ends & after(session.open) & (after(session.history) > session.history),
        turn.prompt <= turn_kv.C,
    ),
)
QUEUED_STEP = step(
    "INV-QUEUED-STEP",
    "A queued turn that ends leaves memory and its session's slot alone, but for what a retract "
    "left above the history.",
    slot=implies(
        _ends & (turn.phase == WAITING) & ~_partial,
        conj(
            iff(after(slot.holding), slot.holding),
            after(slot_kv.A) == slot_kv.A,
            after(full.available) == full.available,
        ),
    ),
)


def _rise(pool: Pool) -> Expr:
    return after(pool.protected) - pool.protected


def _locked(kv: Kv) -> Expr:
    return ite(after(kv.locked), after(kv.Q), 0)


_locks_after = _locked(slot_kv) + _locked(turn_kv)
_relocks = (turn.phase >= PARKED) & (after(turn.phase) >= PARKED)
"""An insert locks what the window needs of the tree anew."""

LOCK_STEP = step(
    "INV-LOCK-STEP",
    "Protected changes by no more than the locks that are taken or released.",
    rises=_rise(full) <= maximum(0, _locks_after - lock_sum),
    falls=0 - _rise(full) <= maximum(0, lock_sum - _locks_after),
    swa_rises=_rise(swa) <= ite(_relocks, _locks_after, maximum(0, _locks_after - lock_sum)),
    swa_falls=0 - _rise(swa) <= ite(_relocks, lock_sum, maximum(0, lock_sum - _locks_after)),
)


def _grows(pool: Pool) -> Expr:
    return after(pool.evictable) + after(pool.protected) > pool.evictable + pool.protected


PUBLISH_STEP = step(
    "INV-PUBLISH-STEP",
    "When a request ends, its KV goes to the tree only if it was in a batch; a request without a "
    "session must have been running.",
    turn=implies(_ends & (turn.kind == TURN) & _grows(full), turn.phase >= PARKED),
    plain=implies(_ends & (turn.kind == PLAIN) & _grows(full), turn.phase == RUNNING),
)

STEPS: dict[str, Invariant] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Invariant)
}
