"""The page layer: effect of a transition on one arbitrary page, derived from its memory moves.

Let p be any page of a pool. Its owner is the free list, the tree, this actor's row, or another
actor's row. The intervals of the transition's memory moves determine the new owner. Two obligations
follow. The page still has exactly one owner. The actor owns the page exactly if the actor's lengths
cover the page's position. A fact about an arbitrary page holds for all pages.

A page of the tree is locked while a lock of this actor (``pin``) or of another actor (``pins``)
covers the page. A locked page is protected, and only unlocked pages are evicted. A LOCK or UNLOCK
move has a number of tokens. Page p contributes one page of tokens to this number if p gets its
first or loses its last lock. All other pages contribute an arbitrary number of tokens (``beside``).

``place`` is any position of the row. The row's entry at ``place`` is page p or another page.

The transition does not determine some choices: the free page that an allocation takes, the tree
page that is evicted, the pages of a matched prefix. These choices are parameters, restricted by
named rules.
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
"""True if the allocation takes this page from the free list."""
taken_at = Var("param.page_taken_at")
"""Position in the row for which the allocation takes the page."""
evicted = Var("param.page_evicted", Sort.BOOL)
pointed = Var("param.page_pointed", Sort.BOOL)
"""True if the row points to this page of the tree after the transition."""
pointed_at = Var("param.page_pointed_at")
"""Position at which the row points to this page of the tree after the transition."""
named = Var("param.page_named")
"""Number of the page in the row's entry at ``place``, once the entry is rewritten."""
locked = Var("param.page_locked", Sort.BOOL)
"""True if the new lock covers this page."""
dropped = Var("param.page_dropped", Sort.BOOL)
"""True if the dropped lock covered this page."""
beside_locked, beside_unlocked = Var("param.page_beside_locked"), Var("param.page_beside_unlocked")
"""Tokens of all other pages that get their first lock, or lose their last lock."""
CHOICES = (
    taken, taken_at, evicted, pointed, pointed_at, named, locked, dropped, beside_locked,
    beside_unlocked,
)  # fmt: skip

ANYWHERE = {
    "choice.place": is_aligned(page.place) & (page.place >= 0),
    "choice.number": page.number >= 0,
}
"""Assumptions about the arbitrary page and the arbitrary position."""


def span(mem: Mem, pool: str) -> Interval:
    return mem.full if pool == "full" else mem.swa


def inside(interval: Interval, at: Expr) -> Expr:
    return (interval.lo <= at) & (at < interval.hi)


def within(interval: Interval) -> Expr:
    """Return the formula: at a position in the interval, this actor's row points to the page."""
    return page.here & inside(interval, page.at)


def effect(transition: Transition, pool: str) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """Return the rules that restrict the choices, and the new values of the page's variables."""
    free: Expr = page.free
    tree: Expr = page.tree
    own: Expr = page.own
    points: Expr = page.here
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
            points = taken | _kept(interval)
            entry = ite(inside(interval, page.place), named, entry)
            rules |= _rewritten(interval, taken, taken_at, inside(interval, page.place))
        elif mem.move is Move.POINT:
            where = conj(inside(interval, pointed_at), is_aligned(pointed_at), page.tree >= 1)
            elsewhere = actor_has_kv & page.here & counts(page.at, pool)
            rules["pointed"] = implies(pointed, where & ~elsewhere)
            at = ite(pointed, pointed_at, at)
            points = pointed | _kept(interval)
            entry = ite(inside(interval, page.place), named, entry)
            needed = inside(interval, page.place) & later(
                in_tree(page.place, pool), transition.effect
            )
            rules |= _rewritten(interval, pointed, pointed_at, needed)
        elif mem.move is Move.EVICT:
            rules["evicted"] = implies(evicted, page.tree >= 1)
            rules["unpinned"] = implies(evicted, ~page.pin & (page.pins == 0))
            free, tree = free + ite(evicted, 1, 0), tree - ite(evicted, 1, 0)
    prefix_after = {page.here.name: points, page.at.name: at, page.tree.name: tree}
    lock_rules, pin, beside = _locks(transition, pool, prefix_after)
    after = {
        page.free.name: free,
        page.tree.name: tree,
        page.own.name: own,
        page.here.name: points,
        page.at.name: at,
        page.pin.name: pin,
        page.beside.name: beside,
        page.entry.name: entry,
    }
    return {**rules, **lock_rules}, after


def _kept(interval: Interval) -> Expr:
    """Return the formula: the row pointed to the page before, and that entry is not overwritten."""
    return actor_has_kv & page.here & ~within(interval)


def _rewritten(interval: Interval, chosen: Expr, where: Expr, must: Expr) -> dict[str, Expr]:
    """Return the rules of a rewritten entry: the entry is this page exactly if ``chosen``."""
    rewritten = inside(interval, page.place)
    this_page = chosen & (where == page.place)
    return {
        "named": implies(rewritten & (named == page.number), this_page),
        "chosen": implies(rewritten & this_page, named == page.number),
        "found": implies(must, named > NO_PAGE),
    }


def _locks(
    transition: Transition, pool: str, moved: dict[str, Expr]
) -> tuple[dict[str, Expr], Expr, Expr]:
    """Return the rules for locks, and the new values of ``pin`` and ``beside``."""
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
        in_prefix = moved[page.here.name] & (moved[page.at.name] < upto)
        rules["locked"] = implies(locked, conj(in_prefix, moved[page.tree.name] >= 1, ~pin))
        rules["covers"] = implies(_lockable(transition, pool, moved), pin | locked)
        rules["first_pin"] = _adds_up(interval, locked & (page.pins == 0), beside_locked)
        rules["locked_beside"] = beside_locked >= 0
        pin, beside = pin | locked, beside + beside_locked
    return rules, pin, beside


def _lockable(transition: Transition, pool: str, moved: dict[str, Expr]) -> Expr:
    """Return the formula: the row needs the page in the tree, so the lock must cover the page."""
    needed = page.here & in_tree(page.at, pool) & (page.tree >= 1)
    return later(needed, {**transition.effect, **moved})


def some_choice(transition: Transition, pool: str) -> dict[str, Expr]:
    """Return the rules for one particular choice: the page stays as it is, except for its locks.

    The page gets every lock that the rules demand, and loses every lock that ends. A proof of these
    rules shows that some choice is legal in every state (``EXISTS.covers``). Rules about sums are
    left out, because exactly one token count satisfies them.
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
        if mem.move is move and not same(interval.lo, interval.hi):  # skip empty intervals
            yield interval


def _adds_up(interval: Interval, this: Expr, others: Expr) -> Expr:
    """Return the formula: the interval's length is ``others``, plus one page if ``this``."""
    return interval.length == ite(this, ONE_PAGE, 0) + others


def whole(transition: Transition) -> dict[str, Expr]:
    """Return a formula per interval: a nonempty interval begins and ends at page boundaries."""
    result: dict[str, Expr] = {}
    for index, mem in enumerate(transition.memory):
        if mem.move in (Move.ALLOC, Move.FREE, Move.TO_TREE):
            for pool in ("full", "swa"):
                interval = span(mem, pool)
                aligned = conj(is_aligned(interval.lo), is_aligned(interval.hi))
                name = f"{mem.move.name.lower()}{index}_{pool}"
                result[name] = implies(interval.lo < interval.hi, aligned)
    return result


RULES: dict[str, str] = {
    "taken": "An allocation takes only free pages, each for one page-aligned position.",
    "pointed": "The row points only to pages of the tree, each at one page-aligned position. The "
    "row must not need the page at another position.",
    "named": "A rewritten entry is this page only if this page was chosen for the position.",
    "chosen": "If this page was chosen for the position, the rewritten entry is this page.",
    "found": "Every position of the interval that needs a page gets a page.",
    "evicted": "Only a page of the tree is evicted.",
    "unpinned": "Only an unlocked page is evicted: no lock of this or another actor covers it.",
    "dropped": "A lock is dropped only from a page that it covers.",
    "released": "A lock that ends is dropped from every page that it covers.",
    "last_pin": "The number of unlocked tokens counts exactly the pages that lose their last lock.",
    "unlocked_beside": "The other pages lose no more locked tokens than they have.",
    "locked": "A lock covers only pages of the tree, in the protected prefix of the row.",
    "covers": "The lock covers every page of the tree that the row needs.",
    "first_pin": "The number of locked tokens counts exactly the pages that get their first lock.",
    "locked_beside": "The other pages do not lose locked tokens when a lock is taken.",
}
"""Sentence of each rule, by the rule's name in `effect`."""
