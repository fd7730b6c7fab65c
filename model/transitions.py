"""Every transition of a session slot and of the life around it.

Read top to bottom. ``turn`` is the actor's request: a turn of the session, or
a request without one. Lengths in tokens; P is the page size, ⌈·⌉ and ⌊·⌋ round
to it. Pools and rows change only through the ``memory`` of a transition.

One long file on purpose: this and the invariants are what a reviewer reads.
"""

from __future__ import annotations

from slotproof.model.allowances import (
    fresh,
    inserted,
    matched,
    partial_slot,
    relock,
    reuse,
    room,
    some,
    swa_fresh,
    unlocking,
    waiting,
    window_alive,
)
from slotproof.model.language import *

u, swa_u, swa_x = param("u"), param("swa_u"), param("swa_x")
dup, swa_dup, q = param("dup"), param("swa_dup"), param("q")
LOCK = (u, swa_u)


# Shared pieces -------------------------------------------------------------


def clear(kv: Kv) -> dict[str, Expr]:
    return assign((kv.row, NO_ROW), (kv.C, 0), (kv.A, 0), (kv.Q, 0), (kv.E, 0), (kv.locked, FALSE))


no_slot = {**assign((slot.holding, FALSE), (slot.lent, FALSE)), **clear(slot_kv)}
no_turn = {
    **assign((turn.kind, NONE), (turn.phase, ABSENT), (turn.prompt, 0), (turn.output, 0)),
    **clear(turn_kv),
}
back_to_waiting = {**assign((turn.phase, WAITING)), **clear(turn_kv)}
turn_over = {**no_turn, **assign((session.inflight, FALSE))}


def cut(kv: Kv, n: Operand) -> tuple[Expr, Mem, tuple[Expr, Expr, Expr]]:
    """The one rule behind free_tail and trim: keep at most n positions (#22862, #22900).

    Returns m, the memory given back, and the new C, A, E. A cut inside a page
    at or below the cursor would hand that page back twice, so it moves down.
    """
    m = ite(n >= kv.E, n, floor_page(n))
    gone = free(kv, ceil_page(m), ceil_page(kv.A))
    return m, gone, (minimum(kv.C, m), minimum(kv.A, m), minimum(kv.E, m))


def kept(kv: Kv, lengths: tuple[Expr, Expr, Expr]) -> dict[str, Expr]:
    return assign(*zip((kv.C, kv.A, kv.E), lengths, strict=True))


def to_slot(lengths: tuple[Expr, Expr, Expr]) -> dict[str, Expr]:
    """The turn's KV, row and lock become (or stay) the slot's; nothing is on loan."""
    return {
        **assign((slot.holding, TRUE), (slot.lent, FALSE)),
        **assign((slot_kv.row, turn_kv.row), (slot_kv.Q, turn_kv.Q), (slot_kv.locked, TRUE)),
        **kept(slot_kv, lengths),
    }


def dropped(locked: Expr, length: Operand) -> dict[str, Expr]:
    """Legality of an unlock: u tokens were locked by nobody else."""
    mine = ite(locked, length, 0)
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
_rounded = ceil_page(turn_kv.A)
to_tree_pages = {
    "full": implies(after(page.tree) > page.tree, (turn_kv.Q + dup <= page.at) & (page.at < q)),
    "swa": implies(
        after(page.tree) > page.tree,
        (maximum(turn_kv.Q, turn_kv.E) + swa_dup <= page.at) & (page.at < q),
    ),
}
"""Which pages go to the tree: up to q, but those that it had."""
published = {
    "dup": dup == gain(full.available) - (_rounded - q),
    "swa_dup": implies(
        config.swa, swa_dup == gain(swa.available) - (_rounded - maximum(q, turn_kv.E))
    ),
    **given_back,
    **to_tree_pages,
}
"""What parameters mean where KV is given back, and where some of it goes to the tree."""


def unchanged(*figures: Var) -> Expr:
    return conj(*(after(each) == each for each in figures))


over = {"ends": after(turn.kind) == NONE}
aborted = {**over, "history": unchanged(session.history)}
waits = {"waits": after(turn.phase) == WAITING}
session_stays = {"stays": unchanged(session.open, turn.kind, turn.phase)}
"""What becomes of the request, and of the session, as the sentences say."""


def keeps(kv: Kv, upto: Expr) -> Expr:
    """A cut keeps every valid position that it may: recomputing them would break no invariant."""
    return implies(upto >= kv.E, after(slot_kv.C) == minimum(kv.C, upto))


def to_tree(upto: Var) -> tuple[Mem, Mem]:
    """Private [Q, upto) goes to the tree but for what it had: dup tokens are freed."""
    cursor = maximum(turn_kv.Q, turn_kv.E)
    return (
        Mem(Move.FREE, Interval(turn_kv.Q, turn_kv.Q + dup), Interval(cursor, cursor + swa_dup)),
        Mem(Move.TO_TREE, Interval(turn_kv.Q + dup, upto), Interval(cursor + swa_dup, upto)),
    )


insertable = {
    "q": (q >= turn_kv.Q) & (q <= floor_page(minimum(turn_kv.C, known))) & is_aligned(q),
    "dup": (dup >= 0) & (dup <= q - turn_kv.Q) & is_aligned(dup),
    "swa_dup": (swa_dup >= 0)
    & is_aligned(swa_dup)
    & (swa_dup <= maximum(0, turn_kv.Q + dup - maximum(turn_kv.Q, turn_kv.E))),
}


# Sessions ------------------------------------------------------------------

T_OPEN = Transition(
    "T-OPEN",
    "A client opens a session: empty history, no slot, nothing in flight.",
    by="a client",
    stage="session",
    course="every request",
    guard={"closed": ~session.open & (turn.kind == NONE)},
    effect=assign(
        (session.open, TRUE),
        (session.closing, FALSE),
        (session.inflight, FALSE),
        (session.history, 0),
    ),
    allows=Allowance(~session.open & (turn.kind == NONE)),
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
        **dropped(slot_kv.locked, slot_kv.Q),
    },
    params=LOCK,
    memory=release(slot_kv, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.closing & ~session.inflight, slot_kv.locked, slot_kv),
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
    guard={"open": session.open, "idle": ~session.inflight, **dropped(slot_kv.locked, slot_kv.Q)},
    params=LOCK,
    memory=release(slot_kv, slot.holding, u, swa_u),
    effect=session_over,
    means={**given_back, "closed": ~after(session.open)},
    allows=unlocking(session.open & ~session.inflight, slot_kv.locked, slot_kv),
)

# A turn is queued, or is not ------------------------------------------------

new, prompt = param("new"), param("prompt")

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
        (turn.kind, TURN),
        (turn.phase, WAITING),
        (turn.prompt, session.history + new),
        (turn.output, 0),
        (session.inflight, TRUE),
    ),
    means={"new": after(turn.prompt) == session.history + new, "nonempty": after(turn.prompt) >= 1},
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
        "waiting": turn.phase == WAITING,
        "covered": implies(slot.holding, session.history >= slot_kv.C),
        "prompt": prompt >= 0,
    },
    params=(prompt,),
    effect=turn_over,
    detaches="doomed",
    means={"doomed": turn.kind == TURN, **aborted},
    allows=Allowance(is_turn & waiting & ~partial_slot & (some >= 0), {"prompt": some}),
)

T_PLAIN_SUBMIT = Transition(
    "T-PLAIN-SUBMIT",
    "A request without a session is queued.",
    by="a client",
    stage="queue",
    course="every request",
    guard={
        "new": turn.kind == NONE,
        "no_session": ~session.open & ~session.inflight,
        "nonempty": prompt >= 1,
    },
    params=(prompt,),
    effect=assign(
        (turn.kind, PLAIN), (turn.phase, WAITING), (turn.prompt, prompt), (turn.output, 0)
    ),
    means={"prompt": after(turn.prompt) == prompt},
    allows=Allowance((turn.kind == NONE) & ~session.open & (some >= 1), {"prompt": some}),
)

# Matching --------------------------------------------------------------------

m = param("m")

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
        "waiting": turn.phase == WAITING,
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
        (turn.phase, MATCHED),
        (turn_kv.C, m),
        (turn_kv.A, m),
        (turn_kv.Q, m),
        (turn_kv.E, 0),
        (turn_kv.locked, TRUE),
    ),
    means={
        "m": after(turn_kv.Q) == m,
        "u": gain(full.protected) == u,
        "swa_u": gain(swa.protected) == swa_u,
        "full": _points_below_m,
        "swa": _points_below_m,
    },
    allows=Allowance(
        waiting & (is_plain | ~slot.holding) & matched, {"u": fresh, "swa_u": swa_fresh}
    ),
)

_n = minimum(slot_kv.C, known - config.reserve)
reusable = ite(config.aligned_reuse, floor_page(_n), _n)
_m, _tail, _cut = cut(slot_kv, reusable)
_window_alive = _cut[2] <= maximum(0, _m - config.window)

T_RESTORE = Transition(
    "T-RESTORE",
    "The slot's KV goes on loan to its turn, after free_tail gave back what lies past the "
    "matched prefix, from the next page boundary on.",
    source="#20070, #20476, #22213, #22862, #32163",
    by="the scheduler",
    stage="match",
    course="every later turn",
    guard={
        "turn": is_turn & (turn.phase == WAITING),
        "holding": slot.holding,
        "not_lent": ~slot.lent,
        "prefix": reusable >= slot_kv.Q,
        "window": _window_alive,
    },
    memory=(_tail,),
    effect={
        **kept(slot_kv, _cut),
        **kept(turn_kv, _cut),
        **assign((turn_kv.row, slot_kv.row), (turn_kv.Q, slot_kv.Q), (turn_kv.locked, FALSE)),
        **assign((slot.lent, TRUE), (turn.phase, MATCHED)),
    },
    allows=Allowance(is_turn & waiting & slot.holding & (reuse >= slot_kv.Q) & window_alive),
)

T_DISCARD = Transition(
    "T-DISCARD",
    "The slot is released while the session stays open: memory pressure, no reusable prefix, "
    "or a lost window.",
    by="the scheduler",
    stage="match",
    guard={"holding": slot.holding, "not_lent": ~slot.lent, **dropped(slot_kv.locked, slot_kv.Q)},
    params=LOCK,
    memory=release(slot_kv, TRUE, u, swa_u),
    effect=no_slot,
    means={**given_back, **session_stays},
    allows=unlocking(slot.holding & ~slot.lent, slot_kv.locked, slot_kv),
)

T_REFUSE = Transition(
    "T-REFUSE",
    "No budget for a matched request this time: it waits again, the slot is as free_tail left it, "
    "nothing is on loan; without a slot the lock is dropped.",
    source="#20476, #22753",
    by="the scheduler",
    stage="match",
    guard={"matched": turn.phase == MATCHED, **dropped(turn_kv.locked, turn_kv.Q)},
    params=LOCK,
    memory=(unlock(u, swa_u),),
    effect={**back_to_waiting, **assign((slot.lent, FALSE))},
    means={**given_back, **waits},
    allows=unlocking(turn.phase == MATCHED, turn_kv.locked, turn_kv),
)

# Running -----------------------------------------------------------------------

t, sampled, row = param("t"), param("sampled"), param("row")

T_EXTEND = Transition(
    "T-EXTEND",
    "Prefill up to position t; when nothing is left to prefill one token may be sampled.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "matched": (turn.phase == MATCHED) | (turn.phase == PARKED),
        "t": (t >= turn_kv.C) & (t <= known) & (t <= config.width),
        "sampled": (sampled >= 0) & (sampled <= 1) & implies(sampled == 1, t == known),
        "row": (row >= 0) & implies(turn_row, row == turn_kv.row),
    },
    params=(t, sampled, row),
    memory=(take_row(~turn_row), alloc(ceil_page(turn_kv.A), ceil_page(t))),
    effect=assign(
        (turn.phase, RUNNING),
        (turn.output, turn.output + sampled),
        (turn_kv.row, row),
        (turn_kv.C, t),
        (turn_kv.A, maximum(turn_kv.A, t)),
    ),
    means={
        "t": after(turn_kv.C) == t,
        "sampled": gain(turn.output) == sampled,
        "row": after(turn_kv.row) == row,
    },
    allows=Allowance(
        conj(
            (turn.phase == MATCHED) | (turn.phase == PARKED),
            given(t) >= turn_kv.C,
            given(t) <= known,
            given(t) <= config.width,
            (given(sampled) == 0) | ((given(sampled) == 1) & (given(t) == known)),
            ite(
                turn_kv.row == NO_ROW,
                (given(row) >= 0) & (rows.free >= 1),
                given(row) == turn_kv.row,
            ),
            room(ceil_page(given(t)) - ceil_page(turn_kv.A)),
        )
    ),
)

T_PARK = Transition(
    "T-PARK",
    "Between two chunks of its prefill a request is in no batch, but keeps its KV.",
    source="#37502",
    by="the scheduler",
    stage="run",
    needs="chunked prefill",
    guard={"running": turn.phase == RUNNING, "unfinished": known > turn_kv.C},
    effect=assign((turn.phase, PARKED)),
    allows=Allowance((turn.phase == RUNNING) & (known > turn_kv.C)),
)

_had = to_tree(q)[0]
_rewritten = Mem(Move.POINT, _had.full, _had.swa)
"""Where the tree has the same tokens already, the row points to its pages from now on."""

T_INSERT = Transition(
    "T-INSERT",
    "The prefilled prompt of a request without a slot goes to the tree up to q, which it then "
    "locks; what the tree had meanwhile is freed and the row points to the tree's pages.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "running": in_batch,
        "no_slot": ~slot.lent,
        **insertable,
        "u": (q - turn_kv.Q - dup <= u) & is_aligned(u) & (u <= q - turn_kv.Q),
        "covered": q <= full.protected + u,
        "swa_u": (swa_u >= 0) & is_aligned(swa_u) & (swa_u <= ite(config.swa, q, 0)),
        "swa_x": (swa_x >= 0) & is_aligned(swa_x) & (swa_x <= ite(config.swa, turn_kv.Q, 0)),
        "swa_mine": (swa_x <= swa.protected)
        & (swa.protected - swa_x + swa_u <= frame.lock_sum + q),
    },
    params=(q, dup, swa_dup, u, swa_u, swa_x),
    memory=(*to_tree(q), _rewritten, lock(u, swa_u), Mem(Move.UNLOCK, EMPTY, count(swa_x))),
    effect=assign((turn_kv.Q, q)),
    means={
        "q": after(turn_kv.Q) == q,
        "dup": gain(full.available) == dup,
        "swa_dup": implies(config.swa, gain(swa.available) == swa_dup),
        "u": gain(full.protected) == u,
        "swa_u": gain(swa.protected) == swa_u - swa_x,
        **to_tree_pages,
    },
    allows=Allowance(
        conj(
            in_batch & ~slot.lent,
            inserted,
            is_aligned(fresh),
            fresh >= given(q) - turn_kv.Q - given(dup),
            fresh <= given(q) - turn_kv.Q,
            fresh <= full.evictable + (given(q) - turn_kv.Q - given(dup)),
            full.protected + fresh >= given(q),
            is_aligned(relock) & (relock >= 0) & (relock <= turn_kv.Q),
            is_aligned(swa_fresh) & (swa_fresh >= 0) & (swa_fresh <= given(q)),
            swa_fresh <= swa.evictable,
            config.swa | ((relock == 0) & (swa_fresh == 0)),
            relock <= swa.protected,
            swa.protected - relock + swa_fresh <= frame.lock_sum + given(q),
        ),
        {"u": fresh, "swa_u": swa_fresh, "swa_x": relock},
    ),
)

d, k, n = param("d"), param("k"), param("n")

T_DECODE = Transition(
    "T-DECODE",
    "One decoding round: d tokens allocated, k committed. Plain decoding has d = k = 1; a "
    "speculative round may commit from slack allocated before.",
    by="the scheduler",
    stage="run",
    course="every request",
    guard={
        "overlap": ~config.overlap,
        "running": turn.phase == RUNNING,
        "prefilled": known - 1 <= turn_kv.C,
        "d": d >= 0,
        "k": (k >= 0) & (turn_kv.C + k <= turn_kv.A + d),
        "width": turn_kv.A + d <= config.width,
    },
    params=(d, k),
    memory=(alloc(ceil_page(turn_kv.A), ceil_page(turn_kv.A + d)),),
    effect=assign(
        (turn_kv.A, turn_kv.A + d), (turn_kv.C, turn_kv.C + k), (turn.output, turn.output + k)
    ),
    means={
        "d": gain(turn_kv.A) == d,
        "k": (gain(turn_kv.C) == k) & (gain(turn.output) == k),
        "profile": ~config.overlap,
    },
    allows=Allowance(
        conj(
            ~config.overlap & (turn.phase == RUNNING) & (known <= turn_kv.C + 1),
            given(d) >= 0,
            given(k) >= 0,
            turn_kv.C + given(k) <= turn_kv.A + given(d),
            turn_kv.A + given(d) <= config.width,
            room(ceil_page(turn_kv.A + given(d)) - ceil_page(turn_kv.A)),
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
        "running": turn.phase == RUNNING,
        "prefilled": known - 1 <= turn_kv.C,
        "d": d >= 0,
        "k": (k >= 0) & (turn_kv.C + k <= turn_kv.A + d),
        "ahead": turn_kv.C + k <= known + 1,
        "width": turn_kv.A + d <= config.width,
    },
    params=(d, k),
    memory=(alloc(ceil_page(turn_kv.A), ceil_page(turn_kv.A + d)),),
    effect=assign((turn_kv.A, turn_kv.A + d), (turn_kv.C, turn_kv.C + k)),
    means={
        "d": gain(turn_kv.A) == d,
        "k": gain(turn_kv.C) == k,
        "unknown": unchanged(turn.output),
        "profile": config.overlap,
    },
    allows=Allowance(
        conj(
            config.overlap & (turn.phase == RUNNING) & (known <= turn_kv.C + 1),
            given(d) >= 0,
            given(k) >= 0,
            turn_kv.C + given(k) <= turn_kv.A + given(d),
            turn_kv.C + given(k) <= known + 1,
            turn_kv.A + given(d) <= config.width,
            room(ceil_page(turn_kv.A + given(d)) - ceil_page(turn_kv.A)),
        )
    ),
)

T_RESULT = Transition(
    "T-RESULT",
    "The result of a round that was launched reaches the scheduler: n tokens become known, k of "
    "them by a speculative round, whose KV counts from now on.",
    by="the scheduler",
    stage="run",
    guard={
        "overlap": config.overlap,
        "running": turn.phase == RUNNING,
        "k": (k >= 0) & (turn_kv.C + k <= turn_kv.A),
        "n": (n >= k) & (known + n <= turn_kv.C + k + 1),
    },
    params=(k, n),
    effect=assign((turn_kv.C, turn_kv.C + k), (turn.output, turn.output + n)),
    means={"k": gain(turn_kv.C) == k, "n": gain(turn.output) == n, "profile": config.overlap},
    allows=Allowance(
        conj(
            config.overlap & (turn.phase == RUNNING),
            given(k) >= 0,
            given(k) <= given(n),
            turn_kv.C + given(k) <= turn_kv.A,
            known + given(n) <= turn_kv.C + given(k) + 1,
        )
    ),
)

e = param("e")

T_SWA_ADVANCE = Transition(
    "T-SWA-ADVANCE",
    "The SWA cursor moves up to e: no later token's window reaches below it.",
    by="the scheduler",
    stage="run",
    guard={
        "swa": config.swa & in_batch,
        "e": (e > turn_kv.E) & is_aligned(e) & (e <= floor_page(turn_kv.C - config.window)),
    },
    params=(e,),
    memory=(Mem(Move.FREE, EMPTY, Interval(maximum(turn_kv.Q, turn_kv.E), e)),),
    effect=assign((turn_kv.E, e)),
    means={"e": after(turn_kv.E) == e},
    allows=Allowance(
        config.swa
        & in_batch
        & is_aligned(given(e))
        & (given(e) > turn_kv.E)
        & (given(e) + config.window <= turn_kv.C)
    ),
)

# A turn ends, or is interrupted ---------------------------------------------------

F = param("F")
_target = turn.prompt + F
_, _overshoot, _trimmed = cut(turn_kv, _target)

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
        "running": turn.phase == RUNNING,
        "F": (F >= 0) & (turn.output >= F) & (_target >= turn_kv.Q),
        "prefilled": turn.prompt <= turn_kv.C,
    },
    params=(F,),
    memory=(_overshoot,),
    effect={**to_slot(_trimmed), **turn_over, **assign((session.history, _target))},
    means={
        "F": after(session.history) == turn.prompt + F,
        "kept": keeps(turn_kv, turn.prompt + F),
        **over,
    },
    allows=Allowance(
        conj(
            is_turn & (turn.phase == RUNNING),
            turn.prompt <= turn_kv.C,
            given(F) >= 0,
            turn.output >= given(F),
            turn.prompt + given(F) >= turn_kv.Q,
        )
    ),
)

_abort_effect = {**no_slot, **turn_over}
_abort_memory = release(turn_kv, turn_row, u, swa_u)
_abort_guard = {
    "turn": is_turn,
    "has_kv": has_kv,
    "own_slot": implies(slot.holding, slot.lent),
    **dropped(turn_locked, turn_kv.Q),
}

_abort_allowed = unlocking(is_turn & has_kv, turn_locked, turn_kv)

T_ABORT = Transition(
    "T-ABORT",
    "A matched, parked or running turn is aborted: all its KV, its row and its lock go back and "
    "the slot disappears; the history stays as after the last finished turn.",
    source="#22790",
    by="a client",
    stage="abort",
    guard=_abort_guard,
    params=LOCK,
    memory=_abort_memory,
    effect=_abort_effect,
    means={**given_back, **aborted},
    allows=_abort_allowed,
)

T_ABORT_PUBLISH = Transition(
    "T-ABORT-PUBLISH",
    "A running turn is aborted as by T-ABORT, but its KV goes to the tree up to q.",
    by="a client",
    stage="abort",
    guard={**_abort_guard, "in_batch": in_batch, "publishes": config.abort_publishes, **insertable},
    params=(q, dup, swa_dup, u, swa_u),
    memory=(*to_tree(q), free(turn_kv, q, ceil_page(turn_kv.A)), *_abort_memory[1:]),
    effect=_abort_effect,
    means={**published, **aborted, "profile": config.abort_publishes},
    allows=unlocking(is_turn & in_batch & config.abort_publishes & inserted, turn_locked, turn_kv),
)

T_OOM = Transition(
    "T-OOM",
    "A turn that is alone and outgrows the pool ends as an abort with a message.",
    by="the scheduler",
    stage="abort",
    guard=_abort_guard,
    params=LOCK,
    memory=_abort_memory,
    effect=_abort_effect,
    means={**given_back, **aborted},
    allows=_abort_allowed,
)

_queued = {"turn": is_turn, "waiting": turn.phase == WAITING, "not_lent": ~slot.lent}

T_ABORT_WAITING = Transition(
    "T-ABORT-WAITING",
    "A queued turn is aborted: it holds nothing and frees nothing.",
    by="a client",
    stage="abort",
    guard={**_queued, "covered": implies(slot.holding, session.history >= slot_kv.C)},
    effect=turn_over,
    means=aborted,
    allows=Allowance(is_turn & waiting & ~partial_slot),
)

_, _unfinished, _to_history = cut(slot_kv, session.history)

T_ABORT_PARTIAL = Transition(
    "T-ABORT-PARTIAL",
    "A queued turn that a retract left with a partial slot is aborted: the slot is cut to the "
    "history (where that is impossible it is discarded first).",
    by="a client",
    stage="abort",
    guard={
        **_queued,
        "partial": slot.holding & (session.history < slot_kv.C),
        "possible": session.history >= slot_kv.Q,
    },
    memory=(_unfinished,),
    effect={**kept(slot_kv, _to_history), **turn_over},
    means={"kept": keeps(slot_kv, session.history), **aborted},
    allows=Allowance(conj(is_turn & waiting, partial_slot & (session.history >= slot_kv.Q))),
)

T_RETRACT = Transition(
    "T-RETRACT",
    "A turn is taken out of the batch and keeps its KV in the slot, made if absent; it waits and "
    "is still in flight.",
    source="#22862",
    by="the scheduler",
    stage="retract",
    guard={
        "turn": is_turn,
        "in_batch": in_batch,
        "keeps": config.retract_keeps,
        "covered": known >= turn_kv.C,
    },
    effect={**to_slot((turn_kv.C, turn_kv.A, turn_kv.E)), **back_to_waiting},
    means={"profile": config.retract_keeps & after(slot.holding), **waits},
    allows=Allowance(is_turn & in_batch & config.retract_keeps & (known >= turn_kv.C)),
)

T_RETRACT_WIPE = Transition(
    "T-RETRACT-WIPE",
    "A turn is taken out of the batch and gives up all its KV and its slot; it waits and is "
    "still in flight.",
    by="the scheduler",
    stage="retract",
    guard={
        "turn": is_turn,
        "in_batch": in_batch,
        "wipes": ~config.retract_keeps,
        **dropped(turn_locked, turn_kv.Q),
    },
    params=LOCK,
    memory=_abort_memory,
    effect={**no_slot, **back_to_waiting},
    means={**given_back, "profile": ~config.retract_keeps & ~after(slot.holding), **waits},
    allows=unlocking(is_turn & in_batch & ~config.retract_keeps, turn_locked, turn_kv),
)

# The tree, and requests without a session -------------------------------------------

swa_n = param("swa_n")

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
    guard={
        "plain": is_plain,
        "running": turn.phase == RUNNING,
        **insertable,
        **dropped(turn_kv.locked, turn_kv.Q),
    },
    params=(q, dup, swa_dup, u, swa_u),
    memory=(*to_tree(q), free(turn_kv, q, ceil_page(turn_kv.A)), *_abort_memory[1:]),
    effect=no_turn,
    means={**published, **over},
    allows=unlocking(is_plain & (turn.phase == RUNNING) & inserted, turn_kv.locked, turn_kv),
)

T_PLAIN_ABORT = Transition(
    "T-PLAIN-ABORT",
    "A request without a session is aborted, queued or running: whatever it holds goes back.",
    by="a client",
    stage="abort",
    guard={"plain": is_plain, **dropped(turn_kv.locked, turn_kv.Q)},
    params=LOCK,
    memory=_abort_memory,
    effect=no_turn,
    means={**given_back, **over},
    allows=unlocking(is_plain, turn_kv.locked, turn_kv),
)

T_PLAIN_RETRACT = Transition(
    "T-PLAIN-RETRACT",
    "A request without a session is taken out of the batch and gives everything back; it waits.",
    by="the scheduler",
    stage="retract",
    guard={"plain": is_plain, "in_batch": in_batch, **dropped(turn_kv.locked, turn_kv.Q)},
    params=LOCK,
    memory=_abort_memory,
    effect=back_to_waiting,
    means={**given_back, **waits},
    allows=unlocking(is_plain & in_batch, turn_kv.locked, turn_kv),
)

TRANSITIONS: dict[str, Transition] = {
    value.id: value for value in list(globals().values()) if isinstance(value, Transition)
}
