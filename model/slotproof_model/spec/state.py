"""What a state of the spec is: pools, one session with its slot, one request, a frame.

A transition touches one *actor* (a session with its slot and its turn, or a
request without a session) and the pools. Every other actor is summed up in the
*frame*, which no transition may write: what holds for any frame holds for any
number of sessions.

All lengths and figures are tokens. Names follow the field: C is
``kv_committed_len``, A ``kv_allocated_len``, Q ``cache_protected_len``,
E ``swa_evicted_seqlen``, ``lent`` is ``is_active``.
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
"""What stands in the places of a group: variables, or their values in some state."""


class Pool(NamedTuple, Generic[Each]):
    """One KV pool; in tokens. ``available`` is the free list."""

    total: Each
    available: Each
    evictable: Each
    protected: Each


class Rows(NamedTuple, Generic[Each]):
    total: Each
    free: Each


class Session(NamedTuple, Generic[Each]):
    open: Each
    closing: Each  # close was asked for while a turn was in flight
    inflight: Each  # a turn was accepted and has not ended
    history: Each  # tokens of finished turns, prompts and outputs


class Slot(NamedTuple, Generic[Each]):
    """What a session keeps between turns: KV in one row of ``req_to_token``."""

    holding: Each
    lent: Each
    row: Each  # line of req_to_token, NO_ROW when none
    C: Each  # committed: valid KV
    A: Each  # allocated: KV that owns memory
    Q: Each  # protected prefix: what the tree owns
    E: Each  # SWA cursor: sliding-window KV before it was given back
    locked: Each  # owns the tree lock on the first Q positions


class Request(NamedTuple, Generic[Each]):
    """The request of an actor: a turn of its session, or one without a session."""

    kind: Each
    phase: Each
    prompt: Each  # a turn's prompt includes the history
    output: Each
    row: Each  # these as a slot's
    C: Each
    A: Each
    Q: Each
    E: Each
    locked: Each


class Lengths(NamedTuple, Generic[Each]):
    """Of some KV: committed, allocated, protected prefix, SWA cursor."""

    C: Each
    A: Each
    Q: Each
    E: Each


Kv: TypeAlias = Slot[Each] | Request[Each]
"""Who describes KV: the slot, or the request to which it is on loan."""


class Frame(NamedTuple, Generic[Each]):
    """Every other actor, summed up. Written by no transition."""

    held: Each
    uncached: Each
    swa_held: Each
    swa_uncached: Each
    rows: Each  # rows of the other actors
    lock_max: Each  # the longest prefix another actor locks: a lower bound of protected
    lock_sum: Each  # all prefixes other actors lock, shared pages counted often: an upper bound


class Page(NamedTuple, Generic[Each]):
    """One arbitrary page of one pool: how often each owner has it, who locks it, where it lies.

    And one arbitrary position of the actor's row, with what the row says there.
    """

    free: Each  # entries of the free list
    tree: Each
    own: Each  # this actor's row has it, as private
    rest: Each  # rows of the other actors
    here: Each  # this actor's row points to it
    at: Each  # at this position, the page's first
    pin: Each  # this actor's lock covers it
    pins: Each  # how many other actors' locks do
    beside: Each  # tokens of all other pages that somebody locks
    number: Each  # the page's number
    place: Each  # an arbitrary position, the first of a page
    entry: Each  # the number of the page to which this actor's row points there; -1: to none


class Line(NamedTuple, Generic[Each]):
    """One arbitrary row: how often each owner has it."""

    number: Each
    free: Each  # entries of the free list
    rest: Each  # slots and requests of the other actors


class Config(NamedTuple, Generic[Each]):
    """Constants of a run. ``page_size`` itself is in ⌈·⌉ and ⌊·⌋."""

    swa: Each  # the model has a sliding-window pool
    window: Each
    width: Each  # row width: positions a row can hold
    reserve: Each  # 1: the last known token is always recomputed, for its logits
    aligned_reuse: Each  # reuse stops at a page boundary
    retract_keeps: Each  # a retracted turn leaves its KV in the slot
    abort_publishes: Each  # an aborted turn may leave its KV to the tree
    overlap: Each  # a round is launched before the result of the one before is known
    loan_publishes: Each  # a turn publishes its KV while its slot is on loan, too
    keeps_slack: Each  # what is allocated past the end of a turn stays with its slot


_BOOLEANS = {
    "slot.holding", "slot.lent", "slot.locked", "req.locked",
    "session.open", "session.closing", "session.inflight",
    "page.here", "page.pin", "config.swa", "config.aligned_reuse", "config.retract_keeps",
    "config.abort_publishes", "config.overlap", "config.loan_publishes",
    "config.keeps_slack",
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
config = Config(*_declare("config", Config._fields))

POOLS: tuple[Var, ...] = (*full, *swa, *rows)
"""What all actors share."""
ACTOR: tuple[Var, ...] = (*session, *slot, *req)
STATE: tuple[Var, ...] = (*POOLS, *ACTOR)
"""What a transition may write, in the order of the state vector."""
FRAME: tuple[Var, ...] = tuple(frame)
PAGE: tuple[Var, ...] = tuple(page)
LINE: tuple[Var, ...] = tuple(line)
CONFIG: tuple[Var, ...] = tuple(config)
SEEN: tuple[Var, ...] = (*STATE, *FRAME, *CONFIG)
"""All that an actor sees, in the order of a vector."""
TOTALS = (full.total, swa.total, rows.total)
"""Of the state, but never written."""


@overload
def after(expr: Var) -> Var: ...
@overload
def after(expr: Expr) -> Expr: ...
def after(expr: Expr) -> Expr:
    """The same of the state after the transition (in step invariants); constants stay."""
    if isinstance(expr, Var):
        return expr if expr.name.startswith("config.") else Var(expr.name + "'", expr.of)
    return App(expr.op, tuple(map(after, expr.args))) if isinstance(expr, App) else expr


# Derived figures ----------------------------------------------------------

is_turn: Expr = req.kind == TURN
is_plain: Expr = req.kind == PLAIN
has_kv: Expr = req.phase >= MATCHED  # matched, parked or running
begun: Expr = (req.phase == RUNNING) | (req.phase == PARKED)
known: Expr = req.prompt + req.output
"""Tokens that the request knows."""
req_has_row: Expr = req.row != NO_ROW
locks_tree: Expr = req.locked | (slot.lent & slot.locked)
"""The request has a tree lock, its own or that of the slot on loan to it."""
on_loan: Expr = has_kv & slot.holding & (req.kind == TURN) & (req.row == slot.row)
"""The slot's KV and the turn's are the same: told from ownership, not from a flag."""


def lengths(kv: Kv) -> Lengths[Var]:
    """All lengths of the KV."""
    return Lengths(kv.C, kv.A, kv.Q, kv.E)


def locks(kv: Kv) -> Expr:
    """Tokens of the tree that it locks: its first Q positions, if the lock is its own."""
    return ite(kv.locked, kv.Q, 0)


locks_either: Expr = ite(locks_tree, req.Q, 0)
"""What the request locks, or the slot on loan to it."""


def private(kv: Kv) -> Expr:
    """Tokens of the full pool that the row owns: ⌈A⌉ - Q."""
    return ceil_page(kv.A) - kv.Q


def swa_private(kv: Kv) -> Expr:
    """Tokens of the sliding-window pool that the row owns: ⌈A⌉ - max(Q, E)."""
    return ite(config.swa, ceil_page(kv.A) - maximum(kv.Q, kv.E), 0)


actor_has_kv: Expr = slot.holding | has_kv
"""The actor has KV, of its request or in its slot: in one row, once that is taken."""
own = Lengths(
    *(ite(has_kv, of, kept) for of, kept in zip(lengths(req), lengths(slot), strict=True))
)
"""Its lengths: the request's, or those of the slot at rest."""
pinned: Expr = page.pin | (page.pins > 0)
"""Somebody's lock covers the page."""

held: Expr = ite(slot.holding & ~slot.lent, private(slot), 0)
swa_held: Expr = ite(slot.holding & ~slot.lent, swa_private(slot), 0)
uncached: Expr = ite(has_kv, private(req), 0)
swa_uncached: Expr = ite(has_kv, swa_private(req), 0)


def _owns(first: Callable[[Kv], Expr]) -> Expr:
    """The row points to the page from its private part: where the actor counts it as its own."""

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
"""What one actor adds to the frame of all others."""
ONE_MORE: dict[str, Expr] = {
    var.name: maximum(var, CONTRIBUTIONS[var.name])
    if var is frame.lock_max
    else var + CONTRIBUTIONS[var.name]
    for var in FRAME
}
"""The frame, and one actor more."""

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
"""The initial state: there is no actor, all memory and all rows are free."""
INITIAL_PAGE: dict[str, Expr] = {
    page.tree.name: lift(0),
    page.own.name: lift(0),
    page.rest.name: lift(0),
    page.free.name: lift(1),
    page.pin.name: FALSE,
    page.pins.name: lift(0),
    page.beside.name: lift(0),
}
"""So is every page, wherever it will lie."""
INITIAL_LINE: dict[str, Expr] = {line.free.name: lift(1), line.rest.name: lift(0)}
"""And every row."""


def alone(prompt: Expr | int) -> dict[str, Expr]:
    """A request that goes on alone: it waits, holds nothing, belongs to no session."""
    return {
        **{var.name: INITIAL[var.name] for var in ACTOR},
        req.kind.name: lift(PLAIN),
        req.phase.name: lift(WAITING),
        req.prompt.name: lift(prompt),
    }
