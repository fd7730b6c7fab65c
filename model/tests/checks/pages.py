"""Counts count pages: the same exploration with every page of a small pool carried along.

The proofs concern one arbitrary page, and sums of lengths. That the sum over pages is the count is
an argument in writing, checked here. Each page has a name and an owner: free list, tree, or one
position of one row. The memory moves of a transition hand over the pages in its intervals. After
every edge, the pages of each owner, times P, must be the figures. Every actor must own exactly the
positions of its lengths.

The page chosen by an allocation or an eviction changes names only. After any choice, the same
owners have the same number of pages at the same positions. So one choice stands for all, and a
state needs one layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slotproof_model.evaluation.evaluate import Params, compiled
from slotproof_model.evaluation.explore import SESSION, Bounds, CanonicalState, Explorer, Move
from slotproof_model.evaluation.layout import EMPTY_ACTOR, INDEX, Values, Vector, alone, by_itself
from slotproof_model.spec import state
from slotproof_model.spec.expr import TRUE, Expr, Var, substitute
from slotproof_model.spec.memory import Move as Handover
from slotproof_model.spec.pages import span
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

Table = tuple[tuple[int, int], ...]
"""Pages owned by a row: (position, page)."""
OWNS = {"full": state.owns_full, "swa": state.owns_swa}
_MOVING = (Handover.ALLOC, Handover.FREE, Handover.TO_TREE, Handover.EVICT)


class Layer(NamedTuple):
    """The pages of one pool, by owner. Tables are in the order of the state's actors."""

    free: tuple[int, ...]
    tree: tuple[int, ...]
    tables: tuple[Table, ...]


class Mismatch(Exception):
    """A page out of place by the figures or the lengths."""


@dataclass
class Counted:
    """Counts of an exploration."""

    bounds: Bounds
    states: int = 0
    edges: int = 0
    handed_over: int = 0
    """Pages that changed their owner, over all edges."""
    mismatch: str | None = None


_Number = Callable[[Vector, Params], int]


class PageMoves:
    """Effect of transitions on the pages of one pool."""

    def __init__(self, pool: str, bounds: Bounds, transitions: Mapping[str, Transition]) -> None:
        self.pool, self.page = pool, bounds.page_size
        self._figures = [
            INDEX[f"{pool}.{name}"] for name in ("available", "evictable", "protected")
        ]
        self._positions = range(0, bounds.width + self.page, self.page)
        present: dict[str, Expr] = {"page.here": TRUE, "page.at": Var("param.at")}
        self._owns = compiled(substitute(OWNS[pool], present), self.page)
        self._pages = bounds.pages
        self._constants = bounds.constants.vector
        self._owned: dict[Values, tuple[int, ...]] = {}
        self._moves = {id_: self._handovers(transition) for id_, transition in transitions.items()}

    def _handovers(self, transition: Transition) -> list[tuple[Handover, _Number, _Number]]:
        result = []
        for mem in transition.memory:
            if mem.move in _MOVING:
                interval = span(mem, self.pool)
                low, high = (compiled(end, self.page) for end in (interval.lo, interval.hi))
                result.append((mem.move, low, high))
        return result

    def first(self, actors: int) -> Layer:
        """Return the layer in which every page is free."""
        return Layer(tuple(range(self._pages)), (), ((),) * actors)

    def owned(self, actor: Values) -> tuple[int, ...]:
        """Return the positions of the pages owned by an actor with these lengths."""
        positions = self._owned.get(actor)
        if positions is None:
            view = by_itself(actor, self._constants)
            positions = tuple(at for at in self._positions if self._owns(view, {"at": at}))
            self._owned[actor] = positions
        return positions

    def apply(
        self, layer: Layer, transition: str, view: Vector, params: Params, table: Table
    ) -> tuple[Layer, Table, int]:
        """Hand over the pages in the intervals. Return the layer, the actor's table, and the
        number."""
        free, tree, row = list(layer.free), list(layer.tree), dict(table)
        count = 0
        for move, low, high in self._moves[transition]:
            for at in range(low(view, params), high(view, params), self.page):
                count += 1
                if move in (Handover.ALLOC, Handover.EVICT):
                    giver = free if move is Handover.ALLOC else tree
                    if not giver:
                        raise Mismatch(f"{self.pool}: {move.value}: there is no page left")
                    page = giver.pop(0)
                    if move is Handover.EVICT:
                        free.append(page)
                    elif row.setdefault(at, page) != page:
                        raise Mismatch(f"{self.pool}: position {at} already has page {row[at]}")
                elif at not in row:
                    raise Mismatch(f"{self.pool}: {move.value}: no page of its own at {at}")
                else:
                    (free if move is Handover.FREE else tree).append(row.pop(at))
        pages = Layer(tuple(sorted(free)), tuple(sorted(tree)), layer.tables)
        return pages, tuple(sorted(row.items())), count

    def check(self, at: CanonicalState, layer: Layer) -> None:
        """Raise :class:`Mismatch` if pages differ from figures or lengths."""
        available, evictable, protected = (at.pools[index] for index in self._figures)
        if len(layer.free) * self.page != available:
            raise Mismatch(f"{self.pool}: {len(layer.free)} free pages, {available} available")
        if len(layer.tree) * self.page != evictable + protected:
            raise Mismatch(
                f"{self.pool}: {len(layer.tree)} tree pages, {evictable} evictable, "
                f"{protected} protected"
            )
        for actor, table in zip((*at.sessions, *at.requests), layer.tables, strict=True):
            held = tuple(position for position, _ in table)
            if held != self.owned(actor):
                raise Mismatch(f"{self.pool}: pages at {held}, lengths say {self.owned(actor)}")
        named = [*layer.free, *layer.tree, *(page for table in layer.tables for _, page in table)]
        if sorted(named) != list(range(self._pages)):
            raise Mismatch(f"{self.pool}: a page has two owners or none: {sorted(named)}")


@dataclass(frozen=True)
class _Step:
    """One edge of the graph, and its actor."""

    at: CanonicalState
    births: frozenset[str]
    actor: Values | None
    view: Values
    move: Move
    target: CanonicalState

    def carry(
        self, pages: list[Layer], layers: list[PageMoves], names: tuple[str, ...]
    ) -> tuple[list[Layer], int]:
        """Return the pages of every pool after the edge, checked against its target state."""
        who = self._actor()
        order = self._order(who)
        params = dict(zip(names, self.move.params, strict=True))
        result, handed_over = [], 0
        for layer, moves in zip(pages, layers, strict=True):
            table = layer.tables[who] if who is not None else ()
            pool, table, count = moves.apply(
                layer, self.move.transition, list(self.view), params, table
            )
            tables = [table if index == who else layer.tables[index] for index in order]
            after = pool._replace(tables=tuple(tables))
            moves.check(self.target, after)
            result.append(after)
            handed_over += count
        return result, handed_over

    def _actor(self) -> int | None:
        """Return the actor's place among all actors, or ``None`` for the tree."""
        if self.actor is None:
            return None
        if self.births is SESSION:
            return self.at.sessions.index(self.actor)
        return len(self.at.sessions) + self.at.requests.index(self.actor)

    def _order(self, who: int | None) -> list[int]:
        """Return the previous place of every actor in the next state: states sort their actors."""
        sessions = len(self.at.sessions)
        actors = [*self.at.sessions, *self.at.requests]
        if who is not None:
            actors[who] = self.move.actor
        if self.move.prompt is not None:
            actors[actors.index(EMPTY_ACTOR, sessions)] = alone(self.move.prompt)
        order = sorted(range(sessions), key=actors.__getitem__)
        return order + sorted(range(sessions, len(actors)), key=actors.__getitem__)


PAGED: tuple[Bounds, ...] = (
    Bounds("8 pages", sessions=1, pages=8, tree=2, width=2, output=0),
    Bounds("8 pages of 2", sessions=1, requests=0, page_size=2, pages=8, tree=2, width=4,
           new=(1, 2), history=3, draft=2),
    Bounds("8 pages of 2, window", sessions=1, requests=0, page_size=2, pages=8, tree=1, width=4,
           new=(2,), window=1),
    Bounds("3 pages, two sessions", requests=0, pages=3, tree=1, width=1, history=1, output=0),
)  # fmt: skip
"""Worlds small enough to carry every page along."""


def count_pages(bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS) -> Counted:
    """Explore with pages, up to the first edge with a mismatch."""
    explorer = Explorer(bounds, transitions)
    pools = ("full", "swa") if bounds.window else ("full",)
    layers = [PageMoves(pool, bounds, transitions) for pool in pools]
    counted = Counted(bounds)
    first = explorer.initial()
    actors = len(first.sessions) + len(first.requests)
    pages = {first: [layer.first(actors) for layer in layers]}
    queue = [first]
    for at in queue:  # Grows while it is read: breadth first.
        for view, births, actor in explorer.views(at):
            for move in explorer.moves.of(view, births):
                target = explorer.after(at, actor, births, move)
                if target is None:
                    continue
                counted.edges += 1
                try:
                    step = _Step(at, births, actor, view, move, target)
                    after, count = step.carry(
                        pages[at], layers, explorer.moves.names(move.transition)
                    )
                except Mismatch as wrong:
                    counted.mismatch = f"{move.transition}: {wrong}"
                    counted.states = len(pages)
                    return counted
                counted.handed_over += count
                if target not in pages:
                    pages[target] = after
                    queue.append(target)
    counted.states = len(pages)
    return counted
