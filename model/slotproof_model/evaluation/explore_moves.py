"""Which steps an actor can take: every legal choice of parameters, and where it leads.

By framing, a step depends only on what one actor sees (the pools, itself, the
sum of all others). So the steps of such a *view* are computed once, however
many global states show it: that makes exhaustive exploration affordable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from slotproof_model.evaluation.evaluate import Params, Step, compile_step, step_check
from slotproof_model.evaluation.explore_bounds import Bounds
from slotproof_model.evaluation.layout import ACTOR, POOLS, Values, Vector
from slotproof_model.spec.expr import Expr, variables
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

NOBODY = frozenset(id_ for id_, each in TRANSITIONS.items() if not each.has_actor)
"""Steps of the tree: no actor takes them."""
SESSION, REQUEST = (
    frozenset(id_ for id_, each in TRANSITIONS.items() if each.starts == actor)
    for actor in ("session", "request")
)
"""Steps that bring an actor of one sort to life."""


class Move(NamedTuple):
    """One step of one actor: the parameters chosen, and what it makes of pools and actor."""

    transition: str
    params: Values
    pools: Values
    actor: Values
    prompt: int | None
    """A request goes on alone with this prompt."""
    broken: tuple[tuple[str, str], ...]
    """Step invariants that do not hold across it."""


@dataclass(frozen=True)
class _Choice:
    """A transition whose guard is asked as soon as its parameters are chosen, one by one."""

    step: Step
    domains: tuple[Sequence[int], ...]
    levels: tuple[Step, ...]
    """Level n: the guard conjuncts that the first n parameters decide."""

    def legal(self, view: Vector) -> Iterator[Params]:
        """Every choice of parameters that the guard allows. One dictionary, reused."""
        params: dict[str, int] = {}
        if self.levels[0].blocked(view, params) is None:
            yield from self._rest(view, params, 0)

    def _rest(self, view: Vector, params: dict[str, int], level: int) -> Iterator[Params]:
        names = self.step.transition.names
        if level == len(names):
            yield params
            return
        name, blocked = names[level], self.levels[level + 1].blocked
        for value in self.domains[level]:
            params[name] = value
            if blocked(view, params) is None:
                yield from self._rest(view, params, level + 1)


def _choice(transition: Transition, bounds: Bounds) -> _Choice:
    order = {var.name: level for level, var in enumerate(transition.params, 1)}
    guards: list[dict[str, Expr]] = [{} for _ in range(len(transition.params) + 1)]
    for name, expr in transition.full_guard.items():
        guards[max((order.get(var, 0) for var in variables(expr)), default=0)][name] = expr
    page = bounds.page_size
    return _Choice(
        compile_step(transition, page),
        tuple(bounds.values(name) for name in transition.names),
        tuple(
            compile_step(replace(transition, guard=guard, memory=(), effect={}), page)
            for guard in guards
        ),
    )


class Moves:
    """All steps within the bounds, by view."""

    def __init__(self, bounds: Bounds, transitions: Mapping[str, Transition]) -> None:
        self.bounds = bounds
        self._choices = {id_: _choice(each, bounds) for id_, each in transitions.items()}
        self._check = step_check(bounds.page_size)
        self._known: dict[tuple[Values, frozenset[str]], tuple[Move, ...]] = {}

    def names(self, transition: str) -> tuple[str, ...]:
        """The parameters of a transition, in the order in which a move has them."""
        return self._choices[transition].step.transition.names

    def of(self, view: Values, births: frozenset[str]) -> tuple[Move, ...]:
        """What whoever sees this can do; ``births``: steps that only its sort takes."""
        key = (view, births)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple(self._compute(list(view), births))
        return found

    def _compute(self, view: Vector, births: frozenset[str]) -> Iterator[Move]:
        others = (NOBODY | SESSION | REQUEST) - births
        for id_, choice in self._choices.items():
            if id_ in others or (births is NOBODY and id_ not in births):
                continue
            for params in choice.legal(view):
                after = view.copy()
                choice.step.apply(after, params)
                if not self.bounds.allows(after):
                    continue
                detaches = choice.step.transition.detaches is not None
                yield Move(
                    id_,
                    tuple(params.values()),
                    tuple(map(int, after[POOLS])),
                    tuple(map(int, after[ACTOR])),
                    params["prompt"] if detaches else None,
                    tuple(self._check(view, after)),
                )
