"""Every step invariant: what must hold across every transition.

They relate a state and the next one (``after``). Proved of the spec, and
evaluated on every step that an engine is seen to take.
"""

from __future__ import annotations

from collections.abc import Callable

from slotproof.model.allowances import reuse
from slotproof.model.invariant import Invariant, Kind, step
from slotproof.model.language import *

_lives = (turn.kind != NONE) & (after(turn.kind) != NONE)
_ends = (turn.kind != NONE) & (after(turn.kind) == NONE)
_matched = (turn.phase == WAITING) & (after(turn.phase) == MATCHED)
_partial = slot.holding & (session.history < slot_kv.C)

_had = has_kv | slot.holding
_has_kv = after(turn.phase) >= MATCHED
_has = _has_kv | after(slot.holding)
_stays = _had & _has
"""The actor's KV, a turn's or a slot's, is there before and after."""


def _kv(of: Callable[[Kv], Var]) -> tuple[Expr, Expr]:
    """A length of the actor's KV, before and after: the turn's, or that of the slot at rest."""
    return (
        ite(has_kv, of(turn_kv), of(slot_kv)),
        ite(_has_kv, after(of(turn_kv)), after(of(slot_kv))),
    )


_C, _C_after = _kv(lambda kv: kv.C)
_Q, _Q_after = _kv(lambda kv: kv.Q)
_E, _E_after = _kv(lambda kv: kv.E)
_told = after(turn.output) - turn.output

ROWS_STEP = step(
    "INV-ROWS-STEP",
    "KV stays in its row: a turn's while it runs, and the slot that it leaves behind has the "
    "turn's.",
    stays=implies(
        after(slot.holding), after(slot_kv.row) == ite(slot.holding, slot_kv.row, turn_kv.row)
    ),
    turn=implies(has_kv & _has_kv & turn_row, after(turn_kv.row) == turn_kv.row),
)
ALIGN_STEP = step(
    "INV-ALIGN-STEP",
    "Only whole pages are allocated, freed or moved; with aligned reuse what is reused ends at a "
    "page boundary.",
    full=is_aligned(after(full.available) - full.available),
    swa=is_aligned(after(swa.available) - swa.available),
    reuse=implies(_matched & config.aligned_reuse, is_aligned(after(turn_kv.C))),
)
INFLIGHT_STEP = step(
    "INV-INFLIGHT-STEP",
    "Only the turn that is in flight, by ending, clears that; a new one never displaces it. A "
    "session ends only when nothing is in flight, and a close that was asked for is not forgotten.",
    clears=implies(session.inflight & ~after(session.inflight), after(turn.kind) != TURN),
    keeps=implies(session.inflight & after(session.inflight), after(turn.prompt) == turn.prompt),
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
                turn.phase == RUNNING,
                after(session.history) >= turn.prompt,
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
    kind=implies(_lives, after(turn.kind) == turn.kind),
    prompt=implies(_lives & is_plain, after(turn.prompt) == turn.prompt),
    begins=implies(turn.kind == NONE, after(turn.phase) <= WAITING),
    matched=implies(after(turn.phase) == MATCHED, turn.phase <= MATCHED),
    runs=implies(after(turn.phase) == RUNNING, has_kv),
    parked=implies(after(turn.phase) == PARKED, in_batch),
)

COVER_STEP = step(
    "INV-COVER-STEP",
    "Known tokens only grow; one is sampled, and a round decodes, only when all before it have KV, "
    "and a turn finishes only with its prompt prefilled. KV counts as computed, and tokens become "
    "known, where a batch runs and nothing else happens: KV of known tokens, of those that the "
    "round tells, of one more under overlap scheduling.",
    keeps=implies(_lives, after(turn.output) >= turn.output),
    samples=implies(
        _lives & (after(turn.output) > turn.output),
        after(turn_kv.C) >= after(turn.prompt) + after(turn.output) - 1,
    ),
    decodes=implies(
        _lives & (turn.phase == RUNNING) & (after(turn_kv.C) > turn_kv.C), known - 1 <= turn_kv.C
    ),
    finishes=implies(
        _ends & after(session.open) & (after(session.history) > session.history),
        turn.prompt <= turn_kv.C,
    ),
    computes=implies(
        _stays & (_C_after > _C),
        (after(turn.phase) == RUNNING) & (_E_after == _E) & (_Q_after == _Q),
    ),
    prefills=implies(
        (turn.phase != RUNNING) & (after(turn.phase) == RUNNING), after(turn_kv.C) <= known
    ),
    rounds=implies(
        _lives & (turn.phase == RUNNING) & _has_kv,
        (after(turn_kv.C) <= turn_kv.C + _told)
        | (config.overlap & (after(turn_kv.C) <= known + 1)),
    ),
    tells=implies(
        _lives & (_told > 0),
        conj(
            after(turn.phase) == RUNNING,
            (_E_after == _E) & (_Q_after == _Q),
            config.overlap | (turn.phase != RUNNING) | (_C_after > _C),
        ),
    ),
)


def _cut_to(upto: Expr) -> Expr:
    """What a cut to that many positions must leave: a cut below the cursor moves down a page."""
    return minimum(_C, ite(upto >= _E, upto, floor_page(upto)))


KEEP_STEP = step(
    "INV-KEEP-STEP",
    "Nothing computed is lost: a restore reuses all that the prompt, the reserve for the logits "
    "and the profile allow, but not what the reserve recomputes; the end of a turn cuts to the "
    "history, and in between KV only grows. A turn that is refused leaves its slot.",
    reserve=implies(_matched, after(turn_kv.C) + config.reserve <= known),
    restores=implies(_stays & _matched, _C_after >= _cut_to(reuse)),
    ends=implies(_stays & _ends, _C_after >= _cut_to(after(session.history))),
    runs=implies(_stays & ~_matched & ~_ends, _C_after >= _C),
    refused=implies(
        has_kv & ~in_batch & (after(turn.phase) == WAITING), iff(after(slot.holding), slot.holding)
    ),
)
CURSOR_STEP = step(
    "INV-CURSOR-STEP",
    "The cursor moves up in a batch only, and back only as far as the KV is cut.",
    up=implies(_stays & (_E_after > _E), in_batch & (after(turn.phase) >= PARKED)),
    back=implies(_stays, _E_after >= minimum(_E, _C_after)),
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
    "Protected changes by no more than the locks that are taken or released; what is matched in "
    "the tree is locked, in the sliding-window pool as far as its window reaches.",
    rises=_rise(full) <= maximum(0, _locks_after - lock_sum),
    falls=0 - _rise(full) <= maximum(0, lock_sum - _locks_after),
    swa_rises=_rise(swa) <= ite(_relocks, _locks_after, maximum(0, _locks_after - lock_sum)),
    swa_falls=0 - _rise(swa) <= ite(_relocks, lock_sum, maximum(0, lock_sum - _locks_after)),
    window=implies(
        config.swa & _matched & ~slot.holding,
        after(turn_kv.Q) - floor_page(maximum(0, after(turn_kv.Q) - config.window))
        <= after(swa.protected),
    ),
)


def _published(pool: Pool) -> Expr:
    """By how much the tree grows."""
    return after(pool.evictable) + after(pool.protected) - pool.evictable - pool.protected


_valid = floor_page(minimum(_C, ite(has_kv | session.inflight, known, session.history)))
"""Whole pages of the actor's KV that are committed, for tokens that are known."""

PUBLISH_STEP = step(
    "INV-PUBLISH-STEP",
    "Only committed KV of known tokens goes to the tree. When a request ends, its KV goes there "
    "only if it was in a batch; a request without a session must have been running.",
    turn=implies(_ends & (turn.kind == TURN) & (_published(full) > 0), turn.phase >= PARKED),
    plain=implies(_ends & (turn.kind == PLAIN) & (_published(full) > 0), turn.phase == RUNNING),
    committed=_published(full) <= ite(_had, maximum(0, _valid - _Q), 0),
    swa_committed=_published(swa) <= ite(_had, maximum(0, _valid - maximum(_Q, _E)), 0),
)

STEPS: dict[str, Invariant] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Invariant)
}
