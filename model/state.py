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

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

from slotproof.model.expr import Expr, Sort, Var, ceil_page, ite, maximum

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


@dataclass(frozen=True)
class Pool:
    """One KV pool; in tokens. ``available`` is the free list."""

    total: Var
    available: Var
    evictable: Var
    protected: Var


@dataclass(frozen=True)
class Kv:
    """KV that a slot or a request describes: positions of one row."""

    row: Var  # line of req_to_token, NO_ROW when none
    C: Var  # committed: valid KV
    A: Var  # allocated: KV that owns memory
    Q: Var  # protected prefix: what the tree owns
    E: Var  # SWA cursor: sliding-window KV before it was given back
    locked: Var  # owns the tree lock on the first Q positions


@dataclass(frozen=True)
class Rows:
    total: Var
    free: Var


@dataclass(frozen=True)
class Session:
    open: Var
    closing: Var  # close was asked for while a turn was in flight
    inflight: Var  # a turn is queued, parked or running
    history: Var  # tokens of finished turns, prompts and outputs


@dataclass(frozen=True)
class Request:
    kind: Var
    phase: Var
    prompt: Var  # a turn's prompt includes the history
    output: Var


@dataclass(frozen=True)
class SlotFlags:
    holding: Var
    lent: Var


@dataclass(frozen=True)
class Frame:
    """Every other actor, summed up. Written by no transition."""

    held: Var
    uncached: Var
    swa_held: Var
    swa_uncached: Var
    rows: Var  # rows of the other actors
    lock_max: Var  # the longest prefix another actor locks: a lower bound of protected
    lock_sum: Var  # all prefixes other actors lock, shared pages counted often: an upper bound


@dataclass(frozen=True)
class Page:
    """One arbitrary page of one pool: how often each owner has it, and where it lies."""

    free: Var  # entries of the free list
    tree: Var
    own: Var  # this actor's row has it, as private
    rest: Var  # rows of the other actors
    here: Var  # this actor's row points to it
    at: Var  # at this position, the page's first


@dataclass(frozen=True)
class Config:
    """Constants of a run. ``page_size`` itself is in ⌈·⌉ and ⌊·⌋."""

    swa: Var  # the model has a sliding-window pool
    window: Var
    width: Var  # row width: positions a row can hold
    reserve: Var  # 1: the last known token is always recomputed, for its logits
    aligned_reuse: Var  # reuse stops at a page boundary
    retract_keeps: Var  # a retracted turn leaves its KV in the slot
    abort_publishes: Var  # an aborted turn may leave its KV to the tree


_BOOLEANS = {
    "slot.holding", "slot.lent", "slot.locked", "turn.locked",
    "session.open", "session.closing", "session.inflight",
    "page.here", "config.swa", "config.aligned_reuse", "config.retract_keeps",
    "config.abort_publishes",
}  # fmt: skip

Group = TypeVar("Group", Pool, Kv, Rows, Session, Request, SlotFlags, Frame, Page, Config)


def _declare(group: type[Group], prefix: str) -> Group:
    def var(name: str) -> Var:
        full_name = f"{prefix}.{name}"
        return Var(full_name, Sort.BOOL if full_name in _BOOLEANS else Sort.INT)

    return group(**{field.name: var(field.name) for field in fields(group)})


full = _declare(Pool, "full")
swa = _declare(Pool, "swa")
rows = _declare(Rows, "rows")
session = _declare(Session, "session")
slot = _declare(SlotFlags, "slot")
slot_kv = _declare(Kv, "slot")
turn = _declare(Request, "turn")
turn_kv = _declare(Kv, "turn")
frame = _declare(Frame, "frame")
page = _declare(Page, "page")
config = _declare(Config, "config")

GROUPS: tuple[object, ...] = (full, swa, rows, session, slot, slot_kv, turn, turn_kv)


def _vars(group: object) -> tuple[Var, ...]:
    return tuple(vars(group).values())


STATE: tuple[Var, ...] = tuple(var for group in GROUPS for var in _vars(group))
"""What a transition may write, in the order of the state vector."""
FRAME: tuple[Var, ...] = _vars(frame)
PAGE: tuple[Var, ...] = _vars(page)
CONFIG: tuple[Var, ...] = _vars(config)


def after(var: Var) -> Var:
    """The variable's value after the transition (in step invariants)."""
    return Var(var.name + "'", var.of)


# Derived figures ----------------------------------------------------------

has_kv: Expr = turn.phase >= MATCHED  # matched, parked or running
on_loan: Expr = has_kv & slot.holding & (turn.kind == TURN) & (turn_kv.row == slot_kv.row)
"""The slot's KV and the turn's are the same: told from ownership, not from a flag."""


def lengths(kv: Kv) -> tuple[Var, Var, Var, Var]:
    """All lengths of the KV."""
    return (kv.C, kv.A, kv.Q, kv.E)


def private(kv: Kv) -> Expr:
    """Tokens of the full pool that the row owns: ⌈A⌉ - Q."""
    return ceil_page(kv.A) - kv.Q


def swa_private(kv: Kv) -> Expr:
    """Tokens of the sliding-window pool that the row owns: ⌈A⌉ - max(Q, E)."""
    return ite(config.swa, ceil_page(kv.A) - maximum(kv.Q, kv.E), 0)


held: Expr = ite(slot.holding & ~slot.lent, private(slot_kv), 0)
swa_held: Expr = ite(slot.holding & ~slot.lent, swa_private(slot_kv), 0)
uncached: Expr = ite(has_kv, private(turn_kv), 0)
swa_uncached: Expr = ite(has_kv, swa_private(turn_kv), 0)


def _owns(first: Callable[[Kv], Expr]) -> Expr:
    """The row points to the page from its private part: where the actor counts it as its own."""

    def covers(kv: Kv) -> Expr:
        return (first(kv) <= page.at) & (page.at < ceil_page(kv.A))

    return page.here & ((slot.holding & ~slot.lent & covers(slot_kv)) | (has_kv & covers(turn_kv)))


owns_full: Expr = _owns(lambda kv: kv.Q)
owns_swa: Expr = config.swa & _owns(lambda kv: maximum(kv.Q, kv.E))

lock_sum: Expr = ite(slot_kv.locked, slot_kv.Q, 0) + ite(turn_kv.locked, turn_kv.Q, 0)
lock_max: Expr = maximum(ite(slot_kv.locked, slot_kv.Q, 0), ite(turn_kv.locked, turn_kv.Q, 0))
slot_rows: Expr = ite(slot.holding, 1, 0)
turn_rows: Expr = ite(has_kv & ~slot.lent & (turn_kv.row != NO_ROW), 1, 0)

CONTRIBUTIONS: dict[str, Expr] = {
    frame.held.name: held,
    frame.uncached.name: uncached,
    frame.swa_held.name: swa_held,
    frame.swa_uncached.name: swa_uncached,
    frame.rows.name: slot_rows + turn_rows,
    frame.lock_max.name: lock_max,
    frame.lock_sum.name: lock_sum,
}
"""What one actor adds to the frame of all others (``lock_max``: the maximum, else sums)."""
