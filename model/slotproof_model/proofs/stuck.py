"""Complete search of a small world for stuck requests, the counterexamples to progress.

The world has one session and one request without a session. A waiting request counts if it would
fit alone with an answer of one more token (``progress.ADMISSIBLE``). The search looks for scheduler
and tree steps that finish such a request with this token. States with shorter paths come first. The
search tries all sequences of steps, so a request that it reports is never answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.evaluation.explore import (
    SESSION,
    Bounds,
    CameFrom,
    CanonicalState,
    Explorer,
    Stride,
)
from slotproof_model.evaluation.layout import OWN
from slotproof_model.proofs.progress import ADMISSIBLE, ENDS, able, answer
from slotproof_model.spec.expr import conj, substitute
from slotproof_model.spec.state import req
from slotproof_model.spec.whole import Spec

WORLD = Bounds(
    "one session, one request", requests=1, sessions=1, pages=2, tree=1, rows=2, width=2,
    prompt=(2,), history=3, output=1,
)  # fmt: skip
"""Small world with two pages: a session holds one page, and a prompt needs both."""
_LEFT_OUT = frozenset(["T-REJECT"])
"""Client steps left out of the search, because T-PLAIN-SUBMIT makes the same kind of request."""
_BY = ("the scheduler", "the tree")
_TOLD = OWN["req.told"]


@dataclass(frozen=True)
class Stuck:
    """A state with a request that waits forever, and a shortest path to the state."""

    bounds: Bounds
    first: CanonicalState
    path: tuple[Stride, ...]
    who: int
    """Actor that waits: 0 for the session's turn, 1 for the request without a session."""
    reachable: int
    """Number of states that scheduler and tree can still reach, including the stuck state."""

    def steps(self) -> Iterator[tuple[str, dict[str, int], CanonicalState]]:
        """Yield every step with its parameters and its target state, from ``init`` on."""
        yield "init", {}, self.first
        for stride in self.path:
            yield stride.transition, stride.params, stride.state


@dataclass(frozen=True)
class Looked:
    """Result of a search: numbers of states, and the stuck state, if any."""

    states: int
    waiting: int
    """Number of (state, waiting request) pairs in which the request would fit alone."""
    stuck: Stuck | None


@dataclass
class _World:
    """All states, and the steps of scheduler and tree between them."""

    explorer: Explorer
    order: list[CanonicalState]
    came_from: CameFrom
    steps: dict[CanonicalState, list[tuple[CanonicalState, int | None]]]
    """Steps by source state: target state, and any actor that the step answers."""


def _explore(explorer: Explorer, spec: Spec) -> _World:
    first = explorer.initial()
    order = [first]
    came_from: CameFrom = {first: None}
    steps: dict[CanonicalState, list[tuple[CanonicalState, int | None]]] = {}
    for at in order:  # The loop extends the list: breadth first.
        strides = steps.setdefault(at, [])
        for view, births, actor in explorer.views(at):
            for move in explorer.moves.of(view, births):
                target = explorer.after(at, actor, births, move)
                if target is None:
                    continue
                if target not in came_from:
                    came_from[target] = (at, move)
                    order.append(target)
                if spec.transitions[move.transition].by in _BY:
                    done = move.transition in ENDS and actor is not None and actor[_TOLD] >= 1
                    strides.append((target, int(births is not SESSION) if done else None))
    return _World(explorer, order, came_from, steps)


def _can_end(world: _World, who: int) -> set[CanonicalState]:
    """Return the states from which the actor's request can be answered."""
    backwards: dict[CanonicalState, list[CanonicalState]] = {}
    answerable: set[CanonicalState] = set()
    for at, steps in world.steps.items():
        for target, ends in steps:
            backwards.setdefault(target, []).append(at)
            if ends == who:
                answerable.add(at)
    todo = list(answerable)
    while todo:
        for before in backwards.get(todo.pop(), ()):
            if before not in answerable:
                answerable.add(before)
                todo.append(before)
    return answerable


def look(
    without: frozenset[str] = frozenset(),
    profile: str = "reference",
    spec: Spec | None = None,
    bounds: Bounds = WORLD,
) -> Looked:
    """Search for the first state in which a request waits forever.

    >>> stuck = look(frozenset(["T-DISCARD"])).stuck
    >>> [stride.transition for stride in stuck.path]
    ['T-OPEN', 'T-SUBMIT', 'T-MATCH', 'T-EXTEND', 'T-SAVE', 'T-PLAIN-SUBMIT']
    >>> look().stuck is None
    True
    """
    spec = spec or Spec()
    bounds = replace(bounds, profile=profile)
    steps = {n: transition for n, transition in able(spec, without).items() if n not in _LEFT_OUT}
    world = _explore(Explorer(bounds, steps), spec)
    one_more = {answer.name: req.output + 1}
    waits = conj(*(substitute(expr, one_more) for expr in ADMISSIBLE.values()))
    admissible = compiled(waits, bounds.page_size)
    can = [_can_end(world, who) for who in (0, 1)]
    waiting = 0
    for at in world.order:
        for view, births, actor in world.explorer.views(at):
            if actor is None or not admissible(list(view), {}):
                continue
            waiting += 1
            who = int(births is not SESSION)
            if at not in can[who]:
                path = tuple(world.explorer.path(world.came_from, at))
                stuck = Stuck(bounds, world.order[0], path, who, len(_closure(world, at)))
                return Looked(len(world.order), waiting, stuck)
    return Looked(len(world.order), waiting, None)


def _closure(world: _World, at: CanonicalState) -> set[CanonicalState]:
    reached, todo = {at}, [at]
    while todo:
        for target, _ in world.steps[todo.pop()]:
            if target not in reached:
                reached.add(target)
                todo.append(target)
    return reached


def named(at: CanonicalState) -> dict[str, int]:
    """Return the values of both actors' variables, by names such as ``s1.slot.C``."""
    return {
        f"{name}.{var}": value
        for name, values in (("s1", at.sessions[0]), ("r1", at.requests[0]))
        for var, value in zip(OWN, values, strict=True)
        if name == "s1" or var.startswith("req.")
    }
