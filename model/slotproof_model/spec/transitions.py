"""All transitions of a session, its slot and its requests.

Read top to bottom. ``req`` is the actor's request: a turn of the session, or a request without a
session. "The tree" is the prefix tree. Lengths are in tokens. P is the page size. ⌈·⌉ and ⌊·⌋ round
up and down to a multiple of P. Only ``memory`` moves change pools and rows.

This is one long file on purpose: a reviewer reads only this file and the invariants.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from slotproof_model.spec.allowances import (
    fresh,
    legal_insert,
    legal_match,
    partial_slot,
    reuse,
    room,
    some,
    swa_fresh,
    swa_unlocked,
    unlocking,
    waiting,
    window_alive,
)
from slotproof_model.spec.expr import (
    FALSE,
    TRUE,
    Expr,
    Operand,
    Var,
    ceil_page,
    conj,
    floor_page,
    implies,
    is_aligned,
    ite,
    maximum,
    minimum,
)
from slotproof_model.spec.memory import (
    EMPTY,
    Interval,
    Mem,
    Move,
    alloc,
    count,
    free,
    lock,
    point,
    release,
    take_row,
    unlock,
)
from slotproof_model.spec.places import ONE_PAGE
from slotproof_model.spec.state import (
    ABSENT,
    ACTOR,
    MATCHED,
    NO_ROW,
    NONE,
    PARKED,
    PLAIN,
    RUNNING,
    TURN,
    WAITING,
    Kv,
    after,
    answered,
    answering,
    begun,
    config,
    frame,
    full,
    has_kv,
    is_plain,
    is_turn,
    known,
    lengths,
    lock_sum,
    locks,
    locks_either,
    page,
    req,
    req_has_row,
    rows,
    session,
    slot,
    swa,
    this_step,
)
from slotproof_model.spec.transition import Allowance, Transition, assign, given, param

u = param("u", "full-pool tokens of the tree that lose their last lock: protected → evictable")
swa_u = param("swa_u", "sliding-window tokens of the tree that lose their last lock")
locked = param("locked", "full-pool tree tokens that get their first lock: evictable → protected")
swa_locked = param("swa_locked", "sliding-window tokens of the tree that get their first lock")
q = param("q", "end of the published prefix, in tokens: from now on, the tree holds [0, q)")
dup = param("dup", "tokens from Q on that the tree already holds: the row's own copies are freed")
swa_dup = param("swa_dup", "sliding-window tokens from max(Q, E) on that the tree already holds")
UNLOCK = (u, swa_u)


# Shared pieces -------------------------------------------------------------


def clear(kv: Kv) -> dict[str, Expr]:
    return assign((kv.row, NO_ROW), (kv.C, 0), (kv.A, 0), (kv.Q, 0), (kv.E, 0), (kv.locked, FALSE))


no_slot = {**assign((slot.holding, FALSE), (slot.lent, FALSE)), **clear(slot)}
no_request = {
    **assign((req.kind, NONE), (req.phase, ABSENT), (req.prompt, 0), (req.output, 0)),
    **assign((req.told, 0), (req.rounds, 0)),
    **clear(req),
}
back_to_waiting = {
    **assign((req.phase, WAITING), (req.rounds, ite(config.retract_keeps, 0, req.rounds))),
    **clear(req),
}
turn_over = {**no_request, **assign((session.inflight, FALSE))}


class Cut(NamedTuple):
    """Result of cutting KV at position ``m``: memory move, and new lengths C, A and E."""

    m: Expr
    memory: Mem
    C: Expr
    A: Expr
    E: Expr


def cut(kv: Kv, n: Operand) -> Cut:
    """Cut KV to at most n positions: the rule behind free_tail and trim (#22862, #22900).

    A cut inside a page below the SWA cursor would free the page's SWA KV twice, so the cut moves
    down to the page's start. Under ``keeps_slack``, other cuts only shorten the valid KV.
    """
    m = ite(n >= kv.E, n, floor_page(n))
    room = ite(config.keeps_slack & (n >= kv.E), kv.A, m)
    gone = free(kv, ceil_page(room), ceil_page(kv.A))
    return Cut(m, gone, minimum(kv.C, m), minimum(kv.A, room), minimum(kv.E, m))


def cut_lengths(kv: Kv, of: Kv | Cut) -> dict[str, Expr]:
    """Assign the lengths C, A and E of ``of`` to ``kv``. Q and the row stay the same."""
    return assign((kv.C, of.C), (kv.A, of.A), (kv.E, of.E))


def to_slot(left: Kv | Cut) -> dict[str, Expr]:
    """Assign to the slot the turn's row, Q and tree lock, and the lengths in ``left``."""
    return {
        **assign((slot.holding, TRUE), (slot.lent, FALSE)),
        **assign((slot.row, req.row), (slot.Q, req.Q), (slot.locked, TRUE)),
        **cut_lengths(slot, left),
    }


def dropped(covered: Expr) -> dict[str, Expr]:
    """Build the guard for unlocking ``covered`` tokens, ``u`` of which have no other lock."""
    left = frame.lock_sum + lock_sum - covered
    return {
        "u": (u >= 0) & is_aligned(u) & (u <= covered),
        "u_others": (frame.lock_max <= full.protected - u) & (full.protected - u <= left),
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, covered, 0)),
        "swa_u_others": (swa.protected - swa_u >= 0) & (swa.protected - swa_u <= left),
    }


def gain(figure: Var) -> Expr:
    return after(figure) - figure


given_back = {
    "u": u == full.protected - after(full.protected),
    "swa_u": swa_u == swa.protected - after(swa.protected),
}
_rounded = ceil_page(req.A)
to_tree_pages = {
    "full": implies(after(page.tree) > page.tree, (req.Q + dup <= page.at) & (page.at < q)),
    "swa": implies(
        after(page.tree) > page.tree, (maximum(req.Q, req.E) + swa_dup <= page.at) & (page.at < q)
    ),
}
"""Condition by pool: a page given to the tree lies between the end of ``free_copies`` and q."""
published = {
    "dup": dup == gain(full.available) - (_rounded - q),
    "swa_dup": implies(config.swa, swa_dup == gain(swa.available) - (_rounded - maximum(q, req.E))),
    **given_back,
    **to_tree_pages,
}
"""Meaning of the parameters, for transitions that give some KV to the tree and free the rest."""


def unchanged(*figures: Var) -> Expr:
    return conj(*(after(figure) == figure for figure in figures))


over = {"ends": after(req.kind) == NONE}
aborted = {**over, "history": unchanged(session.history)}
waits = {"waits": after(req.phase) == WAITING}
session_stays = {"stays": unchanged(session.open, req.kind, req.phase)}
"""Claims made in transitions' sentences: the request ends or waits, or the session is unchanged."""


def keeps(kv: Kv, upto: Expr) -> Expr:
    """Require a cut to preserve all valid KV up to ``upto``, because recomputing costs work."""
    return implies(upto >= kv.E, after(slot.C) == minimum(kv.C, upto))


def answers(reported: Expr) -> dict[str, Expr]:
    """Build the guard for reporting tokens, the first ``told`` of which belong to the answer. At
    the answer's end, a turn must not have published KV past its history."""
    return {
        "told": (told >= 0) & (told <= reported),
        "ends": implies(is_turn & (told < reported), answered + told >= req.Q),
    }


def _answers(reported: Expr) -> Expr:
    """Return :func:`answers` case by case, for allowances."""
    rest = (given(told) < reported) & (~is_turn | (answered + given(told) >= req.Q))
    return (given(told) >= 0) & ((given(told) == reported) | rest)


_cursor = maximum(req.Q, req.E)
free_copies = Mem(Move.FREE, Interval(req.Q, req.Q + dup), Interval(_cursor, _cursor + swa_dup))
"""First part of [Q, q): the tree already has these tokens, and the row's own pages are freed."""
to_tree = Mem(Move.TO_TREE, Interval(req.Q + dup, q), Interval(_cursor + swa_dup, q))
"""Second part of [Q, q), after ``free_copies``: the row's pages move to the tree."""

insertable = {
    "q": (q >= req.Q) & (q <= floor_page(minimum(req.C, known))) & is_aligned(q),
    "dup": (dup >= 0) & (dup <= q - req.Q) & is_aligned(dup),
    "swa_dup": (swa_dup >= 0)
    & is_aligned(swa_dup)
    & (swa_dup <= maximum(0, req.Q + dup - maximum(req.Q, req.E))),
}


certain = minimum(answered, req.prompt + req.told - config.slack)
"""Number of prompt and answer tokens that were known before the last rounds."""


# Sessions ------------------------------------------------------------------

T_OPEN = Transition(
    "T-OPEN",
    "A client opens a session with an empty history, no slot and no turn in flight.",
    by="a client",
    stage="session",
    course="every request",
    guard={"closed": ~session.open & (req.kind == NONE)},
    effect=assign(
        (session.open, TRUE),
        (session.closing, FALSE),
        (session.inflight, FALSE),
        (session.history, 0),
    ),
    allows=Allowance(~session.open & (req.kind == NONE)),
)

session_over = {
    **no_slot,
    **assign((session.open, FALSE), (session.closing, FALSE), (session.history, 0)),
}

T_CLOSE = Transition(
    "T-CLOSE",
    "A client closes a session that has no turn in flight. The slot is released at once.",
    by="a client",
    stage="session",
    guard={
        "open": session.open & ~session.closing,
        "idle": ~session.inflight,
        **dropped(locks(slot)),
    },
    reports=assign((this_step.closes, TRUE)),
    params=UNLOCK,
    memory=release(slot, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.closing & ~session.inflight, locks(slot)),
)

T_CLOSE_DEFER = Transition(
    "T-CLOSE-DEFER",
    "A client's close waits until the turn in flight ends. The session accepts no new turn.",
    source="#21875",
    by="a client",
    stage="session",
    guard={"open": session.open & ~session.closing, "busy": session.inflight},
    reports=assign((this_step.closes, TRUE)),
    effect=assign((session.closing, TRUE)),
    means=session_stays,
    allows=Allowance(session.inflight & ~session.closing),
)

T_REAP = Transition(
    "T-REAP",
    "The engine closes a session that has no turn in flight. The slot is released. The spec has no "
    "clock: the suite checks that a close was deferred, or a timeout passed.",
    by="time",
    stage="session",
    guard={"open": session.open, "idle": ~session.inflight, **dropped(locks(slot))},
    params=UNLOCK,
    memory=release(slot, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.inflight, locks(slot)),
)

# A turn is queued, or is not ------------------------------------------------

new = param("new", "number of new tokens that the client appends to the history")
prompt = param("prompt", "length of the request's prompt, in tokens")

T_SUBMIT = Transition(
    "T-SUBMIT",
    "A client submits a turn. Its prompt is the history plus new tokens. The turn is in flight.",
    by="a client",
    stage="queue",
    course="every request",
    guard={
        "open": session.open & ~session.closing,
        "idle": ~session.inflight,
        "nonempty": (new >= 0) & (session.history + new >= 1),
    },
    params=(new,),
    reports=assign((this_step.new, new)),
    effect=assign(
        (req.kind, TURN),
        (req.phase, WAITING),
        (req.prompt, session.history + new),
        (req.output, 0),
        (session.inflight, TRUE),
    ),
    means={"new": after(req.prompt) == session.history + new, "nonempty": after(req.prompt) >= 1},
    allows=Allowance(
        conj(
            session.open & ~session.closing & ~session.inflight,
            some >= 0,
            (some >= 1) | (session.history >= 1),
        ),
        {"new": some},
    ),
)

T_REJECT = Transition(
    "T-REJECT",
    "A turn sent to a busy or closing session is detached as a stub. The session stays unchanged.",
    source="#22790",
    by="a client",
    stage="queue",
    guard={"open": session.open, "busy": session.inflight | session.closing, "prompt": prompt >= 0},
    params=(prompt,),
    detaches="stub",
    means={"stub": session.inflight | session.closing, "stays": unchanged(*ACTOR)},
    allows=Allowance(
        session.open & (session.inflight | session.closing) & (some >= 0), {"prompt": some}
    ),
)

T_DOOM = Transition(
    "T-DOOM",
    "A turn doomed to be aborted is detached from its session before the match. The slot stays.",
    source="#22273, #22790",
    by="the scheduler",
    stage="queue",
    guard={
        "turn": is_turn,
        "waiting": req.phase == WAITING,
        "covered": implies(slot.holding, session.history >= slot.C),
        "prompt": prompt >= 0,
    },
    params=(prompt,),
    effect=turn_over,
    detaches="doomed",
    means={"doomed": req.kind == TURN, **aborted},
    allows=Allowance(is_turn & waiting & ~partial_slot & (some >= 0), {"prompt": some}),
)

T_PLAIN_SUBMIT = Transition(
    "T-PLAIN-SUBMIT",
    "A client submits a request without a session. The request waits.",
    by="a client",
    stage="queue",
    course="every request",
    guard={
        "new": req.kind == NONE,
        "no_session": ~session.open & ~session.inflight,
        "nonempty": prompt >= 1,
    },
    params=(prompt,),
    effect=assign((req.kind, PLAIN), (req.phase, WAITING), (req.prompt, prompt), (req.output, 0)),
    means={"prompt": after(req.prompt) == prompt},
    allows=Allowance((req.kind == NONE) & ~session.open & (some >= 1), {"prompt": some}),
)

# Matching --------------------------------------------------------------------

m = param("m", "number of prompt tokens matched in the prefix tree: the request reuses their KV")

_points_below_m = implies(after(page.here), after(page.at) < m)
"""Claim: the row points only to the pages of the matched prefix."""

T_MATCH = Transition(
    "T-MATCH",
    "If a request has no slot to restore, the scheduler locks its prefix in the tree: Q = m. In "
    "the sliding-window pool, the lock covers at least the window at the end of the prefix.",
    by="the scheduler",
    stage="match",
    course="every request",
    guard={
        "waiting": req.phase == WAITING,
        "no_slot": is_plain | (is_turn & ~slot.holding),
        "m": (m >= 0) & is_aligned(m) & (m <= known - config.reserve) & (m <= config.width),
        "locked": (locked >= 0)
        & is_aligned(locked)
        & (locked <= m)
        & (m <= full.protected + locked),
        "swa_locked": (swa_locked >= 0)
        & is_aligned(swa_locked)
        & (swa_locked <= ite(config.swa, m, 0)),
        "window": ite(config.swa, m - floor_page(maximum(0, m - config.window)), 0)
        <= swa.protected + swa_locked,
    },
    params=(m, locked, swa_locked),
    memory=(point(0, m), lock(locked, swa_locked)),
    effect=assign(
        (req.phase, MATCHED),
        (req.C, m),
        (req.A, m),
        (req.Q, m),
        (req.E, 0),
        (req.locked, TRUE),
        (req.rounds, 0),
    ),
    means={
        "m": after(req.Q) == m,
        "locked": gain(full.protected) == locked,
        "swa_locked": gain(swa.protected) == swa_locked,
        "full": _points_below_m,
        "swa": _points_below_m,
    },
    allows=Allowance(
        waiting & (is_plain | ~slot.holding) & legal_match,
        {"locked": fresh, "swa_locked": swa_fresh},
    ),
)

_n = minimum(slot.C, known - config.reserve)
reusable = ite(config.aligned_reuse, floor_page(_n), _n)
_restored = cut(slot, reusable)

T_RESTORE = Transition(
    "T-RESTORE",
    "The scheduler lends the slot's KV to the session's turn. First, free_tail cuts the KV to the "
    "reusable length and frees the whole pages past the cut.",
    source="#20070, #20476, #22213, #22862, #32163",
    by="the scheduler",
    stage="match",
    course="every later turn",
    guard={
        "turn": is_turn & (req.phase == WAITING),
        "holding": slot.holding,
        "not_lent": ~slot.lent,
        "prefix": reusable >= slot.Q,
        "window": maximum(0, _restored.m - config.window) >= _restored.E,
    },
    memory=(_restored.memory,),
    effect={
        **cut_lengths(slot, _restored),
        **cut_lengths(req, _restored),
        **assign((req.row, slot.row), (req.Q, slot.Q), (req.locked, FALSE)),
        **assign((slot.lent, TRUE), (req.phase, MATCHED)),
    },
    allows=Allowance(is_turn & waiting & slot.holding & (reuse >= slot.Q) & window_alive),
)

T_DISCARD = Transition(
    "T-DISCARD",
    "The scheduler releases a slot that is not on loan. The session stays open. The spec allows "
    "a discard at any time. The suite checks that memory or rows were short, or that no KV was "
    "reusable.",
    by="the scheduler",
    stage="match",
    guard={"holding": slot.holding, "not_lent": ~slot.lent, **dropped(locks(slot))},
    params=UNLOCK,
    memory=release(slot, TRUE, u, swa_u),
    effect=no_slot,
    means={**given_back, **session_stays},
    allows=unlocking(slot.holding & ~slot.lent, locks(slot)),
)

T_REFUSE = Transition(
    "T-REFUSE",
    "The scheduler does not admit a matched request, which waits again. If a slot is on loan, the "
    "loan ends and the slot holds the KV as cut by free_tail. Without a slot, the tree lock is "
    "dropped.",
    source="#20476, #22753",
    by="the scheduler",
    stage="match",
    guard={"matched": req.phase == MATCHED, **dropped(locks(req))},
    params=UNLOCK,
    memory=(unlock(u, swa_u),),
    effect={**back_to_waiting, **assign((slot.lent, FALSE))},
    means={**given_back, **waits},
    allows=unlocking(req.phase == MATCHED, locks(req)),
)

# Running -----------------------------------------------------------------------

t = param("t", "position up to which the request has KV after the prefill, in tokens")
ahead = param("ahead", "positions that the prefill allocates past t, for the next round's drafts")
sampled = param("sampled", "number of output tokens that become known in this step")
told = param("told", "number of these tokens that belong to the answer: its client is told them")
at = param("at", "position of the first of these tokens, among prompt and output")
row = param("row", "index of the req_to_token row that the request uses")

T_EXTEND = Transition(
    "T-EXTEND",
    "The scheduler prefills up to position t, and may allocate for the drafts of the next round. "
    "The last chunk may sample one token. Under overlap "
    "scheduling, this token becomes known with a T-RESULT.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "matched": (req.phase == MATCHED) | (req.phase == PARKED),
        "t": (t >= req.C) & (t <= known),
        "ahead": (ahead >= 0) & (ahead <= config.slack) & (t + ahead <= config.width),
        "sampled": (sampled >= 0) & (sampled <= 1) & implies(sampled == 1, t == known),
        "overlap": implies(config.overlap, sampled == 0),
        **answers(sampled),
        "row": (row >= 0) & implies(req_has_row, row == req.row),
    },
    params=(t, ahead, sampled, told, row),
    reports=assign((this_step.at, t)),
    memory=(take_row(~req_has_row), alloc(ceil_page(req.A), ceil_page(t + ahead))),
    effect=assign(
        (req.phase, RUNNING),
        (req.output, req.output + sampled),
        (req.told, req.told + told),
        (req.rounds, ite(config.overlap & (t == known), 1, 0)),
        (req.row, row),
        (req.C, t),
        (req.A, maximum(req.A, t + ahead)),
    ),
    means={
        "t": after(req.C) == t,
        "ahead": after(req.A) == maximum(req.A, t + ahead),
        "sampled": gain(req.output) == sampled,
        "told": gain(req.told) == told,
        "row": after(req.row) == row,
    },
    allows=Allowance(
        conj(
            (req.phase == MATCHED) | (req.phase == PARKED),
            given(t) >= req.C,
            given(t) <= known,
            (given(ahead) >= 0) & (given(ahead) <= config.slack),
            given(t) + given(ahead) <= config.width,
            (given(sampled) == 0) | ((given(sampled) == 1) & (given(t) == known) & ~config.overlap),
            _answers(given(sampled)),
            ite(req.row == NO_ROW, (given(row) >= 0) & (rows.free >= 1), given(row) == req.row),
            room(ceil_page(given(t) + given(ahead)) - ceil_page(req.A)),
        )
    ),
)

T_PARK = Transition(
    "T-PARK",
    "A request between two prefill chunks is parked: in no batch, but holding its KV.",
    source="#37502",
    by="the scheduler",
    stage="run",
    needs="chunked prefill",
    guard={
        "running": req.phase == RUNNING,
        "unfinished": known > req.C,
        "answering": answering & (req.rounds == 0),
    },
    effect=assign((req.phase, PARKED)),
    allows=Allowance(
        (req.phase == RUNNING) & (known > req.C) & (req.told >= req.output) & (req.rounds <= 0)
    ),
)

_point_to_tree = Mem(Move.POINT, free_copies.full, free_copies.swa)
"""Move for tokens that the tree already has: the row now points to the tree's pages."""

T_INSERT = Transition(
    "T-INSERT",
    "The scheduler publishes the request's valid KV up to q. A request without a session publishes "
    "all whole pages of prompt and answer, except for tokens of the last rounds. Where the tree "
    "has the tokens, the row's copies are freed and the row points to the tree. The tree takes the "
    "other pages. The lock covers [0, q), or at least the window in the sliding-window pool. A "
    "turn whose slot is on loan publishes only under loan_publishes. The slot gets the turn's "
    "lengths.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "begun": begun,
        "history": implies(is_turn & ~answering, q <= answered),
        "answer": implies(is_plain & (req.E <= req.Q), q >= floor_page(minimum(req.C, certain))),
        "not_lent": ~slot.lent | config.loan_publishes,
        **insertable,
        "locked": (q - req.Q - dup <= locked) & is_aligned(locked) & (locked <= q - req.Q),
        "protects": q <= full.protected + locked,
        "swa_locked": (swa_locked >= 0)
        & is_aligned(swa_locked)
        & (swa_locked <= ite(config.swa, q, 0)),
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, req.Q, 0)),
        "swa_bounded": (swa_u <= swa.protected)
        & (swa.protected - swa_u + swa_locked <= frame.lock_sum + q),
    },
    params=(q, dup, swa_dup, locked, swa_locked, swa_u),
    memory=(
        free_copies,
        to_tree,
        _point_to_tree,
        lock(locked, swa_locked),
        Mem(Move.UNLOCK, EMPTY, count(swa_u)),
    ),
    effect=assign(
        (req.Q, q),
        (slot.Q, ite(slot.lent, q, slot.Q)),
        (slot.C, ite(slot.lent, req.C, slot.C)),
        (slot.A, ite(slot.lent, req.A, slot.A)),
        (slot.E, ite(slot.lent, req.E, slot.E)),
    ),
    means={
        "q": after(req.Q) == q,
        "profile": implies(slot.lent, config.loan_publishes),
        "follows": implies(
            slot.lent,
            conj(*(after(a) == after(b) for a, b in zip(lengths(slot), lengths(req), strict=True))),
        ),
        "dup": gain(full.available) == dup,
        "swa_dup": implies(config.swa, gain(swa.available) == swa_dup),
        "locked": gain(full.protected) == locked,
        "swa_locked": gain(swa.protected) == swa_locked - swa_u,
        **to_tree_pages,
    },
    allows=Allowance(
        conj(
            begun & (~slot.lent | config.loan_publishes),
            (req.kind == PLAIN) | (req.told >= req.output) | (given(q) <= answered),
            legal_insert,
            (req.kind == TURN)
            | (req.E > req.Q)
            | (given(q) >= floor_page(req.C))
            | (given(q) >= floor_page(certain)),
            is_aligned(fresh),
            fresh >= given(q) - req.Q - given(dup),
            fresh <= given(q) - req.Q,
            fresh <= full.evictable + (given(q) - req.Q - given(dup)),
            full.protected + fresh >= given(q),
            is_aligned(swa_unlocked) & (swa_unlocked >= 0) & (swa_unlocked <= req.Q),
            is_aligned(swa_fresh) & (swa_fresh >= 0) & (swa_fresh <= given(q)),
            swa_fresh <= swa.evictable,
            config.swa | ((swa_unlocked == 0) & (swa_fresh == 0)),
            swa_unlocked <= swa.protected,
            swa.protected - swa_unlocked + swa_fresh <= frame.lock_sum + given(q),
        ),
        {"locked": fresh, "swa_locked": swa_fresh, "swa_u": swa_unlocked},
    ),
)

d = param("d", "number of positions that the decoding round allocates past A")
k = param("k", "number of tokens whose KV the decoding round commits")
_round = {
    "running": req.phase == RUNNING,
    "prefilled": known - 1 <= req.C,
    "d": d >= 0,
    "k": (k >= 0) & (req.C + k <= req.A + d),
    "slack": req.A + d <= maximum(req.A, req.C + k + config.slack),
    "width": req.A + d <= config.width,
}
_round_allowed = conj(
    (req.phase == RUNNING) & (known <= req.C + 1),
    given(d) >= 0,
    given(k) >= 0,
    req.C + given(k) <= req.A + given(d),
    (given(d) == 0) | (req.A + given(d) <= req.C + given(k) + config.slack),
    req.A + given(d) <= config.width,
    room(ceil_page(req.A + given(d)) - ceil_page(req.A)),
)

T_DECODE = Transition(
    "T-DECODE",
    "A decoding round allocates d positions and commits k tokens. Plain decoding has d = k = 1. A "
    "speculative round may commit KV in memory that an earlier round allocated. A round after the "
    "answer's end tells the client nothing. A tree of drafts counts as consecutive positions: the "
    "spec does not model its branches.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        **_round,
        "overlap": ~config.overlap,
        "at": at == known,
        "answering": answering | (told == 0),
        **answers(k),
    },
    params=(at, d, k, told),
    reports=assign((this_step.at, at)),
    memory=(alloc(ceil_page(req.A), ceil_page(req.A + d)),),
    effect=assign(
        (req.A, req.A + d),
        (req.C, req.C + k),
        (req.output, req.output + k),
        (req.told, req.told + told),
    ),
    means={
        "at": at == known,
        "d": gain(req.A) == d,
        "k": (gain(req.C) == k) & (gain(req.output) == k),
        "told": gain(req.told) == told,
        "profile": ~config.overlap,
    },
    allows=Allowance(
        conj(
            ~config.overlap & _round_allowed & (given(at) == known) & _answers(given(k)),
            (req.told >= req.output) | (given(told) == 0),
        )
    ),
)

T_LAUNCH = Transition(
    "T-LAUNCH",
    "The scheduler launches a decoding round before earlier results are known. The round allocates "
    "d positions and computes the KV of k tokens. Tokens that are not yet known were sampled by "
    "earlier rounds.",
    by="the scheduler",
    stage="run",
    guard={
        **_round,
        "overlap": config.overlap,
        "answering": answering,
        "ahead": req.C + k <= known + req.rounds,
        "rounds": req.rounds < config.batches,
    },
    params=(d, k),
    memory=(alloc(ceil_page(req.A), ceil_page(req.A + d)),),
    effect=assign((req.A, req.A + d), (req.C, req.C + k), (req.rounds, req.rounds + 1)),
    means={
        "d": gain(req.A) == d,
        "k": gain(req.C) == k,
        "unknown": unchanged(req.output),
        "profile": config.overlap,
    },
    allows=Allowance(
        conj(
            config.overlap & _round_allowed & (req.told >= req.output),
            (req.C + given(k) <= known + req.rounds) & (req.rounds + 1 <= config.batches),
        )
    ),
)

T_RESULT = Transition(
    "T-RESULT",
    "The result of a launched round arrives, and the sampled tokens become known. A speculative "
    "round commits the KV of k tokens. KV ahead of the known tokens is then of rounds without a "
    "result.",
    by="the scheduler",
    stage="run",
    guard={
        "overlap": config.overlap,
        "running": req.phase == RUNNING,
        "answering": answering,
        "rounds": req.rounds >= 1,
        "at": at == known,
        "k": (k >= 0) & (req.C + k <= req.A),
        "sampled": (sampled >= maximum(k, 1)) & (known + sampled <= req.C + k + 1),
        "ahead": req.C + k + 2 <= known + sampled + req.rounds,
        **answers(sampled),
    },
    params=(at, k, sampled, told),
    reports=assign((this_step.at, at)),
    effect=assign(
        (req.C, req.C + k),
        (req.output, req.output + sampled),
        (req.told, req.told + told),
        (req.rounds, req.rounds - 1),
    ),
    means={
        "at": at == known,
        "k": gain(req.C) == k,
        "sampled": gain(req.output) == sampled,
        "told": gain(req.told) == told,
        "profile": config.overlap,
    },
    allows=Allowance(
        conj(
            config.overlap & (req.phase == RUNNING) & (req.told >= req.output) & (req.rounds > 0),
            given(at) == known,
            given(k) >= 0,
            given(k) <= given(sampled),
            given(sampled) > 0,
            req.C + given(k) <= req.A,
            known + given(sampled) <= req.C + given(k) + 1,
            req.C + given(k) < known + given(sampled) + req.rounds - 1,
            _answers(given(sampled)),
        )
    ),
)

T_LATE_RESULT = Transition(
    "T-LATE-RESULT",
    "A retraction wiped a request while rounds were under way. The result of such a round arrives "
    "while the request waits, and the sampled tokens become known.",
    by="the scheduler",
    stage="run",
    needs="a retraction that wipes",
    guard={
        "overlap": config.overlap & ~config.retract_keeps,
        "waiting": req.phase == WAITING,
        "rounds": req.rounds >= 1,
        "at": at == known,
        "sampled": sampled >= 1,
    },
    params=(at, sampled),
    reports=assign((this_step.at, at)),
    effect=assign(
        (req.output, req.output + sampled),
        (req.told, req.told + sampled),
        (req.rounds, req.rounds - 1),
    ),
    means={
        "at": at == known,
        "sampled": (gain(req.output) == sampled) & (gain(req.told) == sampled),
        "profile": config.overlap & ~config.retract_keeps,
    },
    allows=Allowance(
        conj(
            config.overlap & ~config.retract_keeps & waiting & (req.rounds > 0),
            given(at) == known,
            given(sampled) > 0,
        )
    ),
)

e = param("e", "new position of the SWA cursor, in tokens")

T_SWA_ADVANCE = Transition(
    "T-SWA-ADVANCE",
    "The SWA cursor moves up to e. SWA pages below e, which no later token reads, are freed.",
    by="the scheduler",
    stage="run",
    guard={
        "swa": config.swa & begun,
        "e": (e > req.E) & is_aligned(e) & (e <= floor_page(req.C - config.window)),
        "far": e + config.window + ONE_PAGE >= floor_page(req.C - config.window),
    },
    params=(e,),
    memory=(Mem(Move.FREE, EMPTY, Interval(maximum(req.Q, req.E), e)),),
    effect=assign((req.E, e)),
    means={"e": after(req.E) == e},
    allows=Allowance(
        config.swa
        & begun
        & is_aligned(given(e))
        & (given(e) > req.E)
        & (given(e) + config.window <= req.C)
        & (floor_page(req.C - config.window) <= given(e) + config.window + ONE_PAGE)
    ),
)

# A turn ends, or is interrupted ---------------------------------------------------

_trimmed = cut(req, answered)

T_SAVE = Transition(
    "T-SAVE",
    "A turn finishes. The history is now its prompt and the tokens that its client was told. trim "
    "cuts the KV to the history. The slot takes the KV, the row and the lock.",
    source="#22897, #22900",
    by="the scheduler",
    stage="finish",
    course="every request",
    guard={
        "turn": is_turn & session.inflight,
        "running": req.phase == RUNNING,
        "prefilled": req.prompt <= req.C,
        "published": answered >= req.Q,
    },
    reports=assign((this_step.final, TRUE), (this_step.finishes, TRUE)),
    memory=(_trimmed.memory,),
    effect={**to_slot(_trimmed), **turn_over, **assign((session.history, answered))},
    means={"kept": keeps(req, answered), **over},
    allows=Allowance(
        is_turn & (req.phase == RUNNING) & (req.prompt <= req.C) & (answered >= req.Q)
    ),
)

T_LATE_FINISH = Transition(
    "T-LATE-FINISH",
    "A request ends by a late result: the answer is complete. A turn's history is now its prompt "
    "and the tokens that its client was told. The request has no KV, and leaves no slot.",
    by="the scheduler",
    stage="finish",
    needs="a retraction that wipes",
    guard={
        "overlap": config.overlap & ~config.retract_keeps,
        "waiting": req.phase == WAITING,
        "no_slot": ~slot.holding,
        "output": req.output >= 1,
    },
    reports=assign((this_step.final, TRUE), (this_step.finishes, TRUE)),
    effect={**turn_over, **assign((session.history, ite(is_turn, answered, session.history)))},
    means=over,
    allows=Allowance(
        config.overlap & ~config.retract_keeps & waiting & ~slot.holding & (req.output > 0)
    ),
)

_abort_effect = {**no_slot, **turn_over}
everything = release(req, req_has_row, u, swa_u)
_abort_guard = {
    "turn": is_turn,
    "has_kv": has_kv,
    "own_slot": implies(slot.holding, slot.lent),
    **dropped(locks_either),
}

_abort_allowed = unlocking(is_turn & has_kv, locks_either)

T_ABORT = Transition(
    "T-ABORT",
    "A client aborts a matched, parked or running turn. The turn's private KV, row and lock are "
    "released, and the slot is removed. The history stays as the last finished turn left it.",
    source="#22790",
    by="a client",
    stage="abort",
    guard=_abort_guard,
    params=UNLOCK,
    reports=assign((this_step.final, TRUE)),
    memory=everything,
    effect=_abort_effect,
    means={**given_back, **aborted},
    allows=_abort_allowed,
)

T_ABORT_PUBLISH = Transition(
    "T-ABORT-PUBLISH",
    "A client aborts a running or parked turn as in T-ABORT, but KV in [Q, q) is published. The "
    "tree takes the pages that it lacks, and the row's duplicates of tree pages are freed.",
    by="a client",
    stage="abort",
    guard={**_abort_guard, "begun": begun, "publishes": config.abort_publishes, **insertable},
    params=(q, dup, swa_dup, u, swa_u),
    reports=assign((this_step.final, TRUE)),
    memory=(free_copies, to_tree, *release(req, req_has_row, u, swa_u, since=q)),
    effect=_abort_effect,
    means={**published, **aborted, "profile": config.abort_publishes},
    allows=unlocking(is_turn & begun & config.abort_publishes & legal_insert, locks_either),
)

T_OOM = replace(
    T_ABORT,
    id="T-OOM",
    sentence="The scheduler aborts a turn for lack of memory, as in T-ABORT. No other request has "
    "private KV, which a retraction could free.",
    by="the scheduler",
    source="",
    guard={**_abort_guard, "alone": (frame.uncached == 0) & (frame.swa_uncached == 0)},
    allows=unlocking(
        is_turn & has_kv & (frame.uncached <= 0) & (frame.swa_uncached <= 0), locks_either
    ),
)

_queued = {"turn": is_turn, "waiting": req.phase == WAITING, "not_lent": ~slot.lent}

T_ABORT_WAITING = Transition(
    "T-ABORT-WAITING",
    "A client aborts a waiting turn, which holds no memory. Nothing is freed.",
    by="a client",
    stage="abort",
    guard={**_queued, "covered": implies(slot.holding, session.history >= slot.C)},
    reports=assign((this_step.final, TRUE)),
    effect=turn_over,
    means=aborted,
    allows=Allowance(is_turn & waiting & ~partial_slot),
)

_to_history = cut(slot, session.history)

T_ABORT_PARTIAL = Transition(
    "T-ABORT-PARTIAL",
    "A client aborts a waiting turn whose slot has KV past the history. The slot is cut to the "
    "history. If the protected prefix is longer than the history, T-DISCARD comes first.",
    by="a client",
    stage="abort",
    guard={
        **_queued,
        "partial": slot.holding & (session.history < slot.C),
        "possible": session.history >= slot.Q,
    },
    reports=assign((this_step.final, TRUE)),
    memory=(_to_history.memory,),
    effect={**cut_lengths(slot, _to_history), **turn_over},
    means={"kept": keeps(slot, session.history), **aborted},
    allows=Allowance(conj(is_turn & waiting, partial_slot & (session.history >= slot.Q))),
)

T_RETRACT = Transition(
    "T-RETRACT",
    "The scheduler retracts a running or parked turn. The turn's KV of known tokens moves to the "
    "slot, which is created if absent. The turn waits and is still in flight.",
    source="#22862",
    by="the scheduler",
    stage="retract",
    guard={"turn": is_turn, "begun": begun, "answering": answering, "keeps": config.retract_keeps},
    effect={**to_slot(req), **assign((slot.C, minimum(req.C, known))), **back_to_waiting},
    means={"profile": config.retract_keeps & after(slot.holding), **waits},
    allows=Allowance(is_turn & begun & config.retract_keeps & (req.told >= req.output)),
)

T_RETRACT_WIPE = Transition(
    "T-RETRACT-WIPE",
    "The scheduler retracts a running or parked turn and releases the turn's KV and slot. The turn "
    "waits and is still in flight.",
    by="the scheduler",
    stage="retract",
    guard={
        "turn": is_turn,
        "begun": begun,
        "answering": answering,
        "wipes": ~config.retract_keeps,
        **dropped(locks_either),
    },
    params=UNLOCK,
    memory=everything,
    effect={**no_slot, **back_to_waiting},
    means={**given_back, "profile": ~config.retract_keeps & ~after(slot.holding), **waits},
    allows=unlocking(
        is_turn & begun & ~config.retract_keeps & (req.told >= req.output), locks_either
    ),
)

# The tree, and requests without a session -------------------------------------------

n = param("n", "full-pool tokens that the prefix tree evicts")
swa_n = param("swa_n", "sliding-window tokens that the prefix tree evicts")

T_EVICT = Transition(
    "T-EVICT",
    "The prefix tree evicts unlocked pages to the free list.",
    by="the tree",
    stage="retract",
    guard={"n": (n >= 0) & is_aligned(n), "swa_n": (swa_n >= 0) & is_aligned(swa_n)},
    params=(n, swa_n),
    reports=assign((this_step.evicted, n), (this_step.swa_evicted, swa_n)),
    memory=(Mem(Move.EVICT, count(n), count(swa_n)),),
    means={
        "n": gain(full.available) == n,
        "swa_n": implies(config.swa, gain(swa.available) == swa_n),
    },
    allows=Allowance(
        (given(n) >= 0)
        & is_aligned(given(n))
        & ((given(swa_n) >= 0) & is_aligned(given(swa_n)) & (config.swa | (given(swa_n) == 0)))
        & (given(n) <= full.evictable)
        & (given(swa_n) <= swa.evictable)
    ),
)

T_PLAIN_FINISH = Transition(
    "T-PLAIN-FINISH",
    "A request without a session finishes. The tree takes the KV of prompt and answer up to q, "
    "except for tokens of the last rounds. The remaining KV, the row and the lock are released.",
    by="the scheduler",
    stage="finish",
    course="every request",
    guard={
        "plain": is_plain,
        "running": req.phase == RUNNING,
        "prefilled": req.prompt <= req.C,
        **insertable,
        "answer": implies(req.E <= req.Q, q >= floor_page(minimum(req.C, certain))),
        **dropped(locks(req)),
    },
    params=(q, dup, swa_dup, u, swa_u),
    reports=assign((this_step.final, TRUE), (this_step.finishes, TRUE)),
    memory=(free_copies, to_tree, *release(req, req_has_row, u, swa_u, since=q)),
    effect=no_request,
    means={**published, **over},
    allows=unlocking(
        is_plain
        & (req.phase == RUNNING)
        & (req.prompt <= req.C)
        & legal_insert
        & ((req.E > req.Q) | (given(q) >= floor_page(req.C)) | (given(q) >= floor_page(certain))),
        locks(req),
    ),
)

T_PLAIN_ABORT = Transition(
    "T-PLAIN-ABORT",
    "A client aborts a request without a session. Its private KV, row and lock are released.",
    by="a client",
    stage="abort",
    guard={"plain": is_plain, **dropped(locks(req))},
    params=UNLOCK,
    reports=assign((this_step.final, TRUE)),
    memory=everything,
    effect=no_request,
    means={**given_back, **over},
    allows=unlocking(is_plain, locks(req)),
)

T_PLAIN_RETRACT = Transition(
    "T-PLAIN-RETRACT",
    "The scheduler retracts a running or parked request without a session. Its private KV, row and "
    "lock are released, and the request waits.",
    by="the scheduler",
    stage="retract",
    guard={"plain": is_plain, "begun": begun, "answering": answering, **dropped(locks(req))},
    params=UNLOCK,
    memory=everything,
    effect=back_to_waiting,
    means={**given_back, **waits},
    allows=unlocking(is_plain & begun & (req.told >= req.output), locks(req)),
)

TRANSITIONS: dict[str, Transition] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Transition)
}
