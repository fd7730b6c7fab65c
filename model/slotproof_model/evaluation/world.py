"""The spec's world: pools, rows, and any number of actors, moved by transitions.

A transition is applied to one actor. All other actors are summed up in the frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from slotproof_model.evaluation import layout
from slotproof_model.evaluation.evaluate import Step, contributions, state_check, step_check, steps
from slotproof_model.evaluation.layout import ACTOR, EMPTY_ACTOR, INDEX, POOLS, Values, Vector
from slotproof_model.spec import state
from slotproof_model.spec.profiles import Profile
from slotproof_model.spec.transitions import TRANSITIONS

_NOBODY = list(EMPTY_ACTOR)
_PHASE = INDEX["req.phase"]
_FIGURES = tuple(var.name for var in state.POOLS)


class Problem(NamedTuple):
    """A violation of the spec."""

    invariant: str
    conjunct: str
    detail: str
    guard: str | None = None
    """Guard conjunct that fails."""
    variable: str | None = None
    spec: int | None = None
    engine: int | None = None
    """``spec`` and ``engine``: values of ``variable`` in the spec and in the engine's event."""


@dataclass(frozen=True)
class Constants:
    """Constants of a run, in tokens."""

    page_size: int
    width: int
    window: int
    profile: Profile
    slack: int = 1
    """Positions that a decoding round may allocate past the KV that it computes."""
    batches: int = 2
    """Largest number of rounds of a request without a result, under overlap scheduling."""

    @property
    def overlap(self) -> bool:
        return self.profile.choices["overlap"]

    @property
    def vector(self) -> Values:
        choices = self.profile.choices
        return state.Config(
            swa=int(self.window > 0),
            window=self.window,
            width=self.width,
            reserve=choices["reserve"],
            aligned_reuse=int(choices["aligned_reuse"]),
            retract_keeps=int(choices["retract_keeps"]),
            abort_publishes=int(choices["abort_publishes"]),
            overlap=int(choices["overlap"]),
            loan_publishes=int(choices["loan_publishes"]),
            drops_last=int(choices["drops_last"]),
            keeps_slack=int(choices["keeps_slack"]),
            slack=self.slack,
            batches=self.batches,
        )


class World:
    """A state with any number of actors.

    ``actors`` maps a key to an actor's values. The key is a session's ID, or ``/`` and the ID of a
    request without a session.
    """

    def __init__(self, constants: Constants, pools: Iterable[int]) -> None:
        self.constants = constants
        self.pools = list(pools)
        self.actors: dict[str, Vector] = {}
        self.shares: dict[str, Values] = {}
        self.total = [0] * len(state.FRAME)
        """Sum of all actors' shares. An actor's frame is this sum less the actor's own share."""
        self._longest: tuple[int, int] | None = (0, 0)
        """Lengths of the two longest locks, or ``None`` until computed."""
        self.writers: dict[str, str] = {}
        """Last transition that changed a count or an actor, by the count's or actor's name."""
        self._constants = list(constants.vector)
        self._contributions = contributions(constants.page_size)
        self.steps: Mapping[str, Step] = steps(constants.page_size)
        """Compiled transitions, by ID. To explain a finding, a deviation replaces a transition."""
        self._state_check = state_check(constants.page_size)
        self._step_check = step_check(constants.page_size)

    def put(self, key: str, values: Vector) -> None:
        """Set an actor's values. The values ``EMPTY_ACTOR`` remove the actor."""
        share: Values | None = None
        old = self.shares.pop(key, None)
        self.actors.pop(key, None)
        if values != _NOBODY:
            share = self._contributions(layout.by_itself(values, self._constants))
            self.actors[key], self.shares[key] = values, share
        if share == old:
            return  # The frames of other actors do not change.
        new, old = share or layout.NO_FRAME, old or layout.NO_FRAME
        self.total = [a + b - c for a, b, c in zip(self.total, new, old, strict=True)]
        if layout.locks(new) or layout.locks(old):
            self._longest = None

    def frame(self, key: str | None) -> Vector:
        """Return the frame of an actor: the sum of all other actors."""
        if self._longest is None:
            self._longest = layout.two_longest(self.shares.values())
        own = self.shares.get(key) if key is not None else None
        return layout.others(self.total, self._longest, own)

    def vector(self, key: str | None) -> Vector:
        """Return the full state vector as seen by the actor."""
        values = self.actors.get(key, EMPTY_ACTOR) if key is not None else EMPTY_ACTOR
        return [*self.pools, *values, *self.frame(key), *self._constants]

    def apply(
        self, transition: str, sid: str | None, rid: str | None, params: Mapping[str, int]
    ) -> list[Problem]:
        """Perform a transition, and return the problems.

        A guard that fails is a problem. The effect is performed even if the guard fails, because
        later events report the state after the engine's step.

        >>> from slotproof_model.spec.profiles import PROFILES
        >>> constants = Constants(page_size=1, width=48, window=0, profile=PROFILES["reference"])
        >>> world = World(constants, layout.initial_pools(full=64, swa=0, rows=4))
        >>> world.apply("T-OPEN", "s1", None, {})
        []
        >>> world.apply("T-CLOSE-DEFER", "s1", None, {})[0].detail
        'T-CLOSE-DEFER needs “busy”'
        """
        step = self.steps.get(transition)
        if step is None:
            return [Problem("INV-STEP", "unknown", f"there is no transition {transition!r}")]
        names = step.transition.names
        if missing := [name for name in names if not isinstance(params.get(name), int)]:
            text = f"the event {transition} lacks {', '.join(sorted(missing))}"
            return [Problem("INV-STEP", "unknown", text)]
        key = self.key(transition, sid, rid)
        born = step.transition.starts in ("session", "request")
        if key is not None and key not in self.actors and not born:
            text = f"the event {transition} names {key}, which does not exist"
            return [Problem("INV-STEP", "unknown", text)]
        before = self.vector(key)
        problems = []
        blocked = step.blocked(before, params)
        if blocked is not None:
            text = f"{transition} needs “{blocked}”"
            problems.append(Problem("INV-STEP", "guard", text, blocked))
        after = before.copy()
        step.apply(after, params)
        problems += _contradicted(transition, after, params)
        if key is not None:
            self.put(key, after[ACTOR])
            self.writers[key] = transition
        if (pools := after[POOLS]) != self.pools:
            changed = zip(_FIGURES, self.pools, pools, strict=True)
            self.writers.update((name, transition) for name, old, new in changed if old != new)
            self.pools = pools
        if step.transition.detaches is not None and rid is not None:
            self.put("/" + rid, list(layout.alone(params["prompt"])))
            self.writers["/" + rid] = transition
        for invariant, conjunct in self._step_check(before, after):
            problems.append(Problem(invariant, conjunct, f"broken by {transition}"))
        return problems

    def blocked(self, transition: str, key: str) -> str | None:
        """Return the failed guard conjunct of a transition without parameters, or ``None``."""
        return self.steps[transition].blocked(self.vector(key), {})

    def key(self, transition: str, sid: str | None, rid: str | None) -> str | None:
        """Return the key of an event's actor, or ``None`` for an event of the tree."""
        known = TRANSITIONS.get(transition)
        if known is not None and not known.has_actor:
            return None
        born = known is not None and known.starts == "request"
        if rid is not None and (born or "/" + rid in self.actors):
            return "/" + rid
        return sid

    def violations(self) -> list[tuple[str | None, str, str]]:
        """Return violated state invariants, as (first actor with the violation, invariant,
        conjunct)."""
        first: dict[tuple[str, str], str | None] = {}
        for key in self.actors or (None,):
            for broken in self._state_check(self.vector(key)):
                first.setdefault(broken, key)
        return [(key, *broken) for broken, key in first.items()]


def _contradicted(transition: str, after: Vector, params: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem for every KV length in the event that differs from the spec."""
    whose = "req" if after[_PHASE] >= state.MATCHED else "slot"
    for name in ("C", "A", "Q", "E"):
        said = params.get(name)
        if said is not None and said != after[INDEX[f"{whose}.{name}"]]:
            want = after[INDEX[f"{whose}.{name}"]]
            text = f"{whose}.{name} is {said} after {transition}, the spec says {want}"
            yield Problem("INV-STEP", "state", text, None, f"{whose}.{name}", int(want), int(said))
