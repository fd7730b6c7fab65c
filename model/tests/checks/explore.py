"""The explore reading, exhaustively: every state of small worlds, breadth first.

What the proofs say for any number of sessions is looked at here in every single state: every state
invariant in each state, every step invariant on each edge. The counts are exact and the same on
every machine, so that tests can pin them: a change of the spec that nobody meant shows there.
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
    Bounds("publish", sessions=1, requests=0, tree=2, width=2, profile="sglang-records"),
    Bounds("lent", sessions=1, requests=0, tree=2, width=2, profile="vllm"),
)  # fmt: skip
"""Chosen so that together they reach every transition and both outcomes of every guard: many
actors with little KV, one session with whole pages and speculative slack, the sliding window, and
the choices of the profiles."""


def default(**changes: int | None) -> list[Bounds]:
    """The default bound sets with fields replaced in all of them; what is ``None`` stays.

    Another page size takes the lengths along, so that as many pages are filled.
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


Clauses = tuple[tuple[str, str], ...]


class Checked(Explorer):
    """An explorer that checks invariants; what it computes for a view it computes once."""

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
        """State invariants that fail in this view; its guard outcomes are noted."""
        found = self._states.get(view)
        if found is None:
            vector = list(view)
            found = self._states[view] = tuple(self._state_check(vector))
            bits = self._outcomes.evaluate(vector)
            self.holds |= bits
            self.fails |= ~bits & self._all
        return found

    def steps(self, view: Values, births: frozenset[str]) -> list[tuple[Move, Clauses]]:
        """Every move, with the step invariants that do not hold across it."""
        key = (view, births)
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = [
                (move, tuple(self._step_check(list(view), self._seen_after(view, move))))
                for move in self.moves.of(view, births)
            ]
        return found

    @staticmethod
    def _seen_after(view: Values, move: Move) -> list[int]:
        mine = (*move.pools, *move.actor)
        return [*mine, *view[len(mine) :]]


def explore(
    bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS, depth: int | None = None
) -> Explored:
    """Every state within the bounds; stops at the first level with a broken invariant.

    ``depth``: transitions from the initial state; without it until nothing new is found.

    >>> found = explore(Bounds(sessions=1), depth=2)
    >>> found.broken is None, found.complete
    (True, False)
    """
    explorer = Checked(bounds, transitions)
    found = Explored(bounds)
    started = time.perf_counter()
    first = explorer.initial()
    came_from: CameFrom = {first: None}
    level = [first]
    while level and found.broken is None:
        deeper: list[CanonicalState] = []
        cut = depth is not None and found.depth >= depth
        for at in level:
            views = list(explorer.views(at))
            bad = next((each for view, *_ in views for each in explorer.broken(view)), None)
            if bad is not None:
                found.broken = Broken(*bad, explorer.path(came_from, at))
                break
            for view, births, actor in views:
                for move, wrong in explorer.steps(view, births):
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
                    if wrong and found.broken is None:
                        here = explorer.path(came_from, at)
                        found.broken = Broken(*wrong[0], [*here, explorer.stride(move, target)])
        if deeper:
            found.depth += 1
        level = deeper
    found.states = len(came_from)
    found.holds, found.fails = explorer.holds, explorer.fails
    found.seconds = time.perf_counter() - started
    return found


def told(stride: Stride) -> str:
    words = " ".join(f"{name}={value}" for name, value in stride.params.items())
    return f"{stride.transition} {words}".strip()


def report(results: Iterable[Explored]) -> Iterator[str]:
    """Lines about each bound set, then what none of them reached, and what is broken."""
    holds = fails = 0
    reached: Counter[str] = Counter()
    for each in results:
        end = "" if each.complete else ", cut off there"
        size = f"{each.states} states, {each.edges} edges, {each.depth} deep{end}"
        yield f"{each.bounds.name}: {size}; {each.seconds:.1f} s"
        reached += each.transitions
        holds, fails = holds | each.holds, fails | each.fails
        if each.broken is not None:
            yield f"broken: {each.broken.invariant}.{each.broken.conjunct}, after"
            yield from (f"  {told(stride)}" for stride in each.broken.path)
    yield from (f"{name}: {reached[name]} edges" for name in TRANSITIONS)
    for way, seen in (("held", holds), ("failed", fails)):
        for bit, (transition, name) in enumerate(outcomes(1).names):
            if not seen >> bit & 1:
                yield f"{transition}.{name} never {way}"
