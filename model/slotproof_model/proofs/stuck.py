"""Who can never run again: a small world, explored whole, as the counterexample to progress.

One session and one request without one. In each state, the shortest way first, it is asked of
whoever waits and would fit alone (``progress.ADMISSIBLE``): is there a way, of steps of the
scheduler and of the tree alone, to where all of its prompt is prefilled? All ways are looked at, so
"never" is what it says: no step of theirs leads anywhere else.
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
    Move,
    Stride,
)
from slotproof_model.evaluation.layout import OWN, Values
from slotproof_model.proofs.progress import ADMISSIBLE, EXTEND, able
from slotproof_model.spec.expr import conj
from slotproof_model.spec.whole import Spec

WORLD = Bounds(
    "one session, one request", requests=1, sessions=1, pages=2, tree=1, rows=2, width=2,
    prompt=(2,), history=1, output=0,
)  # fmt: skip
"""Two pages: one that the session keeps, and a prompt that needs both."""
_LEFT_OUT = frozenset(["T-REJECT"])
"""A client's step that makes a request without a session, as T-PLAIN-SUBMIT does."""
_BY = ("the scheduler", "the tree")
_PROMPT, _OUTPUT = OWN["req.prompt"], OWN["req.output"]


@dataclass(frozen=True)
class Stuck:
    """A state in which somebody waits for ever, and the shortest way there."""

    bounds: Bounds
    first: CanonicalState
    path: tuple[Stride, ...]
    who: int
    """Of the actors of the state: 0 the session's turn, 1 the request without one."""
    reachable: int
    """States that scheduler and tree can still lead to, this one included."""

    def steps(self) -> Iterator[tuple[str, dict[str, int], CanonicalState]]:
        """Each step with its parameters and where it leads, from ``init`` on."""
        yield "init", {}, self.first
        for each in self.path:
            yield each.transition, each.params, each.state


@dataclass(frozen=True)
class Looked:
    """What was looked at, and what was found."""

    states: int
    waiting: int
    """Of the states, those in which somebody waits who would fit alone; each of them counts."""
    stuck: Stuck | None


@dataclass
class _World:
    """All states, and the steps of scheduler and tree between them."""

    explorer: Explorer
    order: list[CanonicalState]
    came_from: CameFrom
    steps: dict[CanonicalState, list[tuple[CanonicalState, int | None]]]
    """Where they lead, and whose prompt is prefilled by it."""


def _explore(explorer: Explorer, spec: Spec) -> _World:
    first = explorer.initial()
    order = [first]
    came_from: CameFrom = {first: None}
    steps: dict[CanonicalState, list[tuple[CanonicalState, int | None]]] = {}
    for at in order:  # grows while it is read: breadth first
        mine = steps.setdefault(at, [])
        for view, births, actor in explorer.views(at):
            for move in explorer.moves.of(view, births):
                target = explorer.after(at, actor, births, move)
                if target is None:
                    continue
                if target not in came_from:
                    came_from[target] = (at, move)
                    order.append(target)
                if spec.transitions[move.transition].by in _BY:
                    done = move.transition == EXTEND and actor is not None and _all_of(actor, move)
                    mine.append((target, int(births is not SESSION) if done else None))
    return _World(explorer, order, came_from, steps)


def _all_of(actor: Values, move: Move) -> bool:
    """Whether the prefill comes to the end: ``t``, its first parameter, is what is known."""
    return move.params[0] == actor[_PROMPT] + actor[_OUTPUT]


def _can_run(world: _World, who: int) -> set[CanonicalState]:
    """States from which a way leads to where its prompt is prefilled."""
    backwards: dict[CanonicalState, list[CanonicalState]] = {}
    found: set[CanonicalState] = set()
    for at, steps in world.steps.items():
        for target, runs in steps:
            backwards.setdefault(target, []).append(at)
            if runs == who:
                found.add(at)
    todo = list(found)
    while todo:
        for before in backwards.get(todo.pop(), ()):
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def look(
    without: frozenset[str] = frozenset(),
    profile: str = "reference",
    spec: Spec | None = None,
    bounds: Bounds = WORLD,
) -> Looked:
    """The first state in which somebody waits for ever, if there is one in this world.

    >>> found = look(frozenset(["T-DISCARD"])).stuck
    >>> [each.transition for each in found.path]
    ['T-OPEN', 'T-SUBMIT', 'T-MATCH', 'T-EXTEND', 'T-SAVE', 'T-PLAIN-SUBMIT']
    >>> look().stuck is None
    True
    """
    spec = spec or Spec()
    bounds = replace(bounds, profile=profile)
    steps = {n: each for n, each in able(spec, without).items() if n not in _LEFT_OUT}
    world = _explore(Explorer(bounds, steps), spec)
    admissible = compiled(conj(*ADMISSIBLE.values()), bounds.page_size)
    can = [_can_run(world, who) for who in (0, 1)]
    waiting = 0
    for at in world.order:
        for view, births, actor in world.explorer.views(at):
            if actor is None or not admissible(list(view), {}):
                continue
            waiting += 1
            who = int(births is not SESSION)
            if at not in can[who]:
                path = tuple(world.explorer.path(world.came_from, at))
                found = Stuck(bounds, world.order[0], path, who, len(_closure(world, at)))
                return Looked(len(world.order), waiting, found)
    return Looked(len(world.order), waiting, None)


def _closure(world: _World, at: CanonicalState) -> set[CanonicalState]:
    found, todo = {at}, [at]
    while todo:
        for target, _ in world.steps[todo.pop()]:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def named(at: CanonicalState) -> dict[str, int]:
    """The variables of both actors: ``s1.slot.C``, ``r1.req.phase``."""
    return {
        f"{name}.{var}": value
        for name, values in (("s1", at.sessions[0]), ("r1", at.requests[0]))
        for var, value in zip(OWN, values, strict=True)
        if name == "s1" or var.startswith("req.")
    }
