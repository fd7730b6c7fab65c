"""The page layer: what a transition does to one arbitrary page, from its memory moves.

Take any page p of a pool. It is somewhere: in the free list, in the tree, in
this actor's row, in another's. The intervals of a transition say what becomes
of it; that afterwards it has exactly one owner again, and that the actor's
lengths cover it exactly if the actor owns it, is an obligation like any other.
What is true of an arbitrary page is true of all.

Choices that are not the transition's (which free page an allocation takes,
which tree page an eviction) are parameters.
"""

from __future__ import annotations

from slotproof.model.expr import (
    FALSE,
    Expr,
    Sort,
    Var,
    ceil_page,
    conj,
    implies,
    is_aligned,
    ite,
    lift,
)
from slotproof.model.memory import Interval, Mem, Move
from slotproof.model.state import page
from slotproof.model.transition import Transition

taken = Var("param.page_taken", Sort.BOOL)
"""The allocation takes this page from the free list …"""
taken_at = Var("param.page_taken_at")
"""… for this position."""
evicted = Var("param.page_evicted", Sort.BOOL)
CHOICES = (taken, taken_at, evicted)


def span(mem: Mem, pool: str) -> Interval:
    return mem.full if pool == "full" else mem.swa


def within(interval: Interval) -> Expr:
    """This row points to the page from within the interval, whoever owns the page."""
    return page.here & (interval.lo <= page.at) & (page.at < interval.hi)


def effect(transition: Transition, pool: str) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Legality of the choices, and the new values of the page's variables."""
    free: Expr = page.free
    tree: Expr = page.tree
    own: Expr = page.own
    here: Expr = page.here
    at: Expr = page.at
    allocated: Expr = FALSE
    eviction = False
    for mem in transition.memory:
        interval = span(mem, pool)
        gone = ite(within(interval), 1, 0)
        if mem.move is Move.FREE:
            free, own = free + gone, own - gone
        elif mem.move is Move.TO_TREE:
            tree, own = tree + gone, own - gone
        elif mem.move is Move.ALLOC:
            inside = (interval.lo <= taken_at) & (taken_at < ceil_page(interval.hi))
            allocated = inside & is_aligned(taken_at)
            free = free - ite(taken, 1, 0)
            own = own + ite(taken, 1, 0)
            at = ite(taken, taken_at, at)
            here = taken | (here & ~within(interval))  # an entry that is overwritten points away
        elif mem.move is Move.EVICT:
            eviction = True
            free, tree = free + ite(evicted, 1, 0), tree - ite(evicted, 1, 0)
        elif mem.move is Move.GIVE_ROW:
            here = here & (mem.full.length == 0)
    legal = {
        "taken": implies(taken, allocated & (page.free >= 1)),
        "evicted": implies(evicted, lift(eviction) & (page.tree >= 1)),
    }
    after = {
        page.free.name: free,
        page.tree.name: tree,
        page.own.name: own,
        page.here.name: here,
        page.at.name: at,
    }
    return legal, after


def whole(transition: Transition) -> dict[str, Expr]:
    """Only whole pages: every interval that is not empty begins and ends at a page boundary."""
    result: dict[str, Expr] = {}
    for index, mem in enumerate(transition.memory):
        if mem.move in (Move.ALLOC, Move.FREE, Move.TO_TREE):
            for pool in ("full", "swa"):
                interval = span(mem, pool)
                aligned = conj(is_aligned(interval.lo), is_aligned(interval.hi))
                name = f"{mem.move.name.lower()}{index}_{pool}"
                result[name] = implies(interval.lo < interval.hi, aligned)
    return result
