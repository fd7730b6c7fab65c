"""State of the spec: pools, one session with its slot, one request, and a frame.

A transition touches one *actor* (a session with its slot and its turn, or a request without a
session) and the pools. The *frame* sums up every other actor, and no transition may write the
frame. A fact that holds for any frame holds for any number of sessions.

Lengths and counts are in tokens. Names stand for SGLang's fields: C is ``kv_committed_len``, A
``kv_allocated_len``, Q ``cache_protected_len``, E ``swa_evicted_seqlen``, ``lent`` is
``is_active``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeAlias, overload

from typing_extensions import TypeVar

from slotproof_model.spec.expr import FALSE, App, Expr, Sort, Var, ceil_page, ite, lift, maximum

NO_ROW = -1

# request.kind
NONE, TURN, PLAIN = 0, 1, 2
# request.phase
ABSENT, WAITING, MATCHED, PARKED, RUNNING = 0, 1, 2, 3, 4

KINDS = {"none": NONE, "turn": TURN, "stub": PLAIN, "doomed": PLAIN, "plain": PLAIN}
PHASES = {
    "absent": ABSENT,
    "waiting": WAITING,
    "matched": MATCHED,
    "parked": PARKED,
    "running": RUNNING,
}


Each = TypeVar("Each", default=Var)
"""Type of a group's fields: variables, or the values of the variables in some state."""


class Pool(NamedTuple, Generic[Each]):
    """One KV pool, in tokens. ``available`` is the size of the free list."""

    total: Each
    available: Each
    evictable: Each
    protected: Each


class Rows(NamedTuple, Generic[Each]):
    total: Each
    free: Each


class Session(NamedTuple, Generic[Each]):
    open: Each
    closing: Each  # a close was requested while a turn was in flight
    inflight: Each  # a turn was accepted and has not ended
    history: Each  # number of tokens of finished turns: prompts and outputs


class Slot(NamedTuple, Generic[Each]):
    """A session's KV between turns, in one row of ``req_to_token``."""

    holding: Each
    lent: Each
    row: Each  # row of req_to_token, NO_ROW if none
    C: Each  # committed: positions with valid KV
    A: Each  # allocated: positions backed by memory
    Q: Each  # protected prefix: positions whose pages the tree owns
    E: Each  # SWA cursor: sliding-window KV below E is freed
    locked: Each  # owns the tree lock on the first Q positions


class Request(NamedTuple, Generic[Each]):
    """The request of an actor: a turn of its session, or a request without a session."""

    kind: Each
    phase: Each
    prompt: Each  # a turn's prompt includes the history
    output: Each  # known output tokens, even past the answer's end
    told: Each  # output tokens of the answer: its client was told these tokens
    rounds: Each  # launched rounds whose result has not arrived (overlap scheduling)
    row: Each  # fields from here on as in a slot
    C: Each
    A: Each
    Q: Each
    E: Each
    locked: Each


class Step(NamedTuple, Generic[Each]):
    """Facts about a step that neither the state before nor the state after shows."""

    new: Each  # tokens that a client appends to its session's history
    closes: Each  # a client asks for the session's close
    final: Each  # the client gets the last message about its request
    finishes: Each  # a request ends with a complete answer
    at: Each  # position of the first token that the step reports
    detached: Each  # a request leaves the actor and continues alone
    published: Each  # end of the prefix that the step gives to the tree, -1 if none
    evicted: Each  # full-pool tokens that the step takes from the tree
    swa_evicted: Each  # sliding-window tokens that the step takes from the tree


class Lengths(NamedTuple, Generic[Each]):
    """Lengths of some KV: committed, allocated, protected prefix, SWA cursor."""

    C: Each
    A: Each
    Q: Each
    E: Each


Kv: TypeAlias = Slot[Each] | Request[Each]
"""Owner of KV lengths: a slot, or a request with KV."""


class Frame(NamedTuple, Generic[Each]):
    """All other actors, summed up. No transition writes the frame."""

    held: Each
    uncached: Each
    swa_held: Each
    swa_uncached: Each
    rows: Each  # number of rows of all other actors
    lock_max: Each  # longest prefix locked by another actor: a lower bound of protected
    lock_sum: Each  # sum of all prefixes locked by other actors, shared pages counted once per lock


class Page(NamedTuple, Generic[Each]):
    """One arbitrary page of one pool: its owners, its locks and its position in the actor's row.

    ``place`` is an arbitrary position of this row. ``entry`` is the row's entry at ``place``.
    """

    free: Each  # entries of the free list
    tree: Each
    own: Each  # 1 if the page is private to this actor's row
    rest: Each  # number of other actors' rows that own the page
    here: Each  # this actor's row points to the page
    at: Each  # position of the page's first token
    pin: Each  # this actor's lock covers the page
    pins: Each  # number of other actors' locks on the page
    beside: Each  # tokens of all other locked pages of the pool
    number: Each  # the page's number
    place: Each  # an arbitrary position, the first of a page
    entry: Each  # page number of this actor's row at ``place``, -1 if none


class Line(NamedTuple, Generic[Each]):
    """One arbitrary row of ``req_to_token``, with the number of its owners of each kind."""

    number: Each
    free: Each  # entries of the free list
    rest: Each  # number of other actors' slots and requests with the row


class Config(NamedTuple, Generic[Each]):
    """Constants of a run. The page size is no variable: ⌈·⌉ and ⌊·⌋ round to its multiples."""

    swa: Each  # the model has a sliding-window pool
    window: Each
    width: Each  # row width: positions a row can hold
    reserve: Each  # 1: the last known token is always recomputed, for its logits
    aligned_reuse: Each  # reuse stops at a page boundary
    retract_keeps: Each  # a retracted turn leaves its KV in the slot
    abort_publishes: Each  # an aborted turn may leave its KV to the tree
    overlap: Each  # a round is launched before the previous result is known
    loan_publishes: Each  # a turn publishes its KV while its slot is on loan, too
    drops_last: Each  # the history leaves out an answer's last token
    keeps_slack: Each  # KV allocated past the end of a turn stays with its slot
    slack: Each  # positions that a decoding round may allocate past the KV that it computes
    batches: Each  # overlap: largest number of a request's rounds without a result, at least 2


_BOOLEANS = {
    "slot.holding", "slot.lent", "slot.locked", "req.locked",
    "session.open", "session.closing", "session.inflight",
    "page.here", "page.pin", "config.swa", "config.aligned_reuse", "config.retract_keeps",
    "config.abort_publishes", "config.overlap", "config.loan_publishes", "config.drops_last",
    "config.keeps_slack", "step.detached", "step.closes", "step.final",
    "step.finishes",
}  # fmt: skip


def _declare(prefix: str, names: tuple[str, ...]) -> Iterator[Var]:
    for name in names:
        full_name = f"{prefix}.{name}"
        yield Var(full_name, Sort.BOOL if full_name in _BOOLEANS else Sort.INT)


full = Pool(*_declare("full", Pool._fields))
swa = Pool(*_declare("swa", Pool._fields))
rows = Rows(*_declare("rows", Rows._fields))
session = Session(*_declare("session", Session._fields))
slot = Slot(*_declare("slot", Slot._fields))
req = Request(*_declare("req", Request._fields))
frame = Frame(*_declare("frame", Frame._fields))
page = Page(*_declare("page", Page._fields))
line = Line(*_declare("line", Line._fields))
this_step = Step(*_declare("step", Step._fields))
config = Config(*_declare("config", Config._fields))

POOLS: tuple[Var, ...] = (*full, *swa, *rows)
"""Variables shared by all actors."""
ACTOR: tuple[Var, ...] = (*session, *slot, *req)
STATE: tuple[Var, ...] = (*POOLS, *ACTOR)
"""Variables that a transition may write, in the order of the state vector."""
FRAME: tuple[Var, ...] = tuple(frame)
PAGE: tuple[Var, ...] = tuple(page)
LINE: tuple[Var, ...] = tuple(line)
CONFIG: tuple[Var, ...] = tuple(config)
SEEN: tuple[Var, ...] = (*STATE, *FRAME, *CONFIG)
"""Variables that an actor sees, in the order of a vector."""
TOTALS = (full.total, swa.total, rows.total)
"""Variables of the state that no transition writes."""


@overload
def after(expr: Var) -> Var: ...
@overload
def after(expr: Expr) -> Expr: ...
def after(expr: Expr) -> Expr:
    """Return the expression over the state after the step. Constants of a run stay the same."""
    if isinstance(expr, Var):
        return expr if expr.name.startswith("config.") else Var(expr.name + "'", expr.of)
    return App(expr.op, tuple(map(after, expr.args))) if isinstance(expr, App) else expr


# Derived figures ----------------------------------------------------------

is_turn: Expr = req.kind == TURN
is_plain: Expr = req.kind == PLAIN
has_kv: Expr = req.phase >= MATCHED  # matched, parked or running
begun: Expr = (req.phase == RUNNING) | (req.phase == PARKED)
known: Expr = req.prompt + req.output
"""Number of known tokens of the request: prompt and output."""
answering: Expr = req.told == req.output
"""No known token is past the answer's end: the client was told every known token."""
answered: Expr = req.prompt + ite(config.drops_last, maximum(0, req.told - 1), req.told)
"""Length of the history if the turn ends now: the prompt and the told tokens. Under
``drops_last``, the last told token is left out."""
most_unknown: Expr = ite(config.overlap & (req.phase == RUNNING), config.batches - 1, 0)
"""Largest number of the request's KV positions whose tokens are not yet known."""
req_has_row: Expr = req.row != NO_ROW
locks_tree: Expr = req.locked | (slot.lent & slot.locked)
"""The request has a tree lock: its own, or the lock of the slot on loan to it."""
on_loan: Expr = has_kv & slot.holding & (req.kind == TURN) & (req.row == slot.row)
"""True if slot and turn describe the same KV. The formula reads ownership, not a flag."""


def lengths(kv: Kv) -> Lengths[Var]:
    """Return the lengths C, A, Q and E of the KV."""
    return Lengths(kv.C, kv.A, kv.Q, kv.E)


def locks(kv: Kv) -> Expr:
    """Return the number of tree tokens locked by ``kv``: Q if it has its own lock, else 0."""
    return ite(kv.locked, kv.Q, 0)


locks_either: Expr = ite(locks_tree, req.Q, 0)
"""Number of tree tokens locked by the request, or by the slot on loan to the request."""


def private(kv: Kv) -> Expr:
    """Return the number of full-pool tokens owned by the row: ⌈A⌉ - Q."""
    return ceil_page(kv.A) - kv.Q


def swa_private(kv: Kv) -> Expr:
    """Return the number of sliding-window tokens owned by the row: ⌈A⌉ - max(Q, E)."""
    return ite(config.swa, ceil_page(kv.A) - maximum(kv.Q, kv.E), 0)


actor_has_kv: Expr = slot.holding | has_kv
"""The actor has KV, in its request or in its slot. The KV lies in one row, once a row is taken."""
own = Lengths(
    *(ite(has_kv, of, kept) for of, kept in zip(lengths(req), lengths(slot), strict=True))
)
"""Lengths of the actor's KV: the request's lengths if the request has KV, else the slot's."""
pinned: Expr = page.pin | (page.pins > 0)
"""A lock of some actor covers the page."""

held: Expr = ite(slot.holding & ~slot.lent, private(slot), 0)
swa_held: Expr = ite(slot.holding & ~slot.lent, swa_private(slot), 0)
uncached: Expr = ite(has_kv, private(req), 0)
swa_uncached: Expr = ite(has_kv, swa_private(req), 0)


def _owns(first: Callable[[Kv], Expr]) -> Expr:
    """Return the formula: the page lies in the private part of the actor's row."""

    def covers(kv: Kv) -> Expr:
        return (first(kv) <= page.at) & (page.at < ceil_page(kv.A))

    return page.here & ((slot.holding & ~slot.lent & covers(slot)) | (has_kv & covers(req)))


owns_full: Expr = _owns(lambda kv: kv.Q)
owns_swa: Expr = config.swa & _owns(lambda kv: maximum(kv.Q, kv.E))

owns_row: Expr = ite(slot.holding & (slot.row == line.number), 1, 0) + ite(
    has_kv & ~slot.lent & (req.row == line.number), 1, 0
)

lock_sum: Expr = locks(slot) + locks(req)
lock_max: Expr = maximum(locks(slot), locks(req))
slot_rows: Expr = ite(slot.holding, 1, 0)
req_rows: Expr = ite(has_kv & ~slot.lent & (req.row != NO_ROW), 1, 0)

CONTRIBUTIONS: dict[str, Expr] = {
    frame.held.name: held,
    frame.uncached.name: uncached,
    frame.swa_held.name: swa_held,
    frame.swa_uncached.name: swa_uncached,
    frame.rows.name: slot_rows + req_rows,
    frame.lock_max.name: lock_max,
    frame.lock_sum.name: lock_sum,
}
"""Amounts that one actor adds to the frame of every other actor, by frame variable."""
ONE_MORE: dict[str, Expr] = {
    var.name: maximum(var, CONTRIBUTIONS[var.name])
    if var is frame.lock_max
    else var + CONTRIBUTIONS[var.name]
    for var in FRAME
}
"""New values of the frame's variables when one more actor joins the frame."""

# The beginning ---------------------------------------------------------------


def _nothing(var: Var) -> Expr:
    if var.sort is Sort.BOOL:
        return FALSE
    return lift(NO_ROW if var.name.endswith(".row") else 0)


INITIAL: dict[str, Expr] = {
    **{var.name: _nothing(var) for var in STATE},
    **{total.name: total for total in TOTALS},
    full.available.name: full.total,
    swa.available.name: swa.total,
    rows.free.name: rows.total,
}
"""The initial state: no actor exists, and all memory and all rows are free."""
INITIAL_PAGE: dict[str, Expr] = {
    page.tree.name: lift(0),
    page.own.name: lift(0),
    page.rest.name: lift(0),
    page.free.name: lift(1),
    page.pin.name: FALSE,
    page.pins.name: lift(0),
    page.beside.name: lift(0),
}
"""Initial values of the page's variables, for any page."""
INITIAL_LINE: dict[str, Expr] = {line.free.name: lift(1), line.rest.name: lift(0)}
"""Initial values of the row's variables, for any row."""


def alone(prompt: Expr | int) -> dict[str, Expr]:
    """Return the values of a detached request, which waits without memory and without a session."""
    return {
        **{var.name: INITIAL[var.name] for var in ACTOR},
        req.kind.name: lift(PLAIN),
        req.phase.name: lift(WAITING),
        req.prompt.name: lift(prompt),
    }
