"""Effect of a transition on memory, as intervals of a row.

The intervals determine the counts of tokens and, in the page layer, the owner of each page. Nothing
is written twice, so counts and owners cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from slotproof_model.spec.expr import FALSE, Expr, Operand, Var, ceil_page, ite, lift, maximum
from slotproof_model.spec.state import Kv, Pool, config, full, rows, swa


@dataclass(frozen=True)
class Interval:
    """Positions ``[lo, hi)`` of a row, in tokens. Empty when ``hi <= lo``."""

    lo: Expr
    hi: Expr

    @property
    def length(self) -> Expr:
        return maximum(0, self.hi - self.lo)


EMPTY = Interval(lift(0), lift(0))


def count(tokens: Operand) -> Interval:
    """Return an interval of ``tokens`` tokens without a position, for tree locks and evictions."""
    return Interval(lift(0), lift(tokens))


class Move(Enum):
    """Source and destination of pages or rows."""

    ALLOC = "free list → row"
    FREE = "row → free list"
    TO_TREE = "row → tree, unlocked"
    POINT = "the row points to the tree's pages"
    LOCK = "evictable → protected"
    UNLOCK = "protected → evictable"
    EVICT = "tree → free list"
    TAKE_ROW = "free rows → used"
    GIVE_ROW = "used → free rows"


@dataclass(frozen=True)
class Mem:
    """One memory move, with its interval in the full pool and in the SWA pool."""

    move: Move
    full: Interval
    swa: Interval


def alloc(lo: Operand, hi: Operand) -> Mem:
    span = Interval(lift(lo), lift(hi))
    return Mem(Move.ALLOC, span, span)


def free(kv: Kv, lo: Operand, hi: Operand) -> Mem:
    """Free ``[lo, hi)``. In the SWA pool, begin at the cursor, as KV below the cursor is freed."""
    return Mem(Move.FREE, Interval(lift(lo), lift(hi)), Interval(maximum(lo, kv.E), lift(hi)))


def release(
    kv: Kv, row_owned: Expr, u: Operand, swa_u: Operand, since: Operand | None = None
) -> tuple[Mem, ...]:
    """Free the row's private KV from ``since`` on, drop the KV's lock and free the row itself."""
    first = kv.Q if since is None else since
    return (free(kv, first, ceil_page(kv.A)), unlock(u, swa_u), give_row(row_owned))


def lock(u: Operand, swa_u: Operand) -> Mem:
    return Mem(Move.LOCK, count(u), count(swa_u))


def point(lo: Operand, hi: Operand) -> Mem:
    """Point the row to pages of the tree. No count changes."""
    span = Interval(lift(lo), lift(hi))
    return Mem(Move.POINT, span, span)


def unlock(u: Operand, swa_u: Operand) -> Mem:
    return Mem(Move.UNLOCK, count(u), count(swa_u))


def take_row(condition: Expr) -> Mem:
    return Mem(Move.TAKE_ROW, count(ite(condition, 1, 0)), EMPTY)


def give_row(condition: Expr) -> Mem:
    return Mem(Move.GIVE_ROW, count(ite(condition, 1, 0)), EMPTY)


_SIGNS: dict[Move, dict[str, int]] = {
    Move.ALLOC: {"available": -1},
    Move.FREE: {"available": +1},
    Move.TO_TREE: {"evictable": +1},
    Move.POINT: {},
    Move.LOCK: {"evictable": -1, "protected": +1},
    Move.UNLOCK: {"protected": -1, "evictable": +1},
    Move.EVICT: {"evictable": -1, "available": +1},
    Move.TAKE_ROW: {"free": -1},
    Move.GIVE_ROW: {"free": +1},
}


def _lengths(mem: Mem) -> tuple[tuple[str, Expr], ...]:
    if mem.move in (Move.TAKE_ROW, Move.GIVE_ROW):
        return (("rows", mem.full.length),)
    in_swa = FALSE if mem.swa is EMPTY else config.swa
    return (("full", mem.full.length), ("swa", ite(in_swa, mem.swa.length, 0)))


def counts(memory: tuple[Mem, ...]) -> dict[str, Expr]:
    """Return the new value of every count of pools and rows that the moves change."""
    figures: dict[str, Var] = {
        var.name: var
        for pool in (full, swa)
        for var in (pool.available, pool.evictable, pool.protected)
    }
    figures[rows.free.name] = rows.free
    result: dict[str, Expr] = {}
    for mem in memory:
        for place, length in _lengths(mem):
            for figure, sign in _SIGNS[mem.move].items():
                name = f"{place}.{figure}"
                value = result.get(name, figures[name])
                result[name] = value + length if sign > 0 else value - length
    return result


def affordable(memory: tuple[Mem, ...]) -> dict[str, Expr]:
    """Return the guard conjuncts that the moves need: enough free tokens, tree tokens and rows."""
    need: dict[str, Expr] = {}
    have: dict[str, Expr] = {}
    for mem in memory:
        for place, length in _lengths(mem):
            pool: Pool = full if place == "full" else swa
            if mem.move is Move.ALLOC:
                need[f"{place}_available"] = length
                have[f"{place}_available"] = pool.available
            elif mem.move is Move.TO_TREE:
                have[f"{place}_evictable"] = pool.evictable + length
            elif mem.move in (Move.LOCK, Move.EVICT):
                need[f"{place}_evictable"] = length
                have.setdefault(f"{place}_evictable", pool.evictable)
            elif mem.move is Move.TAKE_ROW:
                need["a_row"], have["a_row"] = length, rows.free
    return {name: need[name] <= have[name] for name in need}
