"""The explore reading: all states of the spec within small bounds, breadth first.

What the proofs say for any number of sessions is looked at here in every single
state of a small world: every state invariant in each state, every step
invariant on each edge. The counts are exact and the same on every machine, so
that tests can pin them: a change of the spec that nobody meant shows there.

Sessions are interchangeable, and so are requests and rows: states that differ
by names only are one state, and equal actors take a step once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from slotproof_model.evaluation import layout
from slotproof_model.evaluation.evaluate import contributions, outcomes, state_check
from slotproof_model.evaluation.explore_bounds import Bounds
from slotproof_model.evaluation.explore_moves import NOBODY, REQUEST, SESSION, Move, Moves
from slotproof_model.evaluation.layout import EMPTY_ACTOR, Values
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS


class CanonicalState(NamedTuple):
    """A state up to names: actors of a kind are sorted, and absent ones are empty."""

    pools: Values
    sessions: tuple[Values, ...]
    requests: tuple[Values, ...]


@dataclass(frozen=True)
class Stride:
    """One step of a path that leads to a broken invariant."""

    transition: str
    params: dict[str, int]
    state: CanonicalState

    def __str__(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.transition} {words}".strip()


@dataclass(frozen=True)
class Broken:
    """An invariant that fails, and the shortest way there."""

    invariant: str
    conjunct: str
    path: list[Stride]


@dataclass
class Explored:
    """What there is within the bounds. Counts are exact."""

    bounds: Bounds
    states: int = 0
    edges: int = 0
    depth: int = 0
    """Steps to the state that is farthest away."""
    complete: bool = True
    """Nothing was cut off by the depth."""
    transitions: Counter[str] = field(default_factory=Counter)
    """Edges of each transition."""
    holds: int = 0
    fails: int = 0
    """A bit per guard conjunct without parameters, as in :func:`evaluate.outcomes`."""
    broken: Broken | None = None
    seconds: float = 0.0


class Explorer:
    """Steps and checks of one bound set; what it computes for a view it computes once."""

    def __init__(self, bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS) -> None:
        self.bounds = bounds
        self.moves = Moves(bounds, transitions)
        self._constants = bounds.constants.vector
        self._contributions = contributions(bounds.page_size)
        self._check = state_check(bounds.page_size)
        self._outcomes = outcomes(bounds.page_size)
        self._all = (1 << len(self._outcomes.names)) - 1
        self._shares: dict[Values, Values] = {}
        self._checked: dict[Values, tuple[tuple[str, str], ...]] = {}
        self.holds = self.fails = 0

    def initial(self) -> CanonicalState:
        bounds, empty = self.bounds, (EMPTY_ACTOR,)
        return CanonicalState(bounds.pools, empty * bounds.sessions, empty * bounds.requests)

    def views(self, at: CanonicalState) -> Iterator[tuple[Values, frozenset[str], Values | None]]:
        """What the tree and each different actor sees, what only it can do, and who it is."""
        shares = [self.share(each) for each in (*at.sessions, *at.requests)]
        total = [sum(column) for column in zip(*shares, strict=True)]
        longest = layout.two_longest(shares)
        for births, actors in ((SESSION, at.sessions), (REQUEST, at.requests)):
            for actor in dict.fromkeys(actors):
                rest = layout.others(total, longest, self.share(actor))
                yield (*at.pools, *actor, *rest, *self._constants), births, actor
        rest = layout.others(total, longest, None)
        yield (*at.pools, *EMPTY_ACTOR, *rest, *self._constants), NOBODY, None

    def share(self, actor: Values) -> Values:
        """What an actor adds to the frame of the others."""
        found = self._shares.get(actor)
        if found is None:
            vector = layout.by_itself(actor, self._constants)
            found = self._shares[actor] = tuple(map(int, self._contributions(vector)))
        return found

    def broken(self, view: Values) -> tuple[tuple[str, str], ...]:
        """State invariants that fail in this view; its guard outcomes are noted."""
        found = self._checked.get(view)
        if found is None:
            vector = list(view)
            found = self._checked[view] = tuple(self._check(vector))
            bits = self._outcomes.evaluate(vector)
            self.holds |= bits
            self.fails |= ~bits & self._all
        return found

    def stride(self, move: Move, target: CanonicalState) -> Stride:
        names = self.moves.names(move.transition)
        return Stride(move.transition, dict(zip(names, move.params, strict=True)), target)

    def path(self, came_from: _CameFrom, at: CanonicalState) -> list[Stride]:
        """The way from the initial state, as short as any."""
        strides: list[Stride] = []
        edge = came_from[at]
        while edge is not None:
            strides.append(self.stride(edge[1], at))
            at = edge[0]
            edge = came_from[at]
        return strides[::-1]

    def after(
        self, at: CanonicalState, actor: Values | None, births: frozenset[str], move: Move
    ) -> CanonicalState | None:
        """Where the step leads; ``None`` if there is no place for a request that goes on alone."""
        sessions, requests = at.sessions, at.requests
        if births is SESSION:
            sessions = _replaced(sessions, actor, move.actor)
        elif births is REQUEST:
            requests = _replaced(requests, actor, move.actor)
        if move.prompt is not None:
            if EMPTY_ACTOR not in requests:
                return None
            requests = _replaced(requests, EMPTY_ACTOR, layout.alone(move.prompt))
        return CanonicalState(move.pools, sessions, requests)


def _replaced(actors: tuple[Values, ...], old: Values | None, new: Values) -> tuple[Values, ...]:
    rest = list(actors)
    rest[rest.index(old)] = new  # type: ignore[arg-type]  # only the tree has no actor
    return tuple(sorted(rest))


def explore(
    bounds: Bounds,
    transitions: Mapping[str, Transition] = TRANSITIONS,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Explored:
    """Every state within the bounds; stops at the first level with a broken invariant.

    ``progress`` is told (depth, states) after each level.

    >>> found = explore(Bounds(sessions=1, depth=2))
    >>> found.broken is None, found.complete
    (True, False)
    """
    explorer = Explorer(bounds, transitions)
    found = Explored(bounds)
    started = time.perf_counter()
    first = explorer.initial()
    came_from: _CameFrom = {first: None}
    level = [first]
    while level and found.broken is None:
        progress(found.depth, len(came_from))
        deeper: list[CanonicalState] = []
        cut = bounds.depth is not None and found.depth >= bounds.depth
        for at in level:
            views = list(explorer.views(at))
            bad = next((each for view, *_ in views for each in explorer.broken(view)), None)
            if bad is not None:
                found.broken = Broken(*bad, explorer.path(came_from, at))
                break
            for view, births, actor in views:
                for move in explorer.moves.of(view, births):
                    target = explorer.after(at, actor, births, move)
                    if target is None:
                        continue
                    new = target not in came_from
                    if cut:
                        found.complete = found.complete and not new
                        continue
                    found.edges += 1
                    found.transitions[move.transition] += 1
                    if new:
                        came_from[target] = (at, move)
                        deeper.append(target)
                    if move.broken and found.broken is None:
                        here = explorer.path(came_from, at)
                        found.broken = Broken(
                            *move.broken[0], [*here, explorer.stride(move, target)]
                        )
        if deeper:
            found.depth += 1
        level = deeper
    found.states = len(came_from)
    found.holds, found.fails = explorer.holds, explorer.fails
    found.seconds = time.perf_counter() - started
    return found


_CameFrom = dict[CanonicalState, tuple[CanonicalState, Move] | None]
