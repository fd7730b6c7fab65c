"""The explore reading, exhaustively: every state of small worlds, breadth first.

The proofs cover any number of sessions. Here every single state is checked: every state invariant
in each state, every step invariant on each edge. The counts are exact and the same on every
machine, so tests pin them: an unintended change of the spec changes a count.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slotproof_model.evaluation.evaluate import outcomes, state_check, step_check
from slotproof_model.evaluation.explore import (
    Bounds,
    CameFrom,
    CanonicalState,
    Explorer,
    Move,
    Stride,
)
from slotproof_model.evaluation.layout import Values
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

DEFAULT: tuple[Bounds, ...] = (
    Bounds("two-sessions", tree=1, width=2, history=1, output=0),
    Bounds("turn-by-turn", requests=0, pages=3, tree=1, width=2),
    Bounds("pages", sessions=1, page_size=2, pages=4, tree=2, width=4, new=(2,), prompt=(3,),
           history=3),
    Bounds("drafts", sessions=1, requests=0, page_size=2, tree=2, width=4, new=(1, 2),
           history=3, draft=2),
    Bounds("window", sessions=1, requests=0, tree=1, width=3, window=1),
    Bounds("window-pages", sessions=1, requests=0, page_size=2, tree=2, width=4, new=(2,),
           window=1),
    Bounds("wipe", sessions=1, tree=2, width=2, profile="wipe"),
    Bounds("overlap", sessions=1, requests=0, tree=2, width=3, draft=1, profile="overlap"),
    Bounds("late", sessions=1, requests=0, tree=1, width=3, draft=1, profile="overlap",
           choices={"retract_keeps": False}),
    Bounds("publish", sessions=1, requests=0, tree=2, width=2, profile="sglang-records"),
    Bounds("lent", sessions=1, requests=0, tree=2, width=2, profile="vllm"),
)  # fmt: skip
"""Bound sets that together reach every transition and both outcomes of every guard. They cover many
actors with little KV, one session with whole pages and speculative slack, the sliding window, and
the choices of the profiles."""


def default(**changes: int | None) -> list[Bounds]:
    """Return the default bound sets with some fields replaced. A ``None`` stays unchanged.

    Lengths scale with a new page size, so the number of filled pages stays the same.
    """
    sizes = {name: size for name, size in changes.items() if size is not None}
    result = []
    for bounds in DEFAULT:
        new, old = sizes.get("page_size", bounds.page_size), bounds.page_size
        scaled = replace(
            bounds,
            width=-(-bounds.width * new // old),
            history=-(-bounds.history * new // old),
            new=tuple(-(-length * new // old) for length in bounds.new),
            prompt=tuple(-(-length * new // old) for length in bounds.prompt),
        )
        result.append(replace(scaled, **sizes))  # type: ignore[arg-type]  # sizes only
    return result


@dataclass(frozen=True)
class Broken:
    """A broken invariant, and the shortest path to it."""

    invariant: str
    conjunct: str
    path: list[Stride]


@dataclass
class Explored:
    """Exact counts of the states and edges within the bounds."""

    bounds: Bounds
    states: int = 0
    edges: int = 0
    depth: int = 0
    """Steps to the farthest state."""
    complete: bool = True
    """The depth limit cut off nothing."""
    transitions: Counter[str] = field(default_factory=Counter)
    """Edges by transition."""
    holds: int = 0
    fails: int = 0
    """A bit per guard conjunct without parameters, as in :func:`evaluate.outcomes`."""
    broken: Broken | None = None
    seconds: float = 0.0


Clauses = tuple[tuple[str, str], ...]


class Checked(Explorer):
    """An explorer that checks invariants, once per view."""

    def __init__(self, bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS) -> None:
        super().__init__(bounds, transitions)
        self._state_check = state_check(bounds.page_size)
        self._step_check = step_check(bounds.page_size)
        self._outcomes = outcomes(bounds.page_size)
        self._all = (1 << len(self._outcomes.names)) - 1
        self._states: dict[Values, Clauses] = {}
        self._steps: dict[tuple[Values, frozenset[str]], list[tuple[Move, Clauses]]] = {}
        self.holds = self.fails = 0

    def broken(self, view: Values) -> Clauses:
        """Return the state invariants broken in this view, and record its guard outcomes."""
        clauses = self._states.get(view)
        if clauses is None:
            vector = list(view)
            clauses = self._states[view] = tuple(self._state_check(vector))
            bits = self._outcomes.evaluate(vector)
            self.holds |= bits
            self.fails |= ~bits & self._all
        return clauses

    def steps(self, view: Values, births: frozenset[str]) -> list[tuple[Move, Clauses]]:
        """Return every move, with the step invariants broken by it."""
        key = (view, births)
        steps = self._steps.get(key)
        if steps is None:
            steps = self._steps[key] = [
                (move, tuple(self._step_check(list(view), self._seen_after(view, move))))
                for move in self.moves.of(view, births)
            ]
        return steps

    @staticmethod
    def _seen_after(view: Values, move: Move) -> list[int]:
        own = (*move.pools, *move.actor)
        return [*own, *view[len(own) :]]


def explore(
    bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS, depth: int | None = None
) -> Explored:
    """Explore every state within the bounds, up to the first level with a broken invariant.

    ``depth``: limit of transitions from the initial state, or no limit if ``None``.

    >>> explored = explore(Bounds(sessions=1), depth=2)
    >>> explored.broken is None, explored.complete
    (True, False)
    """
    explorer = Checked(bounds, transitions)
    explored = Explored(bounds)
    started = time.perf_counter()
    first = explorer.initial()
    came_from: CameFrom = {first: None}
    level = [first]
    while level and explored.broken is None:
        deeper: list[CanonicalState] = []
        cut = depth is not None and explored.depth >= depth
        for at in level:
            views = list(explorer.views(at))
            bad = next((clause for view, *_ in views for clause in explorer.broken(view)), None)
            if bad is not None:
                explored.broken = Broken(*bad, explorer.path(came_from, at))
                break
            for view, births, actor in views:
                for move, wrong in explorer.steps(view, births):
                    target = explorer.after(at, actor, births, move)
                    if target is None:
                        continue
                    new = target not in came_from
                    if cut:
                        explored.complete = explored.complete and not new
                        continue
                    explored.edges += 1
                    explored.transitions[move.transition] += 1
                    if new:
                        came_from[target] = (at, move)
                        deeper.append(target)
                    if wrong and explored.broken is None:
                        path = explorer.path(came_from, at)
                        explored.broken = Broken(*wrong[0], [*path, explorer.stride(move, target)])
        if deeper:
            explored.depth += 1
        level = deeper
    explored.states = len(came_from)
    explored.holds, explored.fails = explorer.holds, explorer.fails
    explored.seconds = time.perf_counter() - started
    return explored


def told(stride: Stride) -> str:
    words = " ".join(f"{name}={value}" for name, value in stride.params.items())
    return f"{stride.transition} {words}".strip()


def report(results: Iterable[Explored]) -> Iterator[str]:
    """Yield lines about every bound set, then unreached conjuncts, and broken invariants."""
    holds = fails = 0
    reached: Counter[str] = Counter()
    for explored in results:
        end = "" if explored.complete else ", cut off there"
        size = f"{explored.states} states, {explored.edges} edges, {explored.depth} deep{end}"
        yield f"{explored.bounds.name}: {size}; {explored.seconds:.1f} s"
        reached += explored.transitions
        holds, fails = holds | explored.holds, fails | explored.fails
        if explored.broken is not None:
            yield f"broken: {explored.broken.invariant}.{explored.broken.conjunct}, after"
            yield from (f"  {told(stride)}" for stride in explored.broken.path)
    yield from (f"{name}: {reached[name]} edges" for name in TRANSITIONS)
    for way, seen in (("held", holds), ("failed", fails)):
        for bit, (transition, name) in enumerate(outcomes(1).names):
            if not seen >> bit & 1:
                yield f"{transition}.{name} never {way}"
