"""All invariants: of states, of steps and of engines.

*State* invariants are proved, and evaluated on every snapshot of an engine. *Step* invariants
(``steps``) relate a state and the next state. *Harness* invariants are about things that the spec
does not model: tokens, the engine's own checker, liveness. A harness conjunct is a sentence without
a formula, and the suite checks it on engines only.
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
    WAITING,
    Kv,
    Pool,
    actor_has_kv,
    answered,
    answering,
    config,
    frame,
    full,
    has_kv,
    held,
    is_turn,
    known,
    lengths,
    line,
    lock_sum,
    most_unknown,
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


def _sum(pool: Pool, actor: Expr, rest: Expr) -> dict[str, Expr]:
    return {
        "equation": pool.available + pool.evictable + pool.protected + actor + rest == pool.total,
        "nonnegative": conj(
            pool.available >= 0, pool.evictable >= 0, pool.protected >= 0, actor >= 0
        ),
    }


_REPORTED = {"reported": "the equation also holds for the counts that the engine itself reports"}

SUM_FULL = state(
    "INV-SUM-FULL",
    "available + evictable + protected + held + uncached = total, and no term is negative.",
    _REPORTED,
    **_sum(full, held + uncached, frame.held + frame.uncached),
)
SUM_SWA = state(
    "INV-SUM-SWA",
    "The equation of INV-SUM-FULL for the sliding-window pool. KV below the SWA cursor is free.",
    _REPORTED,
    **_sum(swa, swa_held + swa_uncached, frame.swa_held + frame.swa_uncached),
)
ROWS = state(
    "INV-ROWS",
    "Free rows, slots' rows and requests' rows add up to all rows. A row on loan counts once.",
    {
        "range": "only existing rows are free or in use",
        "twice": "no row is twice in the free list, both free and in use, or used by two owners",
        "reported": "the engine's count of slots' rows equals the count derived from ownership",
    },
    equation=rows.free + slot_rows + req_rows + frame.rows == rows.total,
    present=(rows.free >= 0) & iff(slot.holding, slot.row != NO_ROW),
    distinct=implies(slot.holding & has_kv & ~slot.lent, slot.row != req.row),
    numbered=(slot.row >= NO_ROW) & (req.row >= NO_ROW),
)
ROW = state(
    "INV-ROW",
    "Every row is free or has exactly one user: a slot, even while on loan, or a request.",
    one=line.free + owns_row + line.rest == 1,
    counted=(line.free >= 0) & (line.rest >= 0),
)
ONCE = state(
    "INV-ONCE",
    "A slot's KV is counted exactly once: either as held or as uncached.",
    {"reported": "the engine's held and uncached counts equal the counts derived from ownership"},
    never_both=implies(on_loan, held == 0) & implies(on_loan, slot.lent),
    never_neither=implies(slot.lent, on_loan)
    & implies(slot.holding & ~on_loan, held == private(slot)),
)
INFLIGHT = state(
    "INV-INFLIGHT",
    "A session is in flight exactly while it has one accepted, unfinished turn.",
    {"one": "a session never has two unfinished turns"},
    iff=iff(session.inflight, req.kind == TURN),
)


def _order(kv: Kv) -> Expr:
    return conj(kv.Q >= 0, kv.Q <= kv.C, kv.C <= kv.A, config.width >= kv.A)


ORDER = state("INV-ORDER", "0 ≤ Q ≤ C ≤ A ≤ row width.", slot=_order(slot), req=_order(req))
ALIGN = state(
    "INV-ALIGN",
    "Q is page-aligned. Only whole pages are free or in the tree.",
    {"positions": "position i of a row lies at offset i modulo P of its page"},
    slot=is_aligned(slot.Q),
    req=is_aligned(req.Q),
    free=is_aligned(full.available) & is_aligned(swa.available),
    tree=conj(
        *(is_aligned(figure) for pool in (full, swa) for figure in (pool.evictable, pool.protected))
    ),
)
CURSOR = state(
    "INV-CURSOR",
    "0 ≤ E ≤ A, and E is page-aligned.",
    {"given_back": "the row owns every sliding-window page above the cursor, and none below it"},
    slot=(slot.E >= 0) & (slot.E <= slot.A) & is_aligned(slot.E),
    req=(req.E >= 0) & (req.E <= req.A) & is_aligned(req.E),
    no_window=config.swa | ((slot.E == 0) & (req.E == 0)),
)
WINDOW = state(
    "INV-WINDOW",
    "The window of a request's next token is never freed: E ≤ max(0, C - W).",
    req=implies(config.swa & has_kv, maximum(0, req.C - config.window) >= req.E),
)
COVER = state(
    "INV-COVER",
    "KV covers known tokens only. Under overlap scheduling, the KV of a running request may be "
    "ahead, by one token less than the batches under way. Every token ahead belongs to a round "
    "whose result has not arrived. The tree never has KV of an unknown token.",
    idle=implies(slot.holding & ~session.inflight, session.history >= slot.C),
    waiting=implies(slot.holding & session.inflight & ~slot.lent, known >= slot.C),
    req=implies(has_kv, known + most_unknown >= req.C),
    published=implies(has_kv, known >= req.Q),
    rounds=implies(
        config.overlap & (req.phase == RUNNING) & (known <= req.C), known + req.rounds > req.C
    ),
)
OWNER = state(
    "INV-OWNER",
    "Every page has exactly one owner: the free list, the tree, or one private row.",
    {
        "range": "every page that is free, in the tree or in a row belongs to the pool",
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
    "Every position of a row from Q to A has a page, and so has every position below Q whose tree "
    "page the row needs. INV-OWNER and INV-PIN determine the page's owner.",
    {
        "protected": "positions below Q lie in locked pages of the tree",
        "private": "positions from Q to A lie in pages that were not freed",
    },
    **places.backed("full"),
    **places.backed("swa"),
)
PIN = state(
    "INV-PIN",
    "Every locked page is in the tree, and `protected` counts the page once. In the full pool, an "
    "actor's lock covers exactly the pages of its row below Q. In the sliding-window pool, the "
    "lock covers only such pages, and at least the pages from max(E, ⌊max(0, Q - W)⌋) on.",
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
    "Each position of a row has at most one page. Two positions of a row never have the same page "
    "if the row owns or needs the pages at both.",
    function=implies(actor_has_kv & page.here & (page.at == page.place), page.entry == page.number),
    full_injective=places.injective("full"),
    swa_injective=places.injective("swa"),
)
LOCK = state(
    "INV-LOCK",
    "Each slot, and each request with KV of its own, has one tree lock, and releases it once.",
    {"count": "each page of the tree has one lock for each locked prefix that covers the page"},
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
    "Once no request or session is left, all rows are free and all memory is free or evictable.",
    {"closed": "after the last close, only the tree holds memory"},
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
    "All variables of an absent session, slot, request or KV are zero, or `no_row` for a row.",
    session=session.open
    | (~slot.holding & ~session.inflight & ~session.closing & (session.history == 0)),
    slot=slot.holding | (~slot.lent & conj(*(length == 0 for length in lengths(slot)))),
    # INV-TOKENS and INV-ROUNDS say the same about `told` and `rounds`, which no snapshot shows.
    req=(req.kind != NONE) | conj(*(figure == 0 for figure in (req.phase, req.prompt, req.output))),
    kv=has_kv | ((req.row == NO_ROW) & conj(*(length == 0 for length in lengths(req)))),
)
KIND = state(
    "INV-KIND",
    "A request is a turn of its session, or has no session. Kind and phase are set exactly while "
    "a request exists.",
    range=conj(req.kind >= NONE, req.kind <= PLAIN, req.phase >= ABSENT, req.phase <= RUNNING),
    both=iff(req.kind == NONE, req.phase == ABSENT),
    alone=implies(req.kind == PLAIN, ~session.open),
)
PHASE = state(
    "INV-PHASE",
    "A matched request without a slot has no KV except the tree's prefix. A running or parked "
    "request has a row. A parked request has tokens left to prefill.",
    matched=implies(~slot.lent & (req.phase == MATCHED), (req.row == NO_ROW) & (req.A == req.Q)),
    row=implies(req.phase >= PARKED, req.row != NO_ROW),
    parked=implies(req.phase == PARKED, known > req.C),
)
LOAN = state(
    "INV-LOAN",
    "While a turn has KV, the session's slot, if any, is on loan to the turn. Until the turn runs, "
    "slot and turn describe the same KV. Later the turn's lengths are no shorter than the slot's.",
    lent=implies((req.kind == TURN) & has_kv & slot.holding, slot.lent),
    prefix=implies(slot.lent, req.Q == slot.Q),
    same=implies(
        slot.lent & (req.phase == MATCHED), conj(req.C == slot.C, req.A == slot.A, req.E == slot.E)
    ),
    grows=implies(slot.lent, conj(slot.C <= req.C, slot.A <= req.A, slot.E <= req.E)),
)
TOKENS = state(
    "INV-TOKENS",
    "No count of tokens is negative. A turn's prompt is not shorter than the history. A "
    "request with known tokens past its answer's end runs and can finish.",
    counted=conj(session.history >= 0, req.prompt >= 0, req.output >= 0),
    prompt=implies(req.kind == TURN, session.history <= req.prompt),
    told=(req.told >= 0) & (req.told <= req.output),
    past_end=implies(
        ~answering,
        (req.phase == RUNNING) & (req.prompt <= req.C) & implies(is_turn, answered >= req.Q),
    ),
)
_wiped = (req.phase == WAITING) & ~config.retract_keeps & ~slot.holding
ROUNDS = state(
    "INV-ROUNDS",
    "Only under overlap scheduling has a request rounds without a result, at most one for each "
    "batch under way. It runs, or a retraction that wipes has sent it back to waiting.",
    counted=(req.rounds >= 0) & implies(req.rounds > 0, req.rounds <= config.batches),
    running=implies(req.rounds > 0, config.overlap & ((req.phase == RUNNING) | _wiped)),
)

ENVIRONMENT: dict[str, Expr] = {
    "window": (config.window >= 0) & iff(config.swa, config.window > 0),
    "width": config.width >= 1,
    "reserve": (config.reserve >= 0) & (config.reserve <= 1),
    "slack": config.slack >= 0,
    "batches": config.batches >= 2,
    "frame": conj(*(figure >= 0 for figure in frame)),
    "locks": frame.lock_max <= frame.lock_sum,
    "no_swa": implies(~config.swa, swa.total == 0),
}
"""Assumptions about the configuration, and facts about the frame, which sums up all other actors.
No invariant covers these assumptions and facts."""
DERIVED: dict[str, Expr] = {
    "frame": ENVIRONMENT["frame"],
    "locks": ENVIRONMENT["locks"],
    "aligned": is_aligned(frame.lock_max) & is_aligned(frame.lock_sum),
}
"""Facts about the frame, proved by adding one actor at a time (``INIT [frame]``)."""

STEP_CLAUSE = harness(
    "INV-STEP",
    "The engine takes only steps that the spec allows. A violation names transition and field.",
    unknown="the event names an existing transition, actor and parameters",
    guard="every transition was enabled when it happened",
    state="after every transition the engine's state equals the spec's state",
)
CONTENT = harness(
    "INV-CONTENT",
    "Every committed position has the KV of its token. Answers are the same as without a cache.",
    stamp="the KV at each committed position identifies the position and its token",
    tokens="sampled tokens are the same as in a run without any cache",
)
MATCH = harness(
    "INV-MATCH",
    "Plain requests publish their KV to the tree, and a match finds all of a published prefix.",
    all="a match finds all whole pages that were published and not evicted, except for the reserve",
    prompt="while a plain request decodes, the whole pages of its prompt are in the tree",
    left="after its answer, a plain request leaves the whole pages of prompt and answer in the "
    "tree, except for tokens of the last rounds that became known too late",
)
ECONOMY = harness(
    "INV-ECONOMY",
    "An engine evicts only if memory is needed, and frees window KV that no request needs.",
    evicts="the last eviction of an iteration leaves fewer tokens free than it evicted, apart from "
    "a page and a round's slack for each request",
    cursor="the window cursor of a decoding request moves at most W + P rounds after W + 2P "
    "tokens are kept",
)
REUSE = harness(
    "INV-REUSE",
    "An engine's queue of allocatable pages contains exactly the unused pages.",
    all="every free page and every unlocked tree page is in the queue: a missing page is lost",
    unused="no other page is in the queue: such a page could be allocated while in use",
)
LOOKUP = harness(
    "INV-LOOKUP",
    "An engine that looks up tree pages by key finds pages with the KV of the key's tokens.",
    found="each page of the tree can be found by a key",
    there="a page found by a key is in the tree",
    holds="a page found by a key holds the key's last tokens, and earlier pages hold the rest",
)
TABLES = harness(
    "INV-TABLES",
    "The engine's tables and queues list exactly the live requests and sessions.",
    ended="no table has an entry for an ended request or session",
    queued="each request is in exactly one queue, once",
)
CHECKER = harness(
    "INV-CHECKER",
    "The engine's own memory check runs on every pool, with correct counts and verdict.",
    ran="the check ran in every iteration that ran a batch",
    covers="the check looked at every pool",
    figures="the check's counts equal the counts derived from ownership",
    verdict="the check reports a leak when memory does not add up",
    alarm="the check reports a leak only when memory does not add up",
    counted="each request with KV is counted once, even if a batch is seen twice or two are equal",
    level="level 2 logs every check. Level 1 stores the lines of a passed check and logs none",
    dump="a failed check logs its own lines and, at level 1, the stored lines",
)
ANSWER = harness(
    "INV-ANSWER",
    "Every request gets exactly one final answer, in the form that its client asked for.",
    once="no request is answered twice",
    never_silent="when the engine is drained, every request was answered",
    most="no answer has more tokens than max_new",
    length="an answer that ended by length has max_new tokens",
    past_stop="no answer continues after a stop token",
    stop="an answer that ended by stop ends with a stop token",
    reason="the reason is length, stop, abort or a reason that the driver declares, and is true",
    unasked="only a refused, over-limit or too large request is aborted without a client's abort",
    nothing="a request that is refused or does not fit the context gets no token",
    aborts="within 8 iterations of reading an abort, the engine answers it and stops the request",
    obeyed="the engine obeys pause and, where possible, retract, accept, evict and flush",
)
SESSION = harness(
    "INV-SESSION",
    "Every open and close gets one correct answer, and sessions time out when due.",
    opened="each open of a closed session opens it once",
    closed="a session is closed once, on request or at its timeout",
    refused="an open of an open session and a close of a closed session are refused",
    answered="an open is answered at once, and a close once no turn is in flight",
    overdue="a session that was idle for its timeout is closed",
    order="queued turns start in the order of arrival",
)
LIMIT = harness(
    "INV-LIMIT",
    "Batches are no larger than the configuration allows.",
    running="no more than max_running requests run",
    chunk="no prefill step is longer than a chunk",
)
ALIVE = harness(
    "INV-ALIVE",
    "No legal command sequence crashes or hangs the engine.",
    crash="the engine did not raise, exit or send garbage",
    hang="every command was answered within the step timeout",
)
PROGRESS = harness(
    "INV-PROGRESS",
    "No request stalls: 16 steps without any change are a finding. No request starves: after the "
    "last command, all requests are answered. No slot is discarded without need.",
    stalled="something changed within 16 steps",
    starved="all requests are answered within twice the steps needed to run them one after another",
    discarded="a slot that could be restored is discarded only if memory or rows are short",
)

_HERE = [value for value in list(globals().values()) if isinstance(value, Invariant)]

INVARIANTS: dict[str, Invariant] = {
    **{invariant.id: invariant for invariant in _HERE if invariant.kind is Kind.STATE},
    **STEPS,
    **{invariant.id: invariant for invariant in _HERE if invariant.kind is Kind.HARNESS},
}
ON_ENGINES: tuple[str, ...] = tuple(
    id_ for id_, invariant in INVARIANTS.items() if invariant.on_engines
)
"""Invariants checked by the suite, at least in part. The other invariants are only proved."""
