"""The page layer: what a transition does to one arbitrary page, from its memory moves.

Take any page p of a pool. It is somewhere: in the free list, in the tree, in
this actor's row, in another's. The intervals of a transition say what becomes
of it; that afterwards it has exactly one owner again, and that the actor's
lengths cover it exactly if the actor owns it, is an obligation like any other.
What is true of an arbitrary page is true of all.

A page of the tree is locked while a lock covers it: this actor's (``pin``) or another's
(``pins``). It is protected from the first lock to the last, and only what nobody locks is
evicted. Of the tokens that a transition locks or unlocks the page is one page's worth if its
first lock comes or its last one goes; what all other pages add is arbitrary (``beside``).

And take any position of the row (``place``): what it points to is the page, or another one.

Choices that are not the transition's (which free page an allocation takes, which tree page an
eviction, what the tree has of a prefix) are parameters; their rules are named.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_model.spec.expr import (
    Expr,
    Sort,
    Var,
    ceil_page,
    conj,
    implies,
    is_aligned,
    ite,
    lift,
    same,
    substitute,
    variables,
)
from slotproof_model.spec.memory import Interval, Mem, Move
from slotproof_model.spec.places import NO_PAGE, ONE_PAGE, counts, has_lock, in_tree, later
from slotproof_model.spec.state import actor_has_kv, own, page
from slotproof_model.spec.transition import Transition

taken = Var("param.page_taken", Sort.BOOL)
"""The allocation takes this page from the free list …"""
taken_at = Var("param.page_taken_at")
"""… for this position."""
evicted = Var("param.page_evicted", Sort.BOOL)
pointed = Var("param.page_pointed", Sort.BOOL)
"""The row points to this page of the tree from now on …"""
pointed_at = Var("param.page_pointed_at")
"""… at this position."""
named = Var("param.page_named")
"""The page to which the row points at ``place``, where that is rewritten."""
locked = Var("param.page_locked", Sort.BOOL)
"""The lock that is taken covers this page."""
dropped = Var("param.page_dropped", Sort.BOOL)
"""The lock that is dropped covered it."""
beside_locked, beside_unlocked = Var("param.page_beside_locked"), Var("param.page_beside_unlocked")
"""Tokens of all other pages whose first lock comes, whose last one goes."""
CHOICES = (
    taken, taken_at, evicted, pointed, pointed_at, named, locked, dropped, beside_locked,
    beside_unlocked,
)  # fmt: skip

ANYWHERE = {
    "choice.place": is_aligned(page.place) & (page.place >= 0),
    "choice.number": page.number >= 0,
}
"""The page may be any, and so may the position."""


def span(mem: Mem, pool: str) -> Interval:
    return mem.full if pool == "full" else mem.swa


def inside(interval: Interval, at: Expr) -> Expr:
    return (interval.lo <= at) & (at < interval.hi)


def within(interval: Interval) -> Expr:
    """This row points to the page from within the interval, whoever owns the page."""
    return page.here & inside(interval, page.at)


def effect(transition: Transition, pool: str) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Rules of the choices, and the new values of the page's variables."""
    free: Expr = page.free
    tree: Expr = page.tree
    own: Expr = page.own
    here: Expr = page.here
    at: Expr = page.at
    entry: Expr = page.entry
    rules: dict[str, Expr] = {}
    for mem in transition.memory:
        interval = span(mem, pool)
        gone = ite(within(interval), 1, 0)
        if mem.move is Move.FREE:
            free, own = free + gone, own - gone
        elif mem.move is Move.TO_TREE:
            tree, own = tree + gone, own - gone
        elif mem.move is Move.ALLOC:
            where = inside(Interval(interval.lo, ceil_page(interval.hi)), taken_at)
            legal = conj(where & is_aligned(taken_at), page.free >= 1)
            rules["taken"] = implies(taken, legal)
            free, own = free - ite(taken, 1, 0), own + ite(taken, 1, 0)
            at = ite(taken, taken_at, at)
            here = taken | _kept(interval)
            entry = ite(inside(interval, page.place), named, entry)
            rules |= _rewritten(interval, taken, taken_at, inside(interval, page.place))
        elif mem.move is Move.POINT:
            where = conj(inside(interval, pointed_at), is_aligned(pointed_at), page.tree >= 1)
            elsewhere = actor_has_kv & page.here & counts(page.at, pool)
            rules["pointed"] = implies(pointed, where & ~elsewhere)
            at = ite(pointed, pointed_at, at)
            here = pointed | _kept(interval)
            entry = ite(inside(interval, page.place), named, entry)
            there = inside(interval, page.place) & later(
                in_tree(page.place, pool), transition.effect
            )
            rules |= _rewritten(interval, pointed, pointed_at, there)
        elif mem.move is Move.EVICT:
            rules["evicted"] = implies(evicted, page.tree >= 1)
            rules["unpinned"] = implies(evicted, ~page.pin & (page.pins == 0))
            free, tree = free + ite(evicted, 1, 0), tree - ite(evicted, 1, 0)
    prefix_after = {page.here.name: here, page.at.name: at, page.tree.name: tree}
    lock_rules, pin, beside = _locks(transition, pool, prefix_after)
    after = {
        page.free.name: free,
        page.tree.name: tree,
        page.own.name: own,
        page.here.name: here,
        page.at.name: at,
        page.pin.name: pin,
        page.beside.name: beside,
        page.entry.name: entry,
    }
    return {**rules, **lock_rules}, after


def _kept(interval: Interval) -> Expr:
    """An entry that is overwritten points away, and a row that was not there pointed nowhere."""
    return actor_has_kv & page.here & ~within(interval)


def _rewritten(interval: Interval, chosen: Expr, where: Expr, must: Expr) -> dict[str, Expr]:
    """A position that is rewritten points to one page: to this one if this one was chosen."""
    there = inside(interval, page.place)
    mine = chosen & (where == page.place)
    return {
        "named": implies(there & (named == page.number), mine),
        "chosen": implies(there & mine, named == page.number),
        "found": implies(must, named > NO_PAGE),
    }


def _locks(
    transition: Transition, pool: str, moved: dict[str, Expr]
) -> tuple[dict[str, Expr], Expr, Expr]:
    """Whether the actor's lock covers the page, and what is locked of all others."""
    rules: dict[str, Expr] = {}
    pin: Expr = page.pin
    beside: Expr = page.beside
    still = later(has_lock, transition.effect)
    taking = list(_of(transition, Move.LOCK, pool))
    for interval in _of(transition, Move.UNLOCK, pool):
        rules["dropped"] = implies(dropped, page.pin & (lift(bool(taking)) | ~still))
        rules["released"] = implies(page.pin & ~still, dropped)
        rules["last_pin"] = _adds_up(interval, dropped & (page.pins == 0), beside_unlocked)
        rules["unlocked_beside"] = (beside_unlocked >= 0) & (beside_unlocked <= page.beside)
        pin, beside = pin & ~dropped, beside - beside_unlocked
    for interval in taking:
        upto = later(own.Q, transition.effect)
        there = moved[page.here.name] & (moved[page.at.name] < upto)
        rules["locked"] = implies(locked, conj(there, moved[page.tree.name] >= 1, ~pin))
        rules["covers"] = implies(_lockable(transition, pool, moved), pin | locked)
        rules["first_pin"] = _adds_up(interval, locked & (page.pins == 0), beside_locked)
        rules["locked_beside"] = beside_locked >= 0
        pin, beside = pin | locked, beside + beside_locked
    return rules, pin, beside


def _lockable(transition: Transition, pool: str, moved: dict[str, Expr]) -> Expr:
    """The tree has the page, and the row needs it there: the lock must cover it."""
    needed = page.here & in_tree(page.at, pool) & (page.tree >= 1)
    return later(needed, {**transition.effect, **moved})


def some_choice(transition: Transition, pool: str) -> dict[str, Expr]:
    """The rules for one way to choose: this page is let alone, but for locks that it must have
    or lose. That they hold shows that rules take no state away (``EXISTS.covers``).

    Without those about sums: they say which tokens are right, so some are wrong.
    """
    rules, after = effect(transition, pool)
    alone: dict[str, Expr] = {
        **{var.name: lift(False) for var in (taken, evicted, pointed)},
        **{var.name: lift(0) for var in (taken_at, pointed_at)},
        named.name: page.number + 1,
        dropped.name: page.pin & ~later(has_lock, transition.effect),
    }
    moved = {name: after[name] for name in (page.here.name, page.at.name, page.tree.name)}
    kept = page.pin & later(has_lock, transition.effect)
    alone[locked.name] = substitute(_lockable(transition, pool, moved), alone) & ~kept
    return {
        name: substitute(rule, alone)
        for name, rule in rules.items()
        if not variables(rule) & {beside_locked.name, beside_unlocked.name}
    }


def _of(transition: Transition, move: Move, pool: str) -> Iterator[Interval]:
    for mem in transition.memory:
        interval = span(mem, pool)
        if mem.move is move and not same(interval.lo, interval.hi):  # a copy of EMPTY, too
            yield interval


def _adds_up(interval: Interval, this: Expr, others: Expr) -> Expr:
    """So many tokens are this page's, if it is among them, and those of all others."""
    return interval.length == ite(this, ONE_PAGE, 0) + others


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
