"""Positions of one actor's row in the page layer. A position counts if the row needs or owns its
page.

An actor has at most one row of KV: a turn's or a slot's. The row does not need all pages of its
prefix. In the sliding-window pool, pages below the prefix's window or below the cursor may be
freed, because no later token reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotproof_model.spec.expr import Expr, ceil_page, floor_page, implies, ite, maximum, substitute
from slotproof_model.spec.state import actor_has_kv, config, own, page, pinned, req, slot

NO_PAGE = -1
"""Row entry that points to no page."""
ONE_PAGE: Expr = ceil_page(1)
"""Number of tokens in a page, P."""

has_lock: Expr = slot.locked | req.locked
"""The actor's slot or request has a tree lock."""


def in_tree(at: Expr, pool: str) -> Expr:
    """Return the formula: at this position of its prefix, the row needs the tree's page."""
    below = (at >= 0) & (at < own.Q)
    if pool == "full":
        return below
    in_window = at >= floor_page(maximum(0, own.Q - config.window))
    return below & (at >= own.E) & in_window


def in_own(at: Expr, pool: str) -> Expr:
    """Return the formula: at this position, the row owns the page."""
    first = own.Q if pool == "full" else maximum(own.Q, own.E)
    return (first <= at) & (at < ceil_page(own.A))


def counts(at: Expr, pool: str) -> Expr:
    """Return the formula: the position counts, because the row needs or owns its page."""
    return in_tree(at, pool) | in_own(at, pool)


def backed(pool: str) -> dict[str, Expr]:
    """Return the conjuncts of INV-BACKED for one pool: each position that counts has a page.

    INV-PLACE determines the page. INV-PIN and INV-OWNER require the page to be a locked page of the
    tree, or the row's own.
    """
    has_page = page.entry > NO_PAGE
    return {
        f"{pool}_protected": implies(actor_has_kv & in_tree(page.place, pool), has_page),
        f"{pool}_private": implies(actor_has_kv & in_own(page.place, pool), has_page),
    }


def covered(pool: str) -> Expr:
    """Return the formula: the lock covers every page of the tree that the row needs."""
    return implies(actor_has_kv & page.here & in_tree(page.at, pool), page.pin)


def injective(pool: str) -> Expr:
    """Return the formula: no page lies at two positions that count."""
    named = actor_has_kv & counts(page.place, pool) & (page.entry == page.number)
    return implies(named, page.here & (page.at == page.place))


def protected(figure: Expr) -> Expr:
    """Return the formula: ``figure`` is ``page.beside``, plus P tokens if this page is locked."""
    return figure == ite(pinned, ONE_PAGE, 0) + page.beside


def later(expr: Expr, effect: Mapping[str, Expr]) -> Expr:
    """Return the expression with every variable's value after the effect."""
    return substitute(expr, dict(effect))
