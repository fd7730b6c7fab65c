"""Wrong specs about sessions, requests and histories."""

from __future__ import annotations

from dataclasses import replace

from slotproof_model.bugs.altered import Wrong, becomes, changed, guarded, less, moving
from slotproof_model.spec import transitions as t
from slotproof_model.spec.allowances import unlocking
from slotproof_model.spec.expr import FALSE, TRUE, conj, implies, ite, minimum
from slotproof_model.spec.memory import point, release, take_row
from slotproof_model.spec.state import (
    MATCHED,
    PARKED,
    RUNNING,
    TURN,
    WAITING,
    config,
    has_kv,
    is_plain,
    known,
    lengths,
    locks,
    locks_either,
    req,
    rows,
    session,
    slot,
)
from slotproof_model.spec.transition import Allowance, given

_prefilled = req.prompt <= req.C

_both_lengths = tuple(zip(lengths(req), lengths(slot), strict=True))

LIFE = (
    # What is in flight
    Wrong(
        "stub-clears-in-flight",
        "a rejected turn takes the running one's flag with it",
        "T-REJECT / INV-INFLIGHT.iff",
        changed(becomes(t.T_REJECT, (session.inflight, FALSE))),
    ),
    Wrong(
        "reject-displaces-queued",
        "a second turn takes the place of one that waits",
        "T-REJECT / INV-INFLIGHT-STEP.keeps",
        changed(
            becomes(
                t.T_REJECT,
                (req.prompt, ite(req.phase == WAITING, session.history + t.prompt, req.prompt)),
            )
        ),
    ),
    Wrong(
        "reject-aborts-running",
        "a second turn aborts the first, which is rightly given back",
        "T-REJECT / MEANS.stays",
        changed(
            replace(
                guarded(t.T_REJECT, **t._abort_guard),
                params=(t.prompt, *t.LOCK),
                memory=t.everything,
                effect=t._abort_effect,
                allows=t._abort_allowed,
            )
        ),
    ),
    Wrong(
        "retract-ends-flight",
        "a retracted turn is not in flight: the session takes another",
        "T-RETRACT / INV-INFLIGHT.iff",
        changed(becomes(t.T_RETRACT, (session.inflight, FALSE))),
    ),
    Wrong(
        "defer-ends-flight",
        "a close that waits forgets for what",
        "T-CLOSE-DEFER / INV-INFLIGHT.iff",
        changed(becomes(t.T_CLOSE_DEFER, (session.inflight, FALSE))),
    ),
    Wrong(
        "save-forgets-close",
        "a finished turn clears the close that waited for it: the session lives on",
        "T-SAVE / INV-INFLIGHT-STEP.remembers",
        changed(becomes(t.T_SAVE, (session.closing, FALSE))),
        alone=True,
    ),
    # A session ends
    Wrong(
        "close-drops-running",
        "a close ends a running turn without a word; everything is given back",
        "T-CLOSE / INV-INFLIGHT-STEP.ends",
        changed(
            replace(
                t.T_CLOSE,
                guard={
                    "open": session.open & ~session.closing,
                    "busy": has_kv,
                    "own": implies(slot.holding, slot.lent),
                    **t.dropped(locks_either),
                },
                memory=t.everything,
                effect={**t._abort_effect, **t.session_over},
                allows=unlocking(session.open & ~session.closing & has_kv, locks_either),
            )
        ),
        alone=True,
    ),
    Wrong(
        "reap-drops-queued",
        "a session times out while its turn waits; everything is given back",
        "T-REAP / INV-INFLIGHT-STEP.ends",
        changed(
            replace(
                guarded(t.T_REAP, idle=~session.inflight | (req.phase == WAITING)),
                effect={**t.T_REAP.effect, **t.turn_over},
            )
        ),
    ),
    Wrong(
        "discard-ends-session",
        "a session ends with its slot, a turn of it may wait",
        "T-DISCARD / INV-ABSENT.session",
        changed(becomes(t.T_DISCARD, (session.open, FALSE), (session.history, 0))),
    ),
    Wrong(
        "discard-ends-idle-session",
        "an idle session ends when memory is short",
        "T-DISCARD / MEANS.stays",
        changed(
            becomes(
                t.T_DISCARD,
                (session.open, session.open & session.inflight),
                (session.closing, session.closing & session.inflight),
                (session.history, ite(session.inflight, session.history, 0)),
            )
        ),
        alone=True,
    ),
    # History
    Wrong(
        "abort-keeps-turn",
        "an aborted turn stays in the history (#22790)",
        "T-ABORT / INV-HISTORY.only_at_finish",
        changed(becomes(t.T_ABORT, (session.history, ite(_prefilled, known, session.history)))),
    ),
    Wrong(
        "abort-keeps-prompt",
        "an aborted turn's prompt stays in the history",
        "T-ABORT / INV-HISTORY.only_at_finish",
        changed(
            becomes(t.T_ABORT, (session.history, ite(_prefilled, req.prompt, session.history)))
        ),
    ),
    Wrong(
        "save-without-history",
        "a finished turn is not in the history",
        "T-SAVE / INV-COVER.idle",
        changed(less(t.T_SAVE, "session.history")),
    ),
    Wrong(
        "submit-without-history",
        "a prompt is the new tokens alone",
        "T-SUBMIT / INV-TOKENS.prompt",
        changed(becomes(t.T_SUBMIT, (req.prompt, t.new))),
    ),
    Wrong(
        "open-with-history",
        "a session opens with a history",
        "T-OPEN / INV-HISTORY.begins",
        changed(becomes(t.T_OPEN, (session.history, 1))),
        alone=True,
    ),
    Wrong(
        "wipe-forgets-history",
        "a turn that gives up its KV gives up the history",
        "T-RETRACT-WIPE / INV-HISTORY.only_at_finish",
        changed(becomes(t.T_RETRACT_WIPE, (session.history, 0))),
        alone=True,
    ),
    Wrong(
        "discard-forgets-history",
        "an idle session loses its history with its slot",
        "T-DISCARD / INV-HISTORY.only_at_finish",
        changed(becomes(t.T_DISCARD, (session.history, ite(session.inflight, session.history, 0)))),
    ),
    # Queued turns
    Wrong(
        "doom-releases-slot",
        "a doomed turn releases the slot, rightly",
        "T-DOOM / INV-QUEUED-STEP.slot",
        changed(
            replace(
                t.T_DOOM,
                params=(t.prompt, *t.LOCK),
                guard={**t.T_DOOM.guard, **t.dropped(locks(slot))},
                memory=release(slot, slot.holding, *t.LOCK),
                effect={**t.T_DOOM.effect, **t.no_slot},
            )
        ),
    ),
    # The life of a request
    Wrong(
        "wipe-ends-turn",
        "a turn that is taken out of the batch does not come back",
        "T-RETRACT-WIPE / MEANS.waits",
        changed(replace(t.T_RETRACT_WIPE, effect={**t.no_slot, **t.turn_over})),
        alone=True,
    ),
    Wrong(
        "abort-requeues",
        "an aborted turn waits for its next try",
        "T-ABORT / MEANS.ends",
        changed(replace(t.T_ABORT, effect={**t.no_slot, **t.back_to_waiting})),
    ),
    Wrong(
        "retract-merges-output",
        "a retracted request without a session takes its output into the prompt",
        "T-PLAIN-RETRACT / INV-LIFE-STEP.prompt",
        changed(becomes(t.T_PLAIN_RETRACT, (req.prompt, known))),
        alone=True,
    ),
    Wrong(
        "submit-matched",
        "a request is matched when it is queued",
        "T-PLAIN-SUBMIT / INV-LIFE-STEP.begins",
        changed(
            moving(becomes(t.T_PLAIN_SUBMIT, (req.phase, MATCHED), (req.locked, TRUE)), point(0, 0))
        ),
        alone=True,
    ),
    Wrong(
        "open-adopts",
        "a session that opens takes a request without one for its first turn",
        "T-OPEN / INV-LIFE-STEP.kind",
        changed(
            becomes(
                guarded(t.T_OPEN, closed=~session.open),
                (req.kind, ite(is_plain, TURN, req.kind)),
                (session.inflight, is_plain),
            )
        ),
        alone=True,
    ),
    Wrong(
        "park-unmatched",
        "a turn that computed nothing yet is only matched again, not parked",
        "T-PARK / INV-LIFE-STEP.matched",
        changed(
            becomes(
                t.T_PARK,
                (
                    req.phase,
                    ite(slot.lent & conj(*(a == b for a, b in _both_lengths)), MATCHED, PARKED),
                ),
            )
        ),
        alone=True,
    ),
    Wrong(
        "match-runs",
        "a request takes its row and runs when it is matched",
        "T-MATCH / INV-LIFE-STEP.runs",
        changed(
            replace(
                becomes(
                    moving(t.T_MATCH, *t.T_MATCH.memory, take_row(TRUE)),
                    (req.phase, RUNNING),
                    (req.row, 0),
                ),
                allows=replace(t.T_MATCH.allows, when=t.T_MATCH.allows.when & (rows.free >= 1)),
            )
        ),
        alone=True,
    ),
    Wrong(
        "restore-runs",
        "a turn on loan runs at once",
        "T-RESTORE / INV-LIFE-STEP.runs",
        changed(becomes(t.T_RESTORE, (req.phase, RUNNING))),
    ),
    Wrong(
        "extend-parks",
        "a chunk that leaves something to prefill parks the request with it",
        "T-EXTEND / INV-COVER-STEP.computes",
        changed(becomes(t.T_EXTEND, (req.phase, ite(t.t < known, PARKED, RUNNING)))),
    ),
    Wrong(
        "extend-parks-idle",
        "a chunk of nothing parks a request that was matched",
        "T-EXTEND / INV-LIFE-STEP.parked",
        changed(
            becomes(t.T_EXTEND, (req.phase, ite((t.t == req.C) & (t.t < known), PARKED, RUNNING)))
        ),
        alone=True,
    ),
    Wrong(
        "doom-forgets-committed",
        "a doomed turn leaves the slot its memory, and nothing committed in it",
        "T-DOOM / INV-KEEP-STEP.ends",
        changed(becomes(t.T_DOOM, (slot.C, slot.Q))),
        alone=True,
    ),
    # Known and computed
    Wrong(
        "retract-forgets-output",
        "a retracted turn starts its output again",
        "T-RETRACT / INV-COVER-STEP.keeps",
        changed(becomes(t.T_RETRACT, (req.output, 0))),
    ),
    Wrong(
        "decode-tells-one",
        "a speculative round commits k and tells one",
        "T-DECODE / INV-COVER.req",
        changed(becomes(t.T_DECODE, (req.output, req.output + minimum(t.k, 1)))),
    ),
    Wrong(
        "result-tells-fewer",
        "a speculative result counts the KV of one token more than it tells (overlap)",
        "T-RESULT / INV-COVER-STEP.rounds",
        changed(
            replace(
                guarded(
                    t.T_RESULT,
                    n=(t.n >= 0) & (t.n >= t.k - 1) & (known + t.n <= req.C + t.k + 1),
                    read=(req.C + t.k <= known + t.n) & (known - 1 <= req.C),
                ),
                allows=Allowance(
                    t.T_RESULT.allows.when
                    & (req.C + given(t.k) <= known + given(t.n))
                    & (known - 1 <= req.C)
                ),
            )
        ),
        alone=True,
    ),
    Wrong(
        "prefill-samples-early",
        "a token is sampled when a chunk is done, not the prompt",
        "T-EXTEND / INV-COVER-STEP.samples",
        changed(guarded(t.T_EXTEND, sampled=(t.sampled >= 0) & (t.sampled <= 1))),
    ),
    Wrong(
        "prefill-samples-two",
        "a prefill samples two tokens",
        "T-EXTEND / INV-COVER-STEP.samples",
        changed(
            guarded(
                t.T_EXTEND,
                sampled=(t.sampled >= 0) & (t.sampled <= 2) & implies(t.sampled >= 1, t.t == known),
            )
        ),
    ),
    Wrong(
        "prefill-past-row",
        "a prefill does not look at the row's width",
        "T-EXTEND / INV-ORDER.req",
        changed(guarded(t.T_EXTEND, t=(t.t >= req.C) & (t.t <= known))),
    ),
    Wrong(
        "prefill-computes-sampled",
        "a prefill has KV of the token that it samples",
        "T-EXTEND / INV-COVER-STEP.prefills",
        changed(
            guarded(
                t.T_EXTEND,
                t=(t.t >= req.C) & (t.t <= known + t.sampled) & (t.t <= config.width),
                sampled=(t.sampled >= 0) & (t.sampled <= 1) & implies(t.sampled == 1, t.t >= known),
            )
        ),
        alone=True,
    ),
    Wrong(
        "restore-samples",
        "a prompt that is reused as a whole samples a token without computing one",
        "T-RESTORE / INV-COVER-STEP.tells",
        changed(
            becomes(
                t.T_RESTORE,
                (req.output, req.output + ite(t.T_RESTORE.effect["req.C"] >= known, 1, 0)),
            )
        ),
        alone=True,
    ),
    Wrong(
        "insert-samples",
        "an insert samples a token whose KV is there",
        "T-INSERT / INV-COVER-STEP.tells",
        changed(becomes(t.T_INSERT, (req.output, req.output + ite(known <= req.C, 1, 0)))),
    ),
    Wrong(
        "cursor-commits-slack",
        "the cursor takes with it the KV of a known token that no round has computed",
        "T-SWA-ADVANCE / INV-COVER-STEP.rounds",
        changed(
            becomes(
                t.T_SWA_ADVANCE,
                (req.C, ite((known - 1 == req.C) & (req.A > req.C), req.C + 1, req.C)),
            )
        ),
    ),
)
