"""Events that were told wrongly, told apart from an engine that did wrong.

Where the spec does not follow the events of an iteration, it may follow them in another order, or
with a parameter read as an author of a driver may have understood it. If it then ends, without
any problem, in the very state that the engine shows, the engine did nothing wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.oracles.steps import differences, follow
from slotproof.conformance.protocol.snapshot import Event
from slotproof.model.layout import EMPTY_ACTOR, OWN
from slotproof.model.world import World

ORDER = "order"
MOST = 30
"""Events of an iteration that are looked at; steps of the search for an order are its square."""

Reading = Callable[[dict[str, int], dict[str, int], int], dict[str, int]]
"""From parameters, the actor's values before the event and the page size: the parameters that were
meant."""


_TREES = frozenset(["m", "q", "u", "swa_u", "dup", "swa_dup", "swa_x"])


def _scaled(said: dict[str, int], _: dict[str, int], size: int) -> dict[str, int]:
    return {name: value * size if name in _TREES else value for name, value in said.items()}


READINGS: Mapping[str, tuple[str, Reading]] = {
    "T-EXTEND: t is the length after it, not the tokens that it added": (
        "T-EXTEND",
        lambda said, had, _: said | {"t": said["t"] + had["turn.C"]},
    ),
    "T-SUBMIT: new is the turn's new tokens, not its whole prompt": (
        "T-SUBMIT",
        lambda said, had, _: said | {"new": said["new"] - had["session.history"]},
    ),
    "T-SAVE: F is the output tokens of the turn, not its prompt and output": (
        "T-SAVE",
        lambda said, had, _: said | {"F": said["F"] - had["turn.prompt"]},
    ),
    "what the tree matches, locks or takes is tokens, not pages": ("", _scaled),
}
"""By what is to be said: the transition that is read otherwise (all, where none is named), how."""


def misread(world: World, events: Sequence[Event], after: World) -> tuple[str, str] | None:
    """What is wrong with the events, if nothing else is: ``order`` or ``parameters``, and a line.

    ``world`` is the state before them, which stays as it is.
    """
    if len(events) > MOST or _follows(twin(world), events, after):
        return None
    for words, (transition, reading) in READINGS.items():
        if _follows(twin(world), events, after, transition, reading):
            return "parameters", words
    meant = _ordered(world, list(events), after, [MOST * MOST])
    if meant is None:
        return None
    said = " ".join(each[0] for each in events)
    return ORDER, f"told as {said}; the spec follows {' '.join(each[0] for each in meant)}"


def twin(world: World) -> World:
    """A copy that can be moved while the other one stands still."""
    other = copy.copy(world)
    other.pools, other.writers = list(world.pools), dict(world.writers)
    other.actors, other.shares = dict(world.actors), dict(world.shares)
    return other


def _follows(
    world: World,
    events: Sequence[Event],
    after: World,
    transition: str = "",
    reading: Reading = lambda said, *_: said,
) -> bool:
    """Whether the spec follows the events, so read, to that state."""
    for event in events:
        name, sid, rid, said = event
        had = world.actors.get(world.key(name, sid, rid) or "", EMPTY_ACTOR)
        if transition in ("", name):
            values = {variable: int(had[index]) for variable, index in OWN.items()}
            try:
                said = reading(dict(said), values, world.constants.page_size)
            except KeyError:  # a parameter that is missing
                return False
        if next(follow(world, [(name, sid, rid, said)], Coverage()), None) is not None:
            return False
    return next(differences(world, after), None) is None


def _ordered(world: World, left: list[Event], after: World, tries: list[int]) -> list[Event] | None:
    """The events in an order that the spec follows to that state: the first found within so many
    tries, as near to theirs as it goes."""
    if not left:
        return [] if next(differences(world, after), None) is None else None
    for index, event in enumerate(left):
        if not tries[0]:
            return None
        tries[0] -= 1
        moved = twin(world)
        if next(follow(moved, [event], Coverage()), None) is None:
            rest = _ordered(moved, left[:index] + left[index + 1 :], after, tries)
            if rest is not None:
                return [event, *rest]
    return None
