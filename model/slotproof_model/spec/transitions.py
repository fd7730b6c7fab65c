"""Every transition of a session slot and of the life around it.

Read top to bottom. ``req`` is the actor's request: a turn of the session, or one
without a session. Lengths in tokens; P is the page size, ⌈·⌉ and ⌊·⌋ round
to it. Pools and rows change only through the ``memory`` of a transition.

One long file on purpose: this and the invariants are what a reviewer reads.
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
)
from slotproof_model.spec.transition import Allowance, Transition, assign, given, param

u = param(
    "u",
    "tokens of the tree: where a lock is taken, those that nobody had locked (evictable → "
    "protected); where it is dropped, those that nobody else locks (back)",
)
swa_u = param("swa_u", "the same of the sliding-window pool")
swa_x = param("swa_x", "sliding-window tokens that nobody locks any more after the insert")
q = param("q", "the position up to which the tree has the row's tokens from now on")
dup = param("dup", "tokens from Q on that the tree had already: the row's own pages are freed")
swa_dup = param("swa_dup", "the same of the sliding-window pool")
LOCK = (u, swa_u)


# Shared pieces -------------------------------------------------------------


def clear(kv: Kv) -> dict[str, Expr]:
    return assign((kv.row, NO_ROW), (kv.C, 0), (kv.A, 0), (kv.Q, 0), (kv.E, 0), (kv.locked, FALSE))


no_slot = {**assign((slot.holding, FALSE), (slot.lent, FALSE)), **clear(slot)}
no_request = {
    **assign((req.kind, NONE), (req.phase, ABSENT), (req.prompt, 0), (req.output, 0)),
    **clear(req),
}
back_to_waiting = {**assign((req.phase, WAITING)), **clear(req)}
turn_over = {**no_request, **assign((session.inflight, FALSE))}


class Cut(NamedTuple):
    """KV cut at position m, and what that gives back."""

    m: Expr
    memory: Mem
    C: Expr
    A: Expr
    E: Expr


def cut(kv: Kv, n: Operand) -> Cut:
    """The one rule behind free_tail and trim: keep at most n positions (#22862, #22900).

    A cut inside a page below the cursor would hand that page back twice, so it moves down. Where
    slack is kept, nothing is given back but for that: only what counts as valid is cut.
    """
    m = ite(n >= kv.E, n, floor_page(n))
    room = ite(config.keeps_slack & (n >= kv.E), kv.A, m)
    gone = free(kv, ceil_page(room), ceil_page(kv.A))
    return Cut(m, gone, minimum(kv.C, m), minimum(kv.A, room), minimum(kv.E, m))


def cut_lengths(kv: Kv, of: Kv | Cut) -> dict[str, Expr]:
    """C, A and E are those of what is left; Q and the row stay."""
    return assign((kv.C, of.C), (kv.A, of.A), (kv.E, of.E))


def to_slot(left: Kv | Cut) -> dict[str, Expr]:
    """What is left of the turn's KV, its row and lock become (or stay) the slot's."""
    return {
        **assign((slot.holding, TRUE), (slot.lent, FALSE)),
        **assign((slot.row, req.row), (slot.Q, req.Q), (slot.locked, TRUE)),
        **cut_lengths(slot, left),
    }


def dropped(mine: Expr) -> dict[str, Expr]:
    """Legality of an unlock of so many tokens: u of them were locked by nobody else."""
    left = frame.lock_sum + lock_sum - mine
    return {
        "u": (u >= 0) & is_aligned(u) & (u <= mine),
        "u_others": (frame.lock_max <= full.protected - u) & (full.protected - u <= left),
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, mine, 0)),
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
"""Which pages of each pool go to the tree: up to q, but those that it free_copies."""
published = {
    "dup": dup == gain(full.available) - (_rounded - q),
    "swa_dup": implies(config.swa, swa_dup == gain(swa.available) - (_rounded - maximum(q, req.E))),
    **given_back,
    **to_tree_pages,
}
"""What parameters mean where KV is given back, and where some of it goes to the tree."""


def unchanged(*figures: Var) -> Expr:
    return conj(*(after(each) == each for each in figures))


over = {"ends": after(req.kind) == NONE}
aborted = {**over, "history": unchanged(session.history)}
waits = {"waits": after(req.phase) == WAITING}
session_stays = {"stays": unchanged(session.open, req.kind, req.phase)}
"""What becomes of the request, and of the session, as the sentences say."""


def keeps(kv: Kv, upto: Expr) -> Expr:
    """A cut keeps every valid position that it may: recomputing them would be a waste."""
    return implies(upto >= kv.E, after(slot.C) == minimum(kv.C, upto))


_cursor = maximum(req.Q, req.E)
free_copies = Mem(Move.FREE, Interval(req.Q, req.Q + dup), Interval(_cursor, _cursor + swa_dup))
"""What the tree had of [Q, q) comes first in it: the row's own pages of that are freed,"""
to_tree = Mem(Move.TO_TREE, Interval(req.Q + dup, q), Interval(_cursor + swa_dup, q))
"""and the rest of it is the tree's."""

insertable = {
    "q": (q >= req.Q) & (q <= floor_page(minimum(req.C, known))) & is_aligned(q),
    "dup": (dup >= 0) & (dup <= q - req.Q) & is_aligned(dup),
    "swa_dup": (swa_dup >= 0)
    & is_aligned(swa_dup)
    & (swa_dup <= maximum(0, req.Q + dup - maximum(req.Q, req.E))),
}


# Sessions ------------------------------------------------------------------

T_OPEN = Transition(
    "T-OPEN",
    "A client opens a session: empty history, no slot, nothing in flight.",
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
    "A session with nothing in flight is closed: its slot is released at once.",
    by="a client",
    stage="session",
    guard={
        "open": session.open & ~session.closing,
        "idle": ~session.inflight,
        **dropped(locks(slot)),
    },
    params=LOCK,
    memory=release(slot, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.closing & ~session.inflight, locks(slot)),
)

T_CLOSE_DEFER = Transition(
    "T-CLOSE-DEFER",
    "A close that finds a turn in flight waits for it; no new turn is taken.",
    source="#21875",
    by="a client",
    stage="session",
    guard={"open": session.open & ~session.closing, "busy": session.inflight},
    effect=assign((session.closing, TRUE)),
    means=session_stays,
    allows=Allowance(session.inflight & ~session.closing),
)

T_REAP = Transition(
    "T-REAP",
    "A deferred close happens, or an idle session times out (time is environment).",
    by="time",
    stage="session",
    guard={"open": session.open, "idle": ~session.inflight, **dropped(locks(slot))},
    params=LOCK,
    memory=release(slot, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.inflight, locks(slot)),
)

# A turn is queued, or is not ------------------------------------------------

new = param("new", "tokens that the client adds to the history")
prompt = param("prompt", "tokens of its prompt")

T_SUBMIT = Transition(
    "T-SUBMIT",
    "A turn is queued: its prompt is the history and new tokens; it is now in flight.",
    by="a client",
    stage="queue",
    course="every request",
    guard={
        "open": session.open & ~session.closing,
        "idle": ~session.inflight,
        "nonempty": (new >= 0) & (session.history + new >= 1),
    },
    params=(new,),
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
    "A turn while one is in flight becomes a stub: turn, slot and history stay as they are.",
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
    "A turn known to be aborted leaves its session before it is matched; the slot is untouched.",
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
    "A request without a session is queued.",
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

m = param("m", "tokens of the prompt that the tree has, and the request may reuse")

_points_below_m = implies(after(page.here), after(page.at) < m)
"""What is matched, and no more, is what the row points to."""

T_MATCH = Transition(
    "T-MATCH",
    "A request without a slot to restore locks what the tree has of its prompt: Q = m; in the "
    "sliding-window pool, at least its window.",
    by="the scheduler",
    stage="match",
    course="every request",
    guard={
        "waiting": req.phase == WAITING,
        "no_slot": is_plain | (is_turn & ~slot.holding),
        "m": (m >= 0) & is_aligned(m) & (m <= known - config.reserve) & (m <= config.width),
        "u": (u >= 0) & is_aligned(u) & (u <= m) & (m <= full.protected + u),
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, m, 0)),
        "window": ite(config.swa, m - floor_page(maximum(0, m - config.window)), 0)
        <= swa.protected + swa_u,
    },
    params=(m, u, swa_u),
    memory=(point(0, m), lock(u, swa_u)),
    effect=assign(
        (req.phase, MATCHED), (req.C, m), (req.A, m), (req.Q, m), (req.E, 0), (req.locked, TRUE)
    ),
    means={
        "m": after(req.Q) == m,
        "u": gain(full.protected) == u,
        "swa_u": gain(swa.protected) == swa_u,
        "full": _points_below_m,
        "swa": _points_below_m,
    },
    allows=Allowance(
        waiting & (is_plain | ~slot.holding) & legal_match, {"u": fresh, "swa_u": swa_fresh}
    ),
)

_n = minimum(slot.C, known - config.reserve)
reusable = ite(config.aligned_reuse, floor_page(_n), _n)
_restored = cut(slot, reusable)

T_RESTORE = Transition(
    "T-RESTORE",
    "The slot's KV goes on loan to its turn, after free_tail cut it to what is reusable: whole "
    "pages past that are freed.",
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
    "The slot is released while the session stays open: memory pressure, no reusable prefix, "
    "or a lost window.",
    by="the scheduler",
    stage="match",
    guard={"holding": slot.holding, "not_lent": ~slot.lent, **dropped(locks(slot))},
    params=LOCK,
    memory=release(slot, TRUE, u, swa_u),
    effect=no_slot,
    means={**given_back, **session_stays},
    allows=unlocking(slot.holding & ~slot.lent, locks(slot)),
)

T_REFUSE = Transition(
    "T-REFUSE",
    "No budget for a matched request this time: it waits again, the slot is as free_tail left it, "
    "nothing is on loan; without a slot the lock is dropped.",
    source="#20476, #22753",
    by="the scheduler",
    stage="match",
    guard={"matched": req.phase == MATCHED, **dropped(locks(req))},
    params=LOCK,
    memory=(unlock(u, swa_u),),
    effect={**back_to_waiting, **assign((slot.lent, FALSE))},
    means={**given_back, **waits},
    allows=unlocking(req.phase == MATCHED, locks(req)),
)

# Running -----------------------------------------------------------------------

t = param("t", "positions that have KV from now on")
sampled = param("sampled", "1 where a token was sampled, 0 after a chunk of the prefill")
row = param("row", "the line of req_to_token that it writes to")

T_EXTEND = Transition(
    "T-EXTEND",
    "Prefill up to position t; when nothing is left to prefill one token may be sampled.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "matched": (req.phase == MATCHED) | (req.phase == PARKED),
        "t": (t >= req.C) & (t <= known) & (t <= config.width),
        "sampled": (sampled >= 0) & (sampled <= 1) & implies(sampled == 1, t == known),
        "row": (row >= 0) & implies(req_has_row, row == req.row),
    },
    params=(t, sampled, row),
    memory=(take_row(~req_has_row), alloc(ceil_page(req.A), ceil_page(t))),
    effect=assign(
        (req.phase, RUNNING),
        (req.output, req.output + sampled),
        (req.row, row),
        (req.C, t),
        (req.A, maximum(req.A, t)),
    ),
    means={
        "t": after(req.C) == t,
        "sampled": gain(req.output) == sampled,
        "row": after(req.row) == row,
    },
    allows=Allowance(
        conj(
            (req.phase == MATCHED) | (req.phase == PARKED),
            given(t) >= req.C,
            given(t) <= known,
            given(t) <= config.width,
            (given(sampled) == 0) | ((given(sampled) == 1) & (given(t) == known)),
            ite(req.row == NO_ROW, (given(row) >= 0) & (rows.free >= 1), given(row) == req.row),
            room(ceil_page(given(t)) - ceil_page(req.A)),
        )
    ),
)

T_PARK = Transition(
    "T-PARK",
    "Between two chunks of its prefill a request is parked: in no batch, but it keeps its KV.",
    source="#37502",
    by="the scheduler",
    stage="run",
    needs="chunked prefill",
    guard={"running": req.phase == RUNNING, "unfinished": known > req.C},
    effect=assign((req.phase, PARKED)),
    allows=Allowance((req.phase == RUNNING) & (known > req.C)),
)

_point_to_tree = Mem(Move.POINT, free_copies.full, free_copies.swa)
"""Where the tree has the same tokens already, the row points to its pages from now on."""

T_INSERT = Transition(
    "T-INSERT",
    "Valid KV of a request without a slot is shared up to q: where the tree has these tokens "
    "already, the row's pages are freed and it points to the tree's; the rest becomes the tree's. "
    "[0, q) is locked, in the sliding-window pool at least its window. Where loans publish, so is "
    "that of a turn that has its slot on loan: the slot then describes the same KV as the turn.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "begun": begun,
        "not_lent": ~slot.lent | config.loan_publishes,
        **insertable,
        "u": (q - req.Q - dup <= u) & is_aligned(u) & (u <= q - req.Q),
        "protects": q <= full.protected + u,
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, q, 0)),
        "swa_x": (swa_x >= 0) & is_aligned(swa_x) & (swa_x <= ite(config.swa, req.Q, 0)),
        "swa_bounded": (swa_x <= swa.protected)
        & (swa.protected - swa_x + swa_u <= frame.lock_sum + q),
    },
    params=(q, dup, swa_dup, u, swa_u, swa_x),
    memory=(
        free_copies,
        to_tree,
        _point_to_tree,
        lock(u, swa_u),
        Mem(Move.UNLOCK, EMPTY, count(swa_x)),
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
        "u": gain(full.protected) == u,
        "swa_u": gain(swa.protected) == swa_u - swa_x,
        **to_tree_pages,
    },
    allows=Allowance(
        conj(
            begun & (~slot.lent | config.loan_publishes),
            legal_insert,
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
        {"u": fresh, "swa_u": swa_fresh, "swa_x": swa_unlocked},
    ),
)

d = param("d", "positions that the round allocates")
k = param("k", "tokens that the round commits")

T_DECODE = Transition(
    "T-DECODE",
    "One decoding round: d tokens allocated, k committed. Plain decoding has d = k = 1; a "
    "speculative round may commit from slack allocated before.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "overlap": ~config.overlap,
        "running": req.phase == RUNNING,
        "prefilled": known - 1 <= req.C,
        "d": d >= 0,
        "k": (k >= 0) & (req.C + k <= req.A + d),
        "width": req.A + d <= config.width,
    },
    params=(d, k),
    memory=(alloc(ceil_page(req.A), ceil_page(req.A + d)),),
    effect=assign((req.A, req.A + d), (req.C, req.C + k), (req.output, req.output + k)),
    means={
        "d": gain(req.A) == d,
        "k": (gain(req.C) == k) & (gain(req.output) == k),
        "profile": ~config.overlap,
    },
    allows=Allowance(
        conj(
            ~config.overlap & (req.phase == RUNNING) & (known <= req.C + 1),
            given(d) >= 0,
            given(k) >= 0,
            req.C + given(k) <= req.A + given(d),
            req.A + given(d) <= config.width,
            room(ceil_page(req.A + given(d)) - ceil_page(req.A)),
        )
    ),
)

T_LAUNCH = Transition(
    "T-LAUNCH",
    "A decoding round is launched before the result of the one before is known: d tokens "
    "allocated, KV for k computed, of which one token may not be known yet.",
    by="the scheduler",
    stage="run",
    guard={
        "overlap": config.overlap,
        "running": req.phase == RUNNING,
        "prefilled": known - 1 <= req.C,
        "d": d >= 0,
        "k": (k >= 0) & (req.C + k <= req.A + d),
        "ahead": req.C + k <= known + 1,
        "width": req.A + d <= config.width,
    },
    params=(d, k),
    memory=(alloc(ceil_page(req.A), ceil_page(req.A + d)),),
    effect=assign((req.A, req.A + d), (req.C, req.C + k)),
    means={
        "d": gain(req.A) == d,
        "k": gain(req.C) == k,
        "unknown": unchanged(req.output),
        "profile": config.overlap,
    },
    allows=Allowance(
        conj(
            config.overlap & (req.phase == RUNNING) & (known <= req.C + 1),
            given(d) >= 0,
            given(k) >= 0,
            req.C + given(k) <= req.A + given(d),
            req.C + given(k) <= known + 1,
            req.A + given(d) <= config.width,
            room(ceil_page(req.A + given(d)) - ceil_page(req.A)),
        )
    ),
)

n = param("n", "tokens that become known")

T_RESULT = Transition(
    "T-RESULT",
    "The result of a round that was launched reaches the scheduler: n tokens become known, k of "
    "them by a speculative round, whose KV counts from now on.",
    by="the scheduler",
    stage="run",
    guard={
        "overlap": config.overlap,
        "running": req.phase == RUNNING,
        "k": (k >= 0) & (req.C + k <= req.A),
        "n": (n >= k) & (known + n <= req.C + k + 1),
    },
    params=(k, n),
    effect=assign((req.C, req.C + k), (req.output, req.output + n)),
    means={"k": gain(req.C) == k, "n": gain(req.output) == n, "profile": config.overlap},
    allows=Allowance(
        conj(
            config.overlap & (req.phase == RUNNING),
            given(k) >= 0,
            given(k) <= given(n),
            req.C + given(k) <= req.A,
            known + given(n) <= req.C + given(k) + 1,
        )
    ),
)

e = param("e", "the new cursor")

T_SWA_ADVANCE = Transition(
    "T-SWA-ADVANCE",
    "The SWA cursor moves up to e: no later token's window reaches below it.",
    by="the scheduler",
    stage="run",
    guard={
        "swa": config.swa & begun,
        "e": (e > req.E) & is_aligned(e) & (e <= floor_page(req.C - config.window)),
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
    ),
)

# A turn ends, or is interrupted ---------------------------------------------------

F = param("F", "tokens of the answer that count: those up to its end")
_target = req.prompt + F
_trimmed = cut(req, _target)

T_SAVE = Transition(
    "T-SAVE",
    "A turn finishes with F output tokens: what speculation left past them is trimmed, its KV "
    "goes to the slot, the history grows, nothing is in flight.",
    source="#22897, #22900",
    by="the scheduler",
    stage="finish",
    course="every request",
    guard={
        "turn": is_turn & session.inflight,
        "running": req.phase == RUNNING,
        "F": (F >= 0) & (req.output >= F) & (_target >= req.Q),
        "prefilled": req.prompt <= req.C,
    },
    params=(F,),
    memory=(_trimmed.memory,),
    effect={**to_slot(_trimmed), **turn_over, **assign((session.history, _target))},
    means={
        "F": after(session.history) == req.prompt + F,
        "kept": keeps(req, req.prompt + F),
        **over,
    },
    allows=Allowance(
        conj(
            is_turn & (req.phase == RUNNING),
            req.prompt <= req.C,
            given(F) >= 0,
            req.output >= given(F),
            req.prompt + given(F) >= req.Q,
        )
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
    "A matched, parked or running turn is aborted: all its KV, its row and its lock go back and "
    "the slot disappears; the history stays as after the last finished turn.",
    source="#22790",
    by="a client",
    stage="abort",
    guard=_abort_guard,
    params=LOCK,
    memory=everything,
    effect=_abort_effect,
    means={**given_back, **aborted},
    allows=_abort_allowed,
)

T_ABORT_PUBLISH = Transition(
    "T-ABORT-PUBLISH",
    "A running or parked turn is aborted as by T-ABORT, but [Q, q) goes to the tree, or is freed "
    "where the tree had it.",
    by="a client",
    stage="abort",
    guard={**_abort_guard, "begun": begun, "publishes": config.abort_publishes, **insertable},
    params=(q, dup, swa_dup, u, swa_u),
    memory=(free_copies, to_tree, *release(req, req_has_row, u, swa_u, since=q)),
    effect=_abort_effect,
    means={**published, **aborted, "profile": config.abort_publishes},
    allows=unlocking(is_turn & begun & config.abort_publishes & legal_insert, locks_either),
)

T_OOM = replace(
    T_ABORT,
    id="T-OOM",
    sentence="A turn that is alone and outgrows the pool ends as an abort with a message.",
    by="the scheduler",
    source="",
)

_queued = {"turn": is_turn, "waiting": req.phase == WAITING, "not_lent": ~slot.lent}

T_ABORT_WAITING = Transition(
    "T-ABORT-WAITING",
    "A queued turn is aborted: it holds nothing and frees nothing.",
    by="a client",
    stage="abort",
    guard={**_queued, "covered": implies(slot.holding, session.history >= slot.C)},
    effect=turn_over,
    means=aborted,
    allows=Allowance(is_turn & waiting & ~partial_slot),
)

_to_history = cut(slot, session.history)

T_ABORT_PARTIAL = Transition(
    "T-ABORT-PARTIAL",
    "A queued turn that a retract left with a partial slot is aborted: the slot is cut to the "
    "history (where that is impossible it is discarded first).",
    by="a client",
    stage="abort",
    guard={
        **_queued,
        "partial": slot.holding & (session.history < slot.C),
        "possible": session.history >= slot.Q,
    },
    memory=(_to_history.memory,),
    effect={**cut_lengths(slot, _to_history), **turn_over},
    means={"kept": keeps(slot, session.history), **aborted},
    allows=Allowance(conj(is_turn & waiting, partial_slot & (session.history >= slot.Q))),
)

T_RETRACT = Transition(
    "T-RETRACT",
    "A turn is taken out of the batch, or from between two chunks, and keeps its KV in the slot, "
    "made if absent; it waits and is still in flight.",
    source="#22862",
    by="the scheduler",
    stage="retract",
    guard={
        "turn": is_turn,
        "begun": begun,
        "keeps": config.retract_keeps,
        "covered": known >= req.C,
    },
    effect={**to_slot(req), **back_to_waiting},
    means={"profile": config.retract_keeps & after(slot.holding), **waits},
    allows=Allowance(is_turn & begun & config.retract_keeps & (known >= req.C)),
)

T_RETRACT_WIPE = Transition(
    "T-RETRACT-WIPE",
    "A turn is taken out of the batch, or from between two chunks, and gives up all its KV and "
    "its slot; it waits and is still in flight.",
    by="the scheduler",
    stage="retract",
    guard={
        "turn": is_turn,
        "begun": begun,
        "wipes": ~config.retract_keeps,
        **dropped(locks_either),
    },
    params=LOCK,
    memory=everything,
    effect={**no_slot, **back_to_waiting},
    means={**given_back, "profile": ~config.retract_keeps & ~after(slot.holding), **waits},
    allows=unlocking(is_turn & begun & ~config.retract_keeps, locks_either),
)

# The tree, and requests without a session -------------------------------------------

n = param("n", "tokens that the tree gives up")
swa_n = param("swa_n", "the same of the sliding-window pool")

T_EVICT = Transition(
    "T-EVICT",
    "The tree gives up unlocked pages.",
    by="the tree",
    stage="retract",
    guard={"n": (n >= 0) & is_aligned(n), "swa_n": (swa_n >= 0) & is_aligned(swa_n)},
    params=(n, swa_n),
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
    "A request without a session ends: prompt and output go to the tree up to q, the rest is "
    "freed, its lock and its row are given back.",
    by="the scheduler",
    stage="finish",
    course="every request",
    guard={"plain": is_plain, "running": req.phase == RUNNING, **insertable, **dropped(locks(req))},
    params=(q, dup, swa_dup, u, swa_u),
    memory=(free_copies, to_tree, *release(req, req_has_row, u, swa_u, since=q)),
    effect=no_request,
    means={**published, **over},
    allows=unlocking(is_plain & (req.phase == RUNNING) & legal_insert, locks(req)),
)

T_PLAIN_ABORT = Transition(
    "T-PLAIN-ABORT",
    "A request without a session is aborted, queued or running: whatever it holds goes back.",
    by="a client",
    stage="abort",
    guard={"plain": is_plain, **dropped(locks(req))},
    params=LOCK,
    memory=everything,
    effect=no_request,
    means={**given_back, **over},
    allows=unlocking(is_plain, locks(req)),
)

T_PLAIN_RETRACT = Transition(
    "T-PLAIN-RETRACT",
    "A request without a session is taken out of the batch, or from between two chunks, and gives "
    "everything back; it waits.",
    by="the scheduler",
    stage="retract",
    guard={"plain": is_plain, "begun": begun, **dropped(locks(req))},
    params=LOCK,
    memory=everything,
    effect=back_to_waiting,
    means={**given_back, **waits},
    allows=unlocking(is_plain & begun, locks(req)),
)

TRANSITIONS: dict[str, Transition] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Transition)
}
