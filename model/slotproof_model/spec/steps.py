"""All step invariants: conditions that every transition satisfies.

A step invariant relates a state and the next state (``after``). Step invariants are proved for the
spec, and evaluated on every observed step of an engine.
"""

from __future__ import annotations

from slotproof_model.spec.allowances import reuse
from slotproof_model.spec.expr import (
    Expr,
    ceil_page,
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
from slotproof_model.spec.places import ONE_PAGE
from slotproof_model.spec.state import (
    ACTOR,
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
    answered,
    answering,
    begun,
    config,
    full,
    has_kv,
    is_plain,
    known,
    lengths,
    lock_sum,
    own,
    req,
    req_has_row,
    session,
    slot,
    swa,
    this_step,
)

_lives = (req.kind != NONE) & (after(req.kind) != NONE)
_ends = (req.kind != NONE) & (after(req.kind) == NONE)
_matched = (req.phase == WAITING) & (after(req.phase) == MATCHED)
_partial = slot.holding & (session.history < slot.C)

_has_kv = after(has_kv)
_stays = actor_has_kv & after(actor_has_kv)
"""Condition: the actor has KV, in its request or its slot, before and after the step."""
_known = after(req.output) - req.output
"""Number of tokens that become known."""
_told = after(req.told) - req.told
_new_rounds = after(req.rounds) - req.rounds
_late = conj(
    config.overlap & ~config.retract_keeps, req.phase == WAITING, (req.output > 0) & ~slot.holding
)
"""Condition: a retraction wiped the request's KV, and results of its rounds may still arrive."""
_same_actor = conj(*(after(var) == var for var in ACTOR if var is not session.closing))

_given_back = slot.lent & (after(session.history) == session.history)
"""Condition at an end: the turn may give the slot back as it was lent."""

ROWS_STEP = step(
    "INV-ROWS-STEP",
    "A request has the same row as long as it has KV. A slot has the same row as long as the slot "
    "exists. A new slot takes over the turn's row.",
    stays=implies(after(slot.holding), after(slot.row) == ite(slot.holding, slot.row, req.row)),
    req=implies(has_kv & _has_kv & req_has_row, after(req.row) == req.row),
)
ALIGN_STEP = step(
    "INV-ALIGN-STEP",
    "Only whole pages are allocated, freed or moved. Under aligned_reuse, a reused prefix ends at "
    "a page boundary.",
    full=is_aligned(after(full.available) - full.available),
    swa=is_aligned(after(swa.available) - swa.available),
    reuse=implies(_matched & config.aligned_reuse, is_aligned(after(req.C))),
)
INFLIGHT_STEP = step(
    "INV-INFLIGHT-STEP",
    "The flag inflight is cleared only when the turn in flight ends, and no new turn displaces "
    "that turn. A session ends only while no turn is in flight. Only a client's close is deferred. "
    "A client's close is deferred or carried out. A deferred close stays pending.",
    clears=implies(session.inflight & ~after(session.inflight), after(req.kind) != TURN),
    keeps=implies(session.inflight & after(session.inflight), after(req.prompt) == req.prompt),
    defers=implies(~session.closing & after(session.closing), session.inflight),
    asks=implies(
        ~session.closing & after(session.closing),
        this_step.closes & _same_actor & ~this_step.detached,
    ),
    heard=implies(this_step.closes, after(session.closing) | ~after(session.open)),
    closes=implies(session.closing & ~session.inflight, ~after(session.inflight)),
    ends=implies(session.open & ~after(session.open), ~session.inflight),
    remembers=implies(session.closing & after(session.open), after(session.closing)),
)
_tells = after(session.open) & (after(session.history) != session.history)

HISTORY = Invariant(
    "INV-HISTORY",
    Kind.STEP,
    "A session's history is empty when the session opens. The history changes only when a running "
    "turn finishes and leaves its KV in the slot. A retracted turn may finish while it waits, and "
    "then leaves no slot. The history is then the turn's prompt and the tokens that its client was "
    "told. The next prompt is the history plus new tokens.",
    {
        "told": implies(session.open & _tells, after(session.history) == answered),
        "complete": implies(
            session.open & this_step.finishes & (req.kind == TURN),
            after(session.history) == answered,
        ),
        "late": implies(session.open & _tells & (req.phase == WAITING), this_step.finishes),
        "only_at_finish": implies(
            session.open & _tells,
            conj(
                session.inflight & ~after(session.inflight),
                (req.phase == RUNNING) | _late,
                after(session.history) >= req.prompt,
                iff(after(slot.holding), req.phase == RUNNING) & ~after(slot.lent),
            ),
        ),
        "begins": implies(~session.open, ~_tells),
        "extends": implies(
            (req.kind != TURN) & (after(req.kind) == TURN),
            (after(req.prompt) == session.history + this_step.new) & (this_step.new >= 0),
        ),
    },
    {
        "prompt": "a turn's prompt is, token by token, the history followed by the new tokens",
        "history": "a session's history is, token by token, what its finished turns left",
    },
)

LIFE_STEP = step(
    "INV-LIFE-STEP",
    "A request begins with a prompt and without output. It waits, is matched, runs, and may be "
    "parked or wait again. Its kind and its prompt stay the same. It ends with the last message "
    "to its client. Only a request of a busy or closing session is detached, or its waiting turn. "
    "A complete answer is the last message.",
    kind=implies(_lives, after(req.kind) == req.kind),
    prompt=implies(_lives & is_plain, after(req.prompt) == req.prompt),
    begins=implies(
        (req.kind == NONE) & (after(req.kind) != NONE),
        (after(req.phase) == WAITING) & (after(req.prompt) >= 1) & (after(req.output) == 0),
    ),
    detaches=implies(
        this_step.detached,
        ite(_ends & (req.kind == TURN), req.phase == WAITING, session.inflight | session.closing),
    ),
    ends=implies(_ends, this_step.final | this_step.detached),
    answered=implies(this_step.final, _ends),
    finishes=implies(this_step.finishes, this_step.final & ((req.phase == RUNNING) | _late)),
    matched=implies(after(req.phase) == MATCHED, req.phase <= MATCHED),
    runs=implies(after(req.phase) == RUNNING, has_kv),
    parked=implies(after(req.phase) == PARKED, begun),
)

TOLD_STEP = step(
    "INV-TOLD-STEP",
    "Tokens become known in order, each one once: a step reports the tokens from the first unknown "
    "position on. The client is told tokens only in the step that reports them. No told token is "
    "withdrawn. After a reported token that the client is not told, the client is told no token.",
    next=implies(_lives & (_known > 0), this_step.at == known),
    keeps=implies(_lives, _told >= 0),
    reported=implies(_lives, _told <= maximum(0, _known)),
    ends=implies(_lives & ~answering, _told <= 0),
)
ROUND_STEP = step(
    "INV-ROUND-STEP",
    "Under overlap scheduling, each token becomes known by the result of one launched round. No "
    "round is launched after an answer's end. After a launch, all known tokens but the last have "
    "KV. While a request runs or waits, each round ends with a result. A retraction that wipes "
    "leaves the rounds under way.",
    results=implies(config.overlap & _lives & (_known > 0), _new_rounds == -1),
    wiped=implies(
        (req.phase == RUNNING) & (after(req.phase) == WAITING) & ~config.retract_keeps,
        _new_rounds == 0,
    ),
    arrives=implies(_new_rounds < 0, (after(req.phase) != req.phase) | (_known > 0)),
    launches=implies(
        _new_rounds > 0,
        conj(
            (_new_rounds == 1) & answering,
            after(req.phase) == RUNNING,
            known <= after(req.C) + 1,
            (_known == 0) & (after(own.Q) == own.Q) & (after(own.E) == own.E),
        ),
    ),
    ahead=implies(
        conj(
            config.overlap & _lives & (req.phase == RUNNING) & (_known == 0),
            (after(req.C) > req.C) | (after(req.A) > req.A),
        ),
        _new_rounds == 1,
    ),
    prefills=implies(
        config.overlap & (req.phase != RUNNING) & (after(req.phase) == RUNNING),
        after(req.rounds) == ite(after(req.C) == known, 1, 0),
    ),
)

COVER_STEP = step(
    "INV-COVER-STEP",
    "The number of known tokens never falls. A token is sampled or decoded only if all earlier "
    "tokens have KV. A request finishes only after its prompt is prefilled. KV is computed and "
    "tokens become known only in a step that runs a batch and moves neither Q nor E. New KV is for "
    "known tokens or for tokens of this round. Under overlap scheduling, some tokens may still be "
    "unknown, and the result of a round may arrive after a retraction has wiped the KV.",
    keeps=implies(_lives, after(req.output) >= req.output),
    samples=implies(
        _lives & (after(req.output) > req.output) & (after(req.phase) != WAITING),
        after(req.C) >= after(req.prompt) + after(req.output) - 1,
    ),
    decodes=implies(_lives & (req.phase == RUNNING) & (after(req.C) > req.C), known - 1 <= req.C),
    finishes=implies(
        _ends
        & (
            (is_plain & (this_step.published >= 0))
            | (after(session.open) & (after(session.history) > session.history))
        ),
        (req.prompt <= req.C) | _late,
    ),
    computes=implies(
        _stays & (after(own.C) > own.C),
        (after(req.phase) == RUNNING) & (after(own.E) == own.E) & (after(own.Q) == own.Q),
    ),
    prefills=implies((req.phase != RUNNING) & (after(req.phase) == RUNNING), after(req.C) <= known),
    rounds=implies(
        _lives & (req.phase == RUNNING) & _has_kv,
        (after(req.C) <= req.C + _known)
        | (config.overlap & (after(req.C) < known + config.batches)),
    ),
    tells=implies(
        _lives & (_known > 0),
        conj(
            (after(req.phase) == RUNNING)
            | ((req.phase == WAITING) & (after(req.phase) == WAITING) & (req.rounds > 0)),
            (after(own.E) == own.E) & (after(own.Q) == own.Q),
            config.overlap | (req.phase != RUNNING) | (after(own.C) > own.C),
        ),
    ),
)


def _cut_to(upto: Expr) -> Expr:
    """Return the number of valid positions that a cut to ``upto`` must leave. A cut below the
    sliding-window cursor moves down to the start of the page."""
    return minimum(own.C, ite(upto >= own.E, upto, floor_page(upto)))


KEEP_STEP = step(
    "INV-KEEP-STEP",
    "Valid KV is not lost. A restore reuses all KV that known tokens, reserve and profile allow. "
    "The end of a request cuts its KV no further than to the history, or to the slot as it was "
    "lent. Otherwise no KV of a known token is lost. A match or restore leaves the reserve to "
    "recompute. A refusal neither adds nor drops a slot.",
    reserve=implies(_matched, after(req.C) + config.reserve <= known),
    restores=implies(_stays & _matched, after(own.C) >= _cut_to(reuse)),
    ends=implies(
        _stays & _ends,
        after(own.C)
        >= ite(
            _given_back, minimum(slot.C, _cut_to(session.history)), _cut_to(after(session.history))
        ),
    ),
    runs=implies(
        _stays & ~_matched & ~_ends,
        after(own.C) >= ite(after(req.phase) == WAITING, _cut_to(known), own.C),
    ),
    refused=implies(
        has_kv & ~begun & (after(req.phase) == WAITING), iff(after(slot.holding), slot.holding)
    ),
)


def _published(pool: Pool) -> Expr:
    """Return the growth of the prefix tree in ``pool``, in tokens."""
    return after(pool.evictable) + after(pool.protected) - pool.evictable - pool.protected


SLACK_STEP = step(
    "INV-SLACK-STEP",
    "A row gets new pages only for KV, and for the slack of a decoding round past its KV. "
    "Unless the profile keeps slack, a match or a restore leaves no page past the reused KV, and "
    "the end of a turn leaves none past the history. Committed KV and the pages allocated past it "
    "are released in one step. A slot on loan keeps its lengths, or takes its turn's lengths. A "
    "request without a session changes no slot.",
    grows=implies(
        _stays & (ceil_page(after(own.A)) > ceil_page(own.A)),
        after(own.A) <= ceil_page(after(own.C) + config.slack),
    ),
    tail=implies(
        ~config.keeps_slack & _matched & slot.holding,
        after(own.A) <= ceil_page(minimum(slot.A, ite(reuse >= slot.E, reuse, floor_page(reuse)))),
    ),
    trims=implies(
        ~config.keeps_slack & (has_kv | _partial) & _ends & after(slot.holding),
        after(slot.A)
        <= ceil_page(
            maximum(maximum(after(session.history), after(slot.E)), ite(_given_back, slot.A, 0))
        ),
    ),
    lent=implies(
        slot.lent & after(slot.lent),
        conj(*(after(length) == length for length in lengths(slot)))
        | conj(*(after(a) == after(b) for a, b in zip(lengths(slot), lengths(req), strict=True))),
    ),
    together=implies(
        actor_has_kv & ~after(actor_has_kv),
        _published(full) + after(full.available) - full.available == ceil_page(own.A) - own.Q,
    ),
    alone=implies(is_plain, conj(*(after(var) == var for var in (*session, *slot)))),
)
CURSOR_STEP = step(
    "INV-CURSOR-STEP",
    "The SWA cursor moves up only while the request runs or is parked. A move ends at most one "
    "more window and a page below the window. The cursor moves back only as far as the KV is cut.",
    up=implies(_stays & (after(own.E) > own.E), begun & (after(req.phase) >= PARKED)),
    far=implies(
        _stays & (after(own.E) > own.E) & has_kv,
        after(own.E) + config.window + ONE_PAGE >= floor_page(own.C - config.window),
    ),
    back=implies(_stays, after(own.E) >= minimum(own.E, after(own.C))),
)
QUEUED_STEP = step(
    "INV-QUEUED-STEP",
    "The end of a waiting turn changes neither memory nor the session's slot. The exception is a "
    "slot in which a retract left KV past the history.",
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
"""Condition: the request is parked or running before and after the step. An insert may drop and
retake locks in the sliding-window pool, so the bound on locked tokens is loose."""

LOCK_STEP = step(
    "INV-LOCK-STEP",
    "The protected count changes by no more than the tokens locked or unlocked. After a match, the "
    "sliding-window pool protects at least the window at the end of the match.",
    rises=_rise(full) <= maximum(0, after(lock_sum) - lock_sum),
    falls=0 - _rise(full) <= maximum(0, lock_sum - after(lock_sum)),
    swa_rises=_rise(swa) <= ite(_relocks, after(lock_sum), maximum(0, after(lock_sum) - lock_sum)),
    swa_falls=0 - _rise(swa) <= ite(_relocks, lock_sum, maximum(0, lock_sum - after(lock_sum))),
    window=implies(
        config.swa & _matched & ~slot.holding,
        after(req.Q) - floor_page(maximum(0, after(req.Q) - config.window)) <= after(swa.protected),
    ),
)


_valid = floor_page(minimum(own.C, ite(has_kv | session.inflight, known, session.history)))
"""Length of the actor's committed KV of known tokens, rounded down to whole pages."""

PUBLISH_STEP = step(
    "INV-PUBLISH-STEP",
    "The tree takes only whole pages, with committed KV of known tokens. A turn publishes at its "
    "end only if it was running or parked. A request without a session publishes at its end only "
    "if it was running. It then publishes all whole pages of prompt and answer, except for tokens "
    "of the last rounds. The tree loses only the tokens that a step evicts.",
    turn=implies(_ends & (req.kind == TURN) & (_published(full) > 0), req.phase >= PARKED),
    plain=implies(_ends & (req.kind == PLAIN) & (_published(full) > 0), req.phase == RUNNING),
    answer=implies(
        (req.kind == PLAIN) & (this_step.published >= 0) & (req.E <= req.Q),
        this_step.published
        >= floor_page(minimum(req.C, minimum(answered, req.prompt + req.told - config.slack))),
    ),
    evicts=0 - _published(full) <= this_step.evicted,
    swa_evicts=0 - _published(swa) <= this_step.swa_evicted,
    committed=_published(full) <= ite(actor_has_kv, maximum(0, _valid - own.Q), 0),
    swa_committed=_published(swa)
    <= ite(actor_has_kv, maximum(0, _valid - maximum(own.Q, own.E)), 0),
)

STEPS: dict[str, Invariant] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Invariant)
}
