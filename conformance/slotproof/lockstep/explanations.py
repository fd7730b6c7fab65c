"""What explains a finding: a single change of the spec after which it ends where the engine is.

The events of the breaking iteration are carried out once more, with one transition of them done
wrongly (:mod:`slotproof_model.bugs.deviations`). Where that leads to the engine's own state, the
engine behaves as if it did so. A change that contradicts an earlier iteration of the example
explains less than one that does not: the engine would have gone wrong there already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.misread import twin
from slotproof.lockstep.oracles.steps import differences
from slotproof.lockstep.referee import Referee, empty_snapshot, with_totals
from slotproof.protocol.snapshot import Event
from slotproof_model.bugs.deviations import READABLE, Deviation, additions, as_told, deviations
from slotproof_model.evaluation.evaluate import Step, steps
from slotproof_model.evaluation.world import World
from slotproof_model.spec.transitions import TRANSITIONS

MOST = 3
"""Shown at most."""
EVENTS = 100
"""Of an iteration with more nothing is explained; an engine may tell any number."""
_SECOND = re.compile(r", swa (?:\[(?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[\w.]+)")
"""A span of the second pool beside one of the first."""
EARLIER = 50
"""Iterations that an explanation is held against, the last ones."""


@dataclass(frozen=True)
class Explanation:
    """The engine behaves as if it carried out the transition like this."""

    transition: str
    words: str
    always: bool = True
    """It did so in all other iterations that were seen as well, as far as that shows."""

    def __str__(self) -> str:
        return self.words if self.always else f"{self.words}, this time"


def lasting(explained: Iterable[Explanation] | None) -> frozenset[str]:
    """Return the words of the changes that contradict nothing else that was seen."""
    return frozenset(each.words for each in explained or () if each.always)


@dataclass(frozen=True)
class _Turn:
    """One iteration: what was there, what happened, what is there now."""

    before: World
    events: Sequence[Event]
    after: World


def explain(
    referee: Referee, seen_first: Referee | None = None, most: int | None = MOST
) -> tuple[Explanation, ...] | None:
    """Explain the iteration that a referee judged last, plainest first; of changes of one place the
    plainest, then the others. ``None``: the spec agrees with the engine's state, or the engine
    tells no events. ``seen_first``: the example before it was made small, which shows the same and
    more.

    >>> from slotproof.engines.reference import InProcessEngine
    >>> from slotproof.lockstep.referee import Setup, play
    >>> from slotproof.protocol.config import EngineConfig
    >>> engine = InProcessEngine("22753-sticky-active")
    >>> print(explain(play(engine, Setup(EngineConfig()), [])))
    None
    """
    turns = _turns(referee)
    if not turns or len(turns[-1].events) > EVENTS:
        return None
    constants = referee.constants
    if constants.profile.choices["keeps_slack"] and referee.config.draft:
        return None  # deviations are those of an engine that gives it back
    table = steps(constants.page_size)
    *earlier, last = turns
    if _lands(last, table):
        return None
    long = _turns(seen_first) if seen_first is not None else []
    found: list[tuple[Deviation, bool]] = []
    wrong = _wrong(last)
    added = [*([name] for name in wrong), *([wrong] if len(wrong) == 2 else [])]
    for id_ in dict.fromkeys(event[0] for event in last.events if event[0] in TRANSITIONS):
        evidence = [
            turn for turn in (*earlier, *long[:-1]) if any(event[0] == id_ for event in turn.events)
        ]
        others = (each for names in added for each in additions(id_, names))
        right = {**table, id_: as_told(id_).step(constants.page_size, lenient=True)}
        lenient = not _lands(last, right)  # else its guard is all that is wrong
        for each in (*deviations(id_).values(), *others):
            other = {**table, id_: each.step(constants.page_size, lenient)}
            if not _lands(last, other):
                continue
            words = each.words if "swa" in referee.snapshot["pools"] else _of_one_pool(each.words)
            if words and len(words) <= READABLE:
                held = all(_lands(turn, other) for turn in (*evidence, *long[-1:]))
                found.append((replace(each, said=words), held))
    found.sort(key=lambda one: (not one[1], one[0].rank))
    plain = _distinct(found)
    more = [one for one in found if one not in plain]
    every = [Explanation(each.id, each.words, always) for each, always in [*plain, *more]]
    return tuple(dict.fromkeys(every))[:most]


def _of_one_pool(words: str) -> str:
    """The words without the second pool; empty where they are about it.

    >>> _of_one_pool("T-ABORT unlocks full u, swa swa_u twice")
    'T-ABORT unlocks full u twice'
    >>> _of_one_pool("T-CLOSE frees full [slot.Q, x), swa [max(slot.Q, slot.E), x) twice")
    'T-CLOSE frees full [slot.Q, x) twice'
    >>> _of_one_pool("T-INSERT does not unlock swa swa_x")
    ''
    """
    left = _SECOND.sub("", words)
    return "" if "swa" in left else left


def _turns(referee: Referee) -> list[_Turn]:
    """The iterations that were judged; none where the engine tells no events, or died."""
    seen = [each for entry in referee.log for each in entry.snapshots[: entry.judged]]
    if not seen or "events" not in seen[-1] or not referee.log[-1].judged:
        return []
    last = [with_totals(empty_snapshot(), seen[0]), *seen][-EARLIER - 1 :]
    worlds = pairwise(abstract(each, referee.constants) for each in last)
    told = (each.get("events") or () for each in last[1:])
    return [_Turn(a, events, b) for (a, b), events in zip(worlds, told, strict=True)]


def _distinct(found: list[tuple[Deviation, bool]]) -> list[tuple[Deviation, bool]]:
    """Of those that change the same place of a transition, or read alike, the plainest."""
    first: dict[tuple[str, str], tuple[Deviation, bool]] = {}
    for each, always in found:
        id_, kind, place = each.name.split("/", 2)
        where = place.partition(":")[0]
        if not kind.startswith("throughout"):  # of a memory move its number, of others the name
            where = where.partition("-")[0] if where[0].isdigit() else where
        first.setdefault((id_, where), (each, always))
    return list(first.values())


def _wrong(turn: _Turn) -> list[str]:
    """The variables of actors that are not what the spec says."""
    world = twin(turn.before)
    for event in turn.events:
        world.apply(*event)
    there = differences(world, turn.after)
    return list(dict.fromkeys(each.variable for each in there if each.variable))


def _lands(turn: _Turn, table: dict[str, Step]) -> bool:
    """Whether the spec, with these steps, may do what happened and ends where the engine is."""
    world = twin(turn.before)
    world.steps = table
    for transition, sid, rid, params in turn.events:
        if any(each.invariant == "INV-STEP" for each in world.apply(transition, sid, rid, params)):
            return False
    return not any(differences(world, turn.after))
