"""Every invariant: what must hold, in every state or across every step.

*State* invariants are proved, and evaluated on every snapshot of an engine.
*Step* invariants (``steps``) relate a state and the next one. *Harness* invariants
speak of things the spec does not model (tokens, the engine's own checker, liveness):
their conjuncts have a sentence and no formula, and the suite checks them on
engines only.
"""

from __future__ import annotations

from slotproof_model.spec import places
from slotproof_model.spec.expr import Expr, conj, iff, implies, is_aligned, ite, maximum
from slotproof_model.spec.invariant import Invariant, Kind, harness, state
from slotproof_model.spec.state import (
    ABSENT,
    MATCHED,
    NO_ROW,
    NONE,
    PARKED,
    PLAIN,
    RUNNING,
    TURN,
    Kv,
    Pool,
    actor_has_kv,
    config,
    frame,
    full,
    has_kv,
    held,
    known,
    lengths,
    line,
    lock_sum,
    on_loan,
    own,
    owns_full,
    owns_row,
    owns_swa,
    page,
    pinned,
    private,
    req,
    req_rows,
    rows,
    session,
    slot,
    slot_rows,
    swa,
    swa_held,
    swa_uncached,
    uncached,
)
from slotproof_model.spec.steps import STEPS


def _sum(pool: Pool, mine: Expr, rest: Expr) -> dict[str, Expr]:
    return {
        "equation": pool.available + pool.evictable + pool.protected + mine + rest == pool.total,
        "nonnegative": conj(
            pool.available >= 0, pool.evictable >= 0, pool.protected >= 0, mine >= 0
        ),
    }


_REPORTED = {"reported": "the equation holds for the engine's own figures"}

SUM_FULL = state(
    "INV-SUM-FULL",
    "available + evictable + protected + held + uncached = total, and no term is negative.",
    _REPORTED,
    **_sum(full, held + uncached, frame.held + frame.uncached),
)
SUM_SWA = state(
    "INV-SUM-SWA",
    "The same for the sliding-window pool, where the cursor has taken its share.",
    _REPORTED,
    **_sum(swa, swa_held + swa_uncached, frame.swa_held + frame.swa_uncached),
)
ROWS = state(
    "INV-ROWS",
    "Free rows and rows of slots and requests (on loan: once) are all rows; no row twice.",
    {
        "range": "only rows that there are are free or used",
        "twice": "no row is in the free list twice, or free and used, or used by two",
        "reported": "the engine's count of rows that slots hold is the one that ownership gives",
    },
    equation=rows.free + slot_rows + req_rows + frame.rows == rows.total,
    present=(rows.free >= 0) & iff(slot.holding, slot.row != NO_ROW),
    distinct=implies(slot.holding & has_kv & ~slot.lent, slot.row != req.row),
    numbered=(slot.row >= NO_ROW) & (req.row >= NO_ROW),
)
ROW = state(
    "INV-ROW",
    "Every row is free or has one user: a slot, on loan to its turn or not, or a request.",
    one=line.free + owns_row + line.rest == 1,
    counted=(line.free >= 0) & (line.rest >= 0),
)
ONCE = state(
    "INV-ONCE",
    "A slot's KV is counted exactly once: held or uncached, never both, never neither.",
    {"reported": "the engine's held and uncached are those that ownership gives"},
    never_both=implies(on_loan, held == 0) & implies(on_loan, slot.lent),
    never_neither=implies(slot.lent, on_loan)
    & implies(slot.holding & ~on_loan, held == private(slot)),
)
INFLIGHT = state(
    "INV-INFLIGHT",
    "A session is in flight exactly while one accepted, unfinished turn of it exists.",
    {"one": "a session never has two unfinished turns"},
    iff=iff(session.inflight, req.kind == TURN),
)


def _order(kv: Kv) -> Expr:
    return conj(kv.Q >= 0, kv.Q <= kv.C, kv.C <= kv.A, config.width >= kv.A)


ORDER = state("INV-ORDER", "0 ≤ Q ≤ C ≤ A ≤ row width.", slot=_order(slot), req=_order(req))
ALIGN = state(
    "INV-ALIGN",
    "Q is page-aligned, and only whole pages change hands.",
    {"positions": "position i of a row lies at offset i modulo P of its page"},
    slot=is_aligned(slot.Q),
    req=is_aligned(req.Q),
    free=is_aligned(full.available) & is_aligned(swa.available),
    tree=conj(
        *(is_aligned(each) for pool in (full, swa) for each in (pool.evictable, pool.protected))
    ),
)
CURSOR = state(
    "INV-CURSOR",
    "0 ≤ E ≤ A, and E is page-aligned.",
    {"given_back": "below the cursor the row owns no sliding-window page, above it every one"},
    slot=(slot.E >= 0) & (slot.E <= slot.A) & is_aligned(slot.E),
    req=(req.E >= 0) & (req.E <= req.A) & is_aligned(req.E),
    no_window=config.swa | ((slot.E == 0) & (req.E == 0)),
)
WINDOW = state(
    "INV-WINDOW",
    "Nothing of the window that a request's next token needs is given back: E ≤ max(0, C - W).",
    req=implies(config.swa & has_kv, maximum(0, req.C - config.window) >= req.E),
)
COVER = state(
    "INV-COVER",
    "KV covers known tokens only; under overlap scheduling that of a running request is one ahead "
    "at most.",
    idle=implies(slot.holding & ~session.inflight, session.history >= slot.C),
    waiting=implies(slot.holding & session.inflight & ~slot.lent, known >= slot.C),
    req=implies(has_kv, known + ite(config.overlap & (req.phase == RUNNING), 1, 0) >= req.C),
)
OWNER = state(
    "INV-OWNER",
    "Every page has exactly one owner: the free list, the tree, or one private row.",
    {
        "range": "only pages that the pool has are free, in the tree, or in a row",
        "lost": "no page is without an owner",
        "shared": "no page has two owners",
        "free_twice": "the free list has no duplicates",
    },
    exactly_one=page.free + page.tree + page.own + page.rest == 1,
    counted=conj(page.free >= 0, page.tree >= 0, page.own >= 0, page.rest >= 0),
    placed=is_aligned(page.at) & (page.at >= 0),
    full=page.own == ite(owns_full, 1, 0),
    swa=page.own == ite(owns_swa, 1, 0),
)
BACKED = state(
    "INV-BACKED",
    "Every position of a row that counts has a page: from Q to A, and below Q what the row needs "
    "of the tree. Whose it is say INV-OWNER and INV-PIN.",
    {
        "protected": "positions below Q lie in pages that the tree holds locked",
        "private": "positions from Q to A lie in pages that nobody has given back",
    },
    **places.backed("full"),
    **places.backed("swa"),
)
PIN = state(
    "INV-PIN",
    "A locked page is the tree's, and `protected` counts it once. A lock covers pages below Q "
    "only, and all to which the row points there; in the sliding-window pool at least those from "
    "⌊max(0, Q - W)⌋ on that the cursor has not passed.",
    counted=(page.pins >= 0) & (page.beside >= 0),
    tree=implies(pinned, page.tree == 1),
    mine=implies(page.pin, actor_has_kv & page.here & (page.at < own.Q)),
    full_covers=places.covered("full"),
    swa_covers=places.covered("swa"),
    full=places.protected(full.protected),
    swa=places.protected(swa.protected),
)
PLACE = state(
    "INV-PLACE",
    "A position of a row has one page, and no page lies at two positions that count: those that "
    "the row owns, and those of its prefix that it needs.",
    function=implies(actor_has_kv & page.here & (page.at == page.place), page.entry == page.number),
    full_injective=places.injective("full"),
    swa_injective=places.injective("swa"),
)
LOCK = state(
    "INV-LOCK",
    "Every tree lock taken is released exactly once: whoever has a protected prefix has one.",
    {"count": "each tree page is locked once for each prefix that covers it"},
    slot=iff(slot.locked, slot.holding),
    req=iff(req.locked, has_kv & ~slot.lent),
    covered=implies(has_kv, full.protected >= req.Q)
    & implies(slot.holding, full.protected >= slot.Q)
    & (frame.lock_max <= full.protected),
    bounded=full.protected <= frame.lock_sum + lock_sum,
    swa_bounded=swa.protected <= frame.lock_sum + lock_sum,
)
DRAIN = state(
    "INV-DRAIN",
    "Nothing in flight and every session closed: all memory and rows are back, no lock is left.",
    {"closed": "after the last close nothing but the tree holds memory"},
    drained=implies(
        conj(
            ~session.open,
            req.kind == NONE,
            frame.held + frame.uncached == 0,
            frame.swa_held + frame.swa_uncached == 0,
            frame.rows == 0,
            frame.lock_sum == 0,
        ),
        conj(
            full.available + full.evictable == full.total,
            swa.available + swa.evictable == swa.total,
            rows.free == rows.total,
        ),
    ),
)
ABSENT_IS_ZERO = state(
    "INV-ABSENT",
    "What is not there is zero: a session, a slot, a request, KV of a request that has none.",
    session=session.open
    | (~slot.holding & ~session.inflight & ~session.closing & (session.history == 0)),
    slot=slot.holding | (~slot.lent & conj(*(each == 0 for each in lengths(slot)))),
    req=(req.kind != NONE) | conj(req.phase == ABSENT, req.prompt == 0, req.output == 0),
    kv=has_kv | ((req.row == NO_ROW) & conj(*(each == 0 for each in lengths(req)))),
)
KIND = state(
    "INV-KIND",
    "A request is a turn of its session, or has none; there is a kind and a phase exactly while "
    "there is a request.",
    range=conj(req.kind >= NONE, req.kind <= PLAIN, req.phase >= ABSENT, req.phase <= RUNNING),
    both=iff(req.kind == NONE, req.phase == ABSENT),
    alone=implies(req.kind == PLAIN, ~session.open),
)
PHASE = state(
    "INV-PHASE",
    "A matched request without a slot has the tree's prefix and nothing else; one that is running "
    "or parked has a row; one that is parked has some of its prompt to prefill.",
    matched=implies(~slot.lent & (req.phase == MATCHED), (req.row == NO_ROW) & (req.A == req.Q)),
    row=implies(req.phase >= PARKED, req.row != NO_ROW),
    parked=implies(req.phase == PARKED, known > req.C),
)
LOAN = state(
    "INV-LOAN",
    "A turn that has KV has its slot on loan, if there is one; until it runs, both describe the "
    "same.",
    lent=implies((req.kind == TURN) & has_kv & slot.holding, slot.lent),
    prefix=implies(slot.lent, req.Q == slot.Q),
    same=implies(
        slot.lent & (req.phase == MATCHED), conj(req.C == slot.C, req.A == slot.A, req.E == slot.E)
    ),
)
TOKENS = state(
    "INV-TOKENS",
    "No count of tokens is negative, and a turn's prompt is not shorter than the history.",
    counted=conj(session.history >= 0, req.prompt >= 0, req.output >= 0),
    prompt=implies(req.kind == TURN, session.history <= req.prompt),
)

ENVIRONMENT: dict[str, Expr] = {
    "window": (config.window >= 0) & iff(config.swa, config.window > 0),
    "width": config.width >= 1,
    "reserve": (config.reserve >= 0) & (config.reserve <= 1),
    "frame": conj(*(each >= 0 for each in frame)),
    "locks": frame.lock_max <= frame.lock_sum,
    "no_swa": implies(~config.swa, swa.total == 0),
}
"""What is assumed of the configuration, and what is true of all other actors summed up; no
invariant says it."""
DERIVED: dict[str, Expr] = {
    "frame": ENVIRONMENT["frame"],
    "locks": ENVIRONMENT["locks"],
    "aligned": is_aligned(frame.lock_max) & is_aligned(frame.lock_sum),
}
"""What is true of all other actors summed up: proved, actor by actor (``INIT [frame]``)."""

STEP_CLAUSE = harness(
    "INV-STEP",
    "What the engine did is what the spec allows: transition and field that differ are named.",
    unknown="the event names a transition, an actor and parameters that exist",
    guard="every transition was enabled when it happened",
    state="after it the engine's state is the one that the spec computes",
)
CONTENT = harness(
    "INV-CONTENT",
    "A committed position has the KV of its token there; answers are those without a cache.",
    stamp="the KV at each committed position carries its token and position",
    tokens="sampled tokens are those of a run without any cache",
)
MATCH = harness(
    "INV-MATCH",
    "The tree gets what plain requests compute, and what it has of a prompt is found.",
    all="whole pages that were published and not evicted are matched, but for the reserve",
    prompt="while a plain request decodes, the whole pages of its prompt are in the tree",
    left="a plain request that was answered leaves the whole pages of prompt and answer there, "
    "but for tokens that its last rounds made, where they become known late",
)
REUSE = harness(
    "INV-REUSE",
    "Where an engine has a queue of the pages that it may give out, it has what nobody uses.",
    all="free pages and pages of the tree that nobody locks stand in it: else they are lost",
    unused="no others do: else somebody gets a page that another reads",
)
LOOKUP = harness(
    "INV-LOOKUP",
    "Where pages of the tree are found by a key, it is the key of the tokens whose KV they hold.",
    found="each page of the tree is found",
    there="what is found is in the tree",
    holds="what is found by a key holds the tokens that it is of, and those before them lie before",
)
TABLES = harness(
    "INV-TABLES",
    "The engine's tables and queues have those whom it serves.",
    ended="no table has an entry for one who is gone",
    queued="each request stands in one queue, once",
)
CHECKER = harness(
    "INV-CHECKER",
    "The engine's own check ran, covers every pool, its figures and its verdict are right.",
    ran="the check ran in every iteration that ran a batch",
    covers="the check looked at every pool",
    figures="its figures are those derived from ownership",
    verdict="it says leak when memory does not add up",
    alarm="it says leak only then",
    counted="it counts each request with KV once: a batch seen twice is one, two alike are two",
    level="level 2 logs every check; level 1 none that finds nothing, whose lines it keeps",
    dump="a check that fails logs its lines and, at level 1, those that were kept",
)
ANSWER = harness(
    "INV-ANSWER",
    "Every request gets exactly one final answer, and that is what its client asked for.",
    once="no request is answered twice",
    never_silent="when the engine is drained every request was answered",
    most="no answer has more tokens than max_new",
    length="one that ended by length has max_new tokens",
    past_stop="no answer goes on after a stop token",
    stop="one that ended by stop ends with a stop token",
    reason="the reason is length, stop or abort, or one that the driver names, and the real one",
    unasked="nobody is aborted unasked, unless refused, over a limit or too large even alone",
    nothing="what is refused, or beyond the context, gets no token",
    aborts="an abort that was read is answered within 8 iterations, and not by going on",
    obeyed="what it is told is done: pause, and where they can be retract, accept, evict, flush",
)
SESSION = harness(
    "INV-SESSION",
    "Every open and close is answered once, and rightly; time-outs come when they are due.",
    opened="a session is opened once for each open that finds it closed",
    closed="a session is closed once, as asked for or when its time is over",
    refused="an open is refused where the session is open, a close where it is not",
    answered="an open is answered at once, a close as soon as no turn is in flight",
    overdue="a session that was idle for its time-out is closed",
    order="where turns wait for the one in flight they are taken in the order they came",
)
LIMIT = harness(
    "INV-LIMIT",
    "Batches are no larger than the configuration allows.",
    running="no more than max_running requests run",
    chunk="no prefill is longer than a chunk",
)
ALIVE = harness(
    "INV-ALIVE",
    "No legal command sequence crashes or hangs the engine.",
    crash="the engine did not raise, exit or send garbage",
    hang="every command was answered within the step timeout",
)
PROGRESS = harness(
    "INV-PROGRESS",
    "No request is stalled: 16 steps in which nothing changes are a finding. And none waits for "
    "ever: once nothing more is sent, all are answered. No slot is given up for nothing.",
    stalled="something changed within 16 steps",
    starved="all are answered within twice the steps that they take one after the other",
    discarded="a slot that could be restored is discarded only where memory or rows are short",
)

_HERE = [value for value in list(globals().values()) if isinstance(value, Invariant)]

INVARIANTS: dict[str, Invariant] = {
    **{each.id: each for each in _HERE if each.kind is Kind.STATE},
    **STEPS,
    **{each.id: each for each in _HERE if each.kind is Kind.HARNESS},
}
ON_ENGINES: tuple[str, ...] = tuple(id_ for id_, each in INVARIANTS.items() if each.on_engines)
"""Those of which the suite checks something; the others are proved only."""
