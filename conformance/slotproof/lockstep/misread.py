"""Events that were told wrongly, told apart from an engine that did wrong.

Where the spec does not follow the events of an iteration, it may follow them in another order, or
with a parameter read as an author of a driver may have understood it. If it then ends, without
any problem, in the very state that the engine shows, the engine did nothing wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.oracles.steps import differences, follow
from slotproof.protocol.snapshot import Event
from slotproof_model.evaluation.layout import EMPTY_ACTOR, OWN
from slotproof_model.evaluation.world import World
from slotproof_model.spec.state import req, session
from slotproof_model.spec.transitions import TRANSITIONS

ORDER = "order"
MOST = 30
"""Events of an iteration that are looked at; steps of the search for an order are its square."""

Reading = Callable[[int, Mapping[str, int], int], int]
"""From what an event says of a parameter, the actor's values before it and the page size: what was
meant."""

READINGS: tuple[tuple[frozenset[str], Reading, str], ...] = (
    (
        frozenset(["t"]),
        lambda said, had, _: said + had[req.C.name],
        "is the length after it, not the tokens that it added",
    ),
    (
        frozenset(["new"]),
        lambda said, had, _: said - had[session.history.name],
        "is the new tokens of the turn, not its whole prompt",
    ),
    (
        frozenset(["F"]),
        lambda said, had, _: said - had[req.prompt.name],
        "is the output tokens of the turn, not its prompt and output",
    ),
    (
        frozenset(["m", "q", "u", "swa_u", "dup", "swa_dup", "swa_x"]),
        lambda said, _, size: said * size,
        "are tokens, not pages: what the tree matches, locks or takes",
    ),
)
"""Parameters, how they may have been taken, and what they are."""


def misread(world: World, events: Sequence[Event], after: World) -> tuple[str, str] | None:
    """What is wrong with the events, if nothing else is: ``order`` or ``parameters``, and a line.

    ``world`` is the state before them, which stays as it is.
    """
    if len(events) > MOST or _follows(twin(world), events, after):
        return None
    for names, reading, words in READINGS:
        if _follows(twin(world), events, after, names, reading):
            seen = {name for event in events for name, value in event[3].items() if value}
            told = dict.fromkeys(each[0] for each in events if names & each[3].keys())
            return "parameters", f"{', '.join(told)}: {', '.join(sorted(names & seen))} {words}"
    meant = _ordered(world, list(events), after, [MOST * MOST])
    if meant is None or _of_each(events, world) == _of_each(meant, world):
        return None  # between one and another an engine may do things in the wrong order
    said = " ".join(each[0] for each in events)
    return ORDER, f"told as {said}; the spec follows {' '.join(each[0] for each in meant)}"


def unborn(world: World, events: Sequence[Event]) -> bool:
    """Whether a request, or a session, has an event before the one that begins it: no engine can
    do that, whatever is wrong with it."""
    for mine in _of_each(events, world).values():
        begins = [bool(TRANSITIONS[name].starts) for name, *_ in mine if name in TRANSITIONS]
        if True in begins[1:] and not begins[0]:
            return True
    return False


def _of_each(events: Sequence[Event], world: World) -> dict[str, list[Event]]:
    """The events of each request, and of each session that they open, in order."""
    mine: dict[str, list[Event]] = {}
    for event in events:
        _, sid, rid, _ = event
        for key in (f"/{rid}" if rid else None, sid if sid not in world.actors else None):
            if key is not None:
                mine.setdefault(key, []).append(event)
    return mine


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
    names: frozenset[str] = frozenset(),
    reading: Reading = lambda said, *_: said,
) -> bool:
    """Whether the spec follows the events, so read, to that state."""
    for name, sid, rid, said in events:
        values = world.actors.get(world.key(name, sid, rid) or "", EMPTY_ACTOR)
        had = {variable: int(values[index]) for variable, index in OWN.items()}
        meant = {
            key: reading(value, had, world.constants.page_size) if key in names else value
            for key, value in said.items()
        }
        if next(follow(world, [(name, sid, rid, meant)], Coverage()), None) is not None:
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
