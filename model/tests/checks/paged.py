"""The spec's world with numbered pages: any number of actors, with owner and locks of every page.

Counts and lengths come from ``world``, and the page layer (``pages``) moves pages. The proofs use
one arbitrary page. Here, rules and invariants of the page layer are evaluated for every page, as
seen by every actor. A forbidden step is performed nonetheless, to show which clauses it breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from slotproof_model.evaluation import layout
from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.evaluation.layout import EMPTY_ACTOR, LAYOUT
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec import pages
from slotproof_model.spec.expr import Expr, Var, substitute, walk
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.memory import Interval, Move
from slotproof_model.spec.places import NO_PAGE, has_lock, later
from slotproof_model.spec.state import own
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts

Row = dict[int, int]
"""Page number by position."""
Values = Mapping[str, int]


@dataclass
class Layer:
    """The pages of one pool, by number. Rows and locks are by actor."""

    count: int
    free: set[int]
    tree: set[int] = field(default_factory=set)
    owner: dict[int, str] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    lies: dict[str, Row] = field(default_factory=dict)
    """Position by page: the row's last entry for the page."""
    locks: dict[str, set[int]] = field(default_factory=dict)

    def locked(self) -> set[int]:
        """Return the pages locked by any actor."""
        return set().union(*self.locks.values())


@dataclass(frozen=True)
class Choice:
    """Choices in one pool that the transition does not determine."""

    pointed: Row = field(default_factory=dict)
    """Tree pages that the row points to, by position."""
    evicted: frozenset[int] = frozenset()
    locked: frozenset[int] | None = None
    """Pages covered by the lock. ``None``: all pages of the prefix."""


class Paged:
    """A world with numbered pages, moved by ``do``."""

    def __init__(self, constants: Constants, full: int, swa: int, rows: int) -> None:
        self.size = constants.page_size
        self.places = range(0, constants.width + self.size, self.size)
        self.world = World(constants, layout.initial_pools(full, swa, rows))
        self.layers = {
            pool: Layer(tokens // self.size, set(range(tokens // self.size)))
            for pool, tokens in (("full", full), ("swa", swa))
            if tokens
        }

    def do(
        self,
        transition: str,
        sid: str | None,
        rid: str | None,
        params: Values | None = None,
        choices: Mapping[str, Choice] | None = None,
    ) -> list[str]:
        """Take a step. Return the guard conjuncts and rules that forbid the step, then the clauses
        that are broken after the step. An empty list means allowed.

        >>> from slotproof_model.spec.profiles import PROFILES
        >>> world = Paged(Constants(1, 8, 0, PROFILES["reference"]), full=4, swa=0, rows=1)
        >>> world.do("T-OPEN", "s", None), world.do("T-EVICT", None, None, {"n": 1, "swa_n": 0})
        ([], ['T-EVICT / guard.full_evictable', 'INV-SUM-FULL.nonnegative'])
        """
        key = self.world.key(transition, sid, rid) or ""
        values = {**_named(params or {}), **self._vector(key)}
        problems: list[str] = []
        for pool, layer in self.layers.items():
            chosen = (choices or {}).get(pool, Choice())
            problems += self._move(pool, layer, key, TRANSITIONS[transition], values, chosen)
        for problem in self.world.apply(transition, sid, rid, params or {}):
            said = f"guard.{problem.guard}" if problem.guard else problem.conjunct
            broken = f"{problem.invariant}.{problem.conjunct}"
            problems.append(f"{transition} / {said}" if problem.guard else broken)
        problems += [f"{clause}.{name}" for _, clause, name in self.world.violations()]
        return list(dict.fromkeys([*problems, *self.broken()]))

    def broken(self) -> Iterator[str]:
        """Yield the clauses of the page layer broken for some page, as seen by some actor."""
        for pool, layer in self.layers.items():
            formulas = _clauses(pool)
            for key in self._actors(layer):
                vector = self._vector(key)
                for page in range(layer.count):
                    for place in self.places:
                        seen = {**vector, **self._page(layer, key, page, place)}
                        for clause, expr in formulas.items():
                            if not value(expr, seen, self.size):
                                yield clause

    def _actors(self, layer: Layer) -> list[str]:
        """Return all actors, and ended actors that still have a lock."""
        left = (key for key, held in layer.locks.items() if held)
        return list(dict.fromkeys([*self.world.actors, *left])) or [""]

    def _vector(self, key: str) -> dict[str, int]:
        present = key if key in self.world.actors else None
        if present is None:
            own = [*self.world.pools, *EMPTY_ACTOR, *self.world.frame(None)]
            vector = [*own, *self.world.constants.vector]
        else:
            vector = self.world.vector(present)
        return dict(zip(LAYOUT, map(int, vector), strict=True))

    def _page(self, layer: Layer, key: str, page: int, place: int) -> dict[str, int]:
        """Return the page and the position as seen by an actor."""
        owner = layer.owner.get(page)
        lies = layer.lies.get(key, {})
        others = [held for actor, held in layer.locks.items() if actor != key]
        return {
            "page.free": int(page in layer.free),
            "page.tree": int(page in layer.tree),
            "page.own": int(owner is not None and owner == key),
            "page.rest": int(owner is not None and owner != key),
            "page.here": int(page in lies),
            "page.at": lies.get(page, 0),
            "page.pin": int(page in layer.locks.get(key, ())),
            "page.pins": sum(page in held for held in others),
            "page.beside": self.size * len(layer.locked() - {page}),
            "page.number": page,
            "page.place": place,
            "page.entry": layer.rows.get(key, {}).get(place, NO_PAGE),
        }

    def _move(
        self,
        pool: str,
        layer: Layer,
        key: str,
        transition: Transition,
        values: Values,
        chosen: Choice,
    ) -> list[str]:
        """Move pages, and return the rules that forbid the move."""
        rules, after = _effect(transition.id, pool)
        taken = self._taken(pool, layer, transition, values)
        moved = {**taken, **chosen.pointed}
        named = {at: page for at, page in moved.items() if 0 <= page < layer.count}
        everybody = range(layer.count)
        base: dict[int, dict[str, int]] = {}
        for page in everybody:
            seen = {**values, **self._page(layer, key, page, 0)}
            seen |= _chosen("taken", taken, page) | _chosen("pointed", chosen.pointed, page)
            base[page] = seen | {"param.page_evicted": int(page in chosen.evicted)}
        first, last = self._locks(transition, base, after, chosen)
        new: dict[int, dict[str, int]] = {}
        row: Row = {}
        forbidden: list[str] = []
        for page in everybody:
            for place in self.places:
                seen = {
                    **base[page],
                    **self._page(layer, key, page, place),
                    "param.page_named": named.get(place, NO_PAGE),
                    "param.page_beside_locked": self.size * len(first - {page}),
                    "param.page_beside_unlocked": self.size * len(last - {page}),
                }
                forbidden += [
                    f"{transition.id} [{pool}] / choice.{name}"
                    for name, rule in rules.items()
                    if not value(rule, seen, self.size)
                ]
                new[page] = {name: value(expr, seen, self.size) for name, expr in after.items()}
                row[place] = new[page]["page.entry"]
        self._hand_over(layer, key, new, row)
        return list(dict.fromkeys(forbidden))

    def _locks(
        self,
        transition: Transition,
        base: dict[int, dict[str, int]],
        after: Mapping[str, Expr],
        chosen: Choice,
    ) -> tuple[set[int], set[int]]:
        """Set ``page_locked`` and ``page_dropped`` of every page. Return the pages that get their
        first lock, and the pages that lose their last lock."""
        moves = {mem.move for mem in transition.memory}
        upto, still = _lock_after(transition.id)
        first, last = set(), set()
        for page, seen in base.items():
            alone = not seen["page.pins"]
            dropped = (
                Move.UNLOCK in moves and seen["page.pin"] and not value(still, seen, self.size)
            )
            seen["param.page_dropped"] = int(dropped)
            points, at, tree = (
                value(after[f"page.{name}"], {**seen, "param.page_named": 0}, self.size)
                for name in ("here", "at", "tree")
            )
            covered = points and tree and at < value(upto, seen, self.size)
            if chosen.locked is not None:
                covered = page in chosen.locked
            locked = Move.LOCK in moves and covered and not seen["page.pin"]
            seen["param.page_locked"] = int(bool(locked))
            if locked and alone:
                first.add(page)
            if dropped and alone:
                last.add(page)
        return first, last

    def _taken(self, pool: str, layer: Layer, transition: Transition, values: Values) -> Row:
        """Return a free page for every allocated position, lowest numbers first."""
        free = sorted(layer.free)
        taken: Row = {}
        for mem in transition.memory:
            if mem.move is Move.ALLOC:
                taken.update(
                    zip(self._positions(pages.span(mem, pool), values), free, strict=False)
                )
        return taken

    def _positions(self, interval: Interval, values: Values) -> range:
        low, high = (value(end, values, self.size) for end in (interval.lo, interval.hi))
        return range(low, high, self.size)

    def _hand_over(
        self, layer: Layer, key: str, new: Mapping[int, Mapping[str, int]], row: Row
    ) -> None:
        lies: Row = {}
        held: set[int] = set()
        for page, seen in new.items():
            for place, owned in ((layer.free, "free"), (layer.tree, "tree")):
                (place.add if seen[f"page.{owned}"] > 0 else place.discard)(page)
            if seen["page.own"] > 0:
                layer.owner[page] = key
            elif layer.owner.get(page) == key:
                del layer.owner[page]
            if seen["page.here"]:
                lies[page] = seen["page.at"]
            if seen["page.pin"]:
                held.add(page)
        layer.rows[key] = {at: page for at, page in row.items() if page != NO_PAGE}
        layer.lies[key], layer.locks[key] = lies, held


def _named(params: Values) -> dict[str, int]:
    return {f"param.{name}": number for name, number in params.items()}


def _chosen(how: str, row: Row, page: int) -> dict[str, int]:
    at = next((at for at, entry in row.items() if entry == page), None)
    return {f"param.page_{how}": int(at is not None), f"param.page_{how}_at": at or 0}


def value(expr: Expr, values: Values, page_size: int) -> int:
    """Return the value of an expression, given its variables' values by name."""
    return int(_compiled(expr, page_size)({}, values))


@cache
def _compiled(expr: Expr, page_size: int) -> Callable[..., int]:
    names = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    by_name = {name: Var(f"param.{name}", node.of) for name, node in names.items()}
    return compiled(substitute(expr, dict(by_name)), page_size)


@cache
def _effect(transition: str, pool: str) -> tuple[dict[str, Expr], dict[str, Expr]]:
    return pages.effect(TRANSITIONS[transition], pool)


@cache
def _lock_after(transition: str) -> tuple[Expr, Expr]:
    """Return the formulas of the actor's prefix length and lock after the transition."""
    upto, still = (later(expr, TRANSITIONS[transition].effect) for expr in (own.Q, has_lock))
    return upto, still


@cache
def _clauses(pool: str) -> dict[str, Expr]:
    return conjuncts(Spec(), Kind.STATE, pool)
