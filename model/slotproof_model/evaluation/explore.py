"""The explore reading: all states of the spec within small bounds, and all steps between them.

``Bounds`` determine the actors (sessions, requests without a session), the memory, and the numbers
chosen by clients, scheduler and tree. Nothing is sampled: every value allowed by the guards is
tried. Sessions are interchangeable, as are requests and rows. States that differ only in names
count as one state. The steps of equal actors are tried once.

A step depends only on an actor's view: pools, the actor itself, the sum of other actors. The steps
of a view are computed once for all states, which makes the exploration affordable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from slotproof_model.evaluation import layout
from slotproof_model.evaluation.evaluate import Params, Step, compile_step, contributions
from slotproof_model.evaluation.layout import ACTOR, EMPTY_ACTOR, INDEX, POOLS, Values, Vector
from slotproof_model.evaluation.world import Constants
from slotproof_model.spec.expr import Expr, variables
from slotproof_model.spec.profiles import PROFILES, Choices
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

NOBODY = frozenset(id_ for id_, transition in TRANSITIONS.items() if not transition.has_actor)
"""Transitions of the tree, taken by no actor."""
SESSION, REQUEST = (
    frozenset(id_ for id_, transition in TRANSITIONS.items() if transition.starts == actor)
    for actor in ("session", "request")
)
"""Transitions that create a session, and transitions that create a request without a session."""
_HISTORY, _OUTPUT = INDEX["session.history"], INDEX["req.output"]
_EVICTABLE, _PROTECTED = INDEX["full.evictable"], INDEX["full.protected"]
_SWA_EVICTABLE, _SWA_PROTECTED = INDEX["swa.evictable"], INDEX["swa.protected"]


@dataclass(frozen=True)
class Bounds:
    """Bounds of one small world. Lengths are in tokens, but ``pages`` and ``tree`` are in pages."""

    name: str = ""
    sessions: int = 2
    requests: int = 1
    """Number of requests without a session, including stubs and doomed turns."""
    page_size: int = 1
    pages: int = 6
    """Number of pages in the full pool, and in the sliding-window pool if a window exists."""
    tree: int = 6
    """Maximum number of pages in the prefix tree, per pool."""
    rows: int = 2
    width: int = 3
    """Number of positions in a row, which limits every KV length."""
    new: tuple[int, ...] = (1,)
    """Numbers of tokens that a turn may add to the history."""
    prompt: tuple[int, ...] = (1,)
    """Prompt lengths of requests without a session."""
    output: int = 1
    """Maximum number of a request's output tokens, including speculative overshoot."""
    history: int = 2
    """Maximum length of a session's history."""
    draft: int = 0
    """Maximum number of tokens that a speculative round allocates or commits. 0: plain decoding."""
    window: int = 0
    profile: str = "reference"
    choices: Choices = field(default_factory=Choices)
    """Choices that differ from the profile's."""

    @property
    def tokens(self) -> int:
        return self.pages * self.page_size

    @property
    def constants(self) -> Constants:
        slack = max(1, self.draft)
        profile = PROFILES[self.profile]
        if self.choices:
            profile = replace(profile, base=profile.name, says=self.choices)
        return Constants(self.page_size, self.width, self.window, profile, slack)

    @property
    def pools(self) -> Values:
        """Counts of pools and rows in the initial state."""
        return layout.initial_pools(self.tokens, self.tokens if self.window else 0, self.rows)

    def values(self, name: str) -> Sequence[int]:
        """Return every value of a parameter within the bounds, to be filtered by the guards.

        >>> list(Bounds(page_size=2, pages=2).values("u"))
        [0, 2, 4]
        """
        if name.startswith("swa_") and not self.window:
            return (0,)
        overlap = PROFILES[self.profile].choices["overlap"]
        one_by_one: dict[str, Sequence[int]] = {
            "row": (0,),  # rows are interchangeable: every actor's row is 0
            "new": self.new,
            "prompt": self.prompt,
            "sampled": range(max(1, self.draft) + 1),
            "t": range(self.width + 1),
            "d": range(self.draft + 1) if self.draft else (1,),
            "k": range(self.draft + 1) if self.draft else (0, 1) if overlap else (1,),
            "told": range(self.output + 1),
            "at": range(self.width + 1),
            "ahead": (0,),
        }
        return one_by_one.get(name) or range(0, self.tokens + 1, self.page_size)

    def allows(self, after: Sequence[int]) -> bool:
        """Return True if a vector obeys the bounds on history, output and tree."""
        return (
            after[_HISTORY] <= self.history
            and after[_OUTPUT] <= self.output
            and after[_EVICTABLE] + after[_PROTECTED] <= self.tree * self.page_size
            and after[_SWA_EVICTABLE] + after[_SWA_PROTECTED] <= self.tree * self.page_size
        )


class Move(NamedTuple):
    """One step of one actor: the chosen parameters, and the new pools and actor."""

    transition: str
    params: Values
    pools: Values
    actor: Values
    prompt: int | None
    """Prompt length of a detached request, or ``None``."""


@dataclass(frozen=True)
class _Choice:
    """A transition whose guard conjuncts are checked as soon as their parameters are chosen."""

    step: Step
    domains: tuple[Sequence[int], ...]
    levels: tuple[Step, ...]
    """Level n: the guard conjuncts whose last parameter is parameter number n."""

    def legal(self, view: Vector) -> Iterator[Params]:
        """Yield every choice of parameters allowed by the guard, always in the same dictionary."""
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
    """All steps within the bounds, cached by view."""

    def __init__(self, bounds: Bounds, transitions: Mapping[str, Transition]) -> None:
        self.bounds = bounds
        self._choices = {id_: _choice(step, bounds) for id_, step in transitions.items()}
        self._known: dict[tuple[Values, frozenset[str]], tuple[Move, ...]] = {}

    def names(self, transition: str) -> tuple[str, ...]:
        """Return the names of a transition's parameters, in the order of ``Move.params``."""
        return self._choices[transition].step.transition.names

    def of(self, view: Values, births: frozenset[str]) -> tuple[Move, ...]:
        """Return the steps from a view. ``births``: transitions only of this kind of actor."""
        key = (view, births)
        moves = self._known.get(key)
        if moves is None:
            moves = self._known[key] = tuple(self._compute(list(view), births))
        return moves

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
                )


class CanonicalState(NamedTuple):
    """A state without actors' names: actors of one kind are sorted, and absent actors are empty."""

    pools: Values
    sessions: tuple[Values, ...]
    requests: tuple[Values, ...]


@dataclass(frozen=True)
class Stride:
    """One step of a path, and its target state."""

    transition: str
    params: dict[str, int]
    state: CanonicalState


class Explorer:
    """Steps within one set of bounds, computed once per view."""

    def __init__(self, bounds: Bounds, transitions: Mapping[str, Transition] = TRANSITIONS) -> None:
        self.bounds = bounds
        self.moves = Moves(bounds, transitions)
        self._constants = bounds.constants.vector
        self._contributions = contributions(bounds.page_size)
        self._shares: dict[Values, Values] = {}

    def initial(self) -> CanonicalState:
        bounds, empty = self.bounds, (EMPTY_ACTOR,)
        return CanonicalState(bounds.pools, empty * bounds.sessions, empty * bounds.requests)

    def views(self, at: CanonicalState) -> Iterator[tuple[Values, frozenset[str], Values | None]]:
        """Yield (view, births, values) of every distinct actor, then of the tree."""
        shares = [self.share(values) for values in (*at.sessions, *at.requests)]
        total = [sum(column) for column in zip(*shares, strict=True)]
        longest = layout.two_longest(shares)
        for births, actors in ((SESSION, at.sessions), (REQUEST, at.requests)):
            for actor in dict.fromkeys(actors):
                rest = layout.others(total, longest, self.share(actor))
                yield (*at.pools, *actor, *rest, *self._constants), births, actor
        rest = layout.others(total, longest, None)
        yield (*at.pools, *EMPTY_ACTOR, *rest, *self._constants), NOBODY, None

    def share(self, actor: Values) -> Values:
        """Return the counts that this actor adds to the frame of every other actor."""
        share = self._shares.get(actor)
        if share is None:
            vector = layout.by_itself(actor, self._constants)
            share = self._shares[actor] = tuple(map(int, self._contributions(vector)))
        return share

    def stride(self, move: Move, target: CanonicalState) -> Stride:
        names = self.moves.names(move.transition)
        return Stride(move.transition, dict(zip(names, move.params, strict=True)), target)

    def path(self, came_from: CameFrom, at: CanonicalState) -> list[Stride]:
        """Return a shortest path from the initial state."""
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
        """Return the state after the step, or ``None`` if a detached request exceeds the bounds."""
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


CameFrom = dict[CanonicalState, tuple[CanonicalState, Move] | None]
"""First edge to every state: the previous state and the move, or ``None`` for the initial state."""
