"""What the page layer says of one actor's row: its lengths, and which of its positions count.

An actor has one row of KV at most, a turn's or a slot's. A page of the tree may be there
and not be needed: in the sliding-window pool what lies below the window of the prefix, or
below the cursor, may be given back, and nobody looks there any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotproof_model.spec.expr import Expr, ceil_page, floor_page, implies, ite, maximum, substitute
from slotproof_model.spec.state import actor_has_kv, config, own, page, pinned, req, slot

NO_PAGE = -1
"""Of a position of a row: it points nowhere."""
ONE_PAGE: Expr = ceil_page(1)
"""P: the tokens of a page."""

has_lock: Expr = slot.locked | req.locked
"""The actor has a lock."""


def in_tree(at: Expr, pool: str) -> Expr:
    """A position of the prefix that must be backed: all of it, or what its window reaches."""
    below = (at >= 0) & (at < own.Q)
    if pool == "full":
        return below
    in_window = at >= floor_page(maximum(0, own.Q - config.window))
    return below & (at >= own.E) & in_window


def in_own(at: Expr, pool: str) -> Expr:
    """A position of the private part."""
    first = own.Q if pool == "full" else maximum(own.Q, own.E)
    return (first <= at) & (at < ceil_page(own.A))


def counts(at: Expr, pool: str) -> Expr:
    """A position that counts: what is there is read, or owned."""
    return in_tree(at, pool) | in_own(at, pool)


def backed(pool: str) -> dict[str, Expr]:
    """INV-BACKED of one pool: each position that counts has a page.

    Which one, INV-PLACE says; that it is the tree's and locked, or the row's own, say INV-PIN
    and INV-OWNER of it.
    """
    there = page.entry > NO_PAGE
    return {
        f"{pool}_protected": implies(actor_has_kv & in_tree(page.place, pool), there),
        f"{pool}_private": implies(actor_has_kv & in_own(page.place, pool), there),
    }


def covered(pool: str) -> Expr:
    """The lock covers what must be backed."""
    return implies(actor_has_kv & page.here & in_tree(page.at, pool), page.pin)


def injective(pool: str) -> Expr:
    """No page lies at two positions that count."""
    named = actor_has_kv & counts(page.place, pool) & (page.entry == page.number)
    return implies(named, page.here & (page.at == page.place))


def protected(figure: Expr) -> Expr:
    """The figure counts the page if somebody's lock covers it, and all other pages."""
    return figure == ite(pinned, ONE_PAGE, 0) + page.beside


def later(expr: Expr, effect: Mapping[str, Expr]) -> Expr:
    """The expression of the state after the effect."""
    return substitute(expr, dict(effect))
