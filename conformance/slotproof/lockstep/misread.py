"""Detector of events that a driver reports wrongly although its engine is right.

The spec may be unable to follow an iteration's events as reported. The detector then tries other
orders, and other meanings that the driver's author may have given to a parameter. If the spec then
ends in the engine's own state without a problem, the engine is right.
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
"""Maximum number of events in a searched iteration. A search applies at most MOST * MOST events."""

Reading = Callable[[int, Mapping[str, int], int], int]
"""Function that returns the intended value of a parameter. Its arguments are the reported value,
the actor's variables before the event, and the page size."""

READINGS: tuple[tuple[frozenset[str], Reading, str], ...] = (
    (
        frozenset(["t"]),
        lambda said, had, _: said + had[req.C.name],
        "is the length after the event, not the number of tokens added",
    ),
    (
        frozenset(["new"]),
        lambda said, had, _: said - had[session.history.name],
        "is the number of new tokens, not the length of the whole prompt",
    ),
    (
        frozenset(["at"]),
        lambda said, had, _: said + had[req.prompt.name],
        "is a position among prompt and output tokens, not among output tokens",
    ),
    (
        frozenset(["m", "q", "u", "swa_u", "locked", "swa_locked", "dup", "swa_dup"]),
        lambda said, _, size: said * size,
        "are numbers of tokens, not of pages",
    ),
)
"""Misreadings, each with parameter names, a function that corrects a value, and the meaning."""


Iteration = tuple[World, Sequence[Event], World]
"""The state before an iteration's events, the events, and the state after them."""


def misread(now: Iteration, earlier: Sequence[Iteration] = ()) -> tuple[str, str] | None:
    """Return ``order`` or ``parameters``, with an explanation, if only the events are wrong.

    The meaning of a parameter must fit the ``earlier`` iterations as well: a driver reports it in
    one way. No world is changed. None: the engine may be wrong.
    """
    world, events, after = now
    if len(events) > MOST or _follows(twin(world), events, after):
        return None
    for names, reading, words in READINGS:
        if all(_follows(twin(a), told, b, names, reading) for a, told, b in (now, *earlier)):
            seen = {name for event in events for name, value in event[3].items() if value}
            told = dict.fromkeys(event[0] for event in events if names & event[3].keys())
            return "parameters", f"{', '.join(told)}: {', '.join(sorted(names & seen))} {words}"
    meant = _ordered(world, list(events), after, [MOST * MOST])
    if meant is None or _of_each(events, world) == _of_each(meant, world):
        return None  # The engine itself may do things to different actors in a wrong order.
    said, right = (" ".join(event[0] for event in order) for order in (events, meant))
    return ORDER, f"the driver reported {said}, but the spec follows {right}"


def unborn(world: World, events: Sequence[Event]) -> bool:
    """Return True if some request or session has an event before the event that creates it. No
    engine can behave so."""
    for own in _of_each(events, world).values():
        begins = [bool(TRANSITIONS[name].starts) for name, *_ in own if name in TRANSITIONS]
        if True in begins[1:] and not begins[0]:
            return True
    return False


def _of_each(events: Sequence[Event], world: World) -> dict[str, list[Event]]:
    """Group the events by request, and by session if the session was opened in this iteration."""
    groups: dict[str, list[Event]] = {}
    for event in events:
        _, sid, rid, _ = event
        for key in (f"/{rid}" if rid else None, sid if sid not in world.actors else None):
            if key is not None:
                groups.setdefault(key, []).append(event)
    return groups


def twin(world: World) -> World:
    """Return a copy of a world. Events applied to the copy leave the original unchanged."""
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
    """Return True if the events, changed by ``reading``, lead the spec to the state ``after``."""
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
    """Return the events in an order in which the spec ends in ``after``, or None. Orders close to
    the reported order are tried first."""
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
