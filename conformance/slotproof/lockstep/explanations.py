"""Explanations of a finding: single changes that lead the spec to the engine's state.

The events of the violating iteration are applied again, with one transition carried out wrongly
(:mod:`slotproof_model.bugs.deviations`). If the result is the engine's own state, the engine
behaves like the changed spec. A change that contradicts an earlier iteration explains less: an
engine with this change would have failed earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from slotproof.lockstep.abstraction import abstract, carry
from slotproof.lockstep.misread import twin
from slotproof.lockstep.oracles.steps import differences
from slotproof.lockstep.referee import Referee, empty_snapshot, with_totals
from slotproof.protocol.snapshot import Event
from slotproof_model.bugs.deviations import READABLE, Deviation, additions, as_told, deviations
from slotproof_model.evaluation.evaluate import Step, steps
from slotproof_model.evaluation.world import World
from slotproof_model.spec.transitions import TRANSITIONS

MOST = 3
"""Largest number of explanations shown."""
EVENTS = 100
"""Maximum number of events in an iteration that is explained. Engines may report more events."""
_SECOND = re.compile(r", swa (?:\[(?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[\w.]+)")
"""Pattern of the second pool's part of a sentence, for example ``, swa [slot.Q, x)``."""
EARLIER = 50
"""Number of earlier iterations on which an explanation is tested."""


@dataclass(frozen=True)
class Explanation:
    """A change to one transition that leads the spec to the engine's state."""

    transition: str
    words: str
    always: bool = True
    """True if no other iteration contradicts the change, as far as its effect is visible."""

    def __str__(self) -> str:
        return self.words if self.always else f"{self.words}, this time"


def lasting(explained: Iterable[Explanation] | None) -> frozenset[str]:
    """Return the sentences of changes that hold in all other iterations."""
    return frozenset(explanation.words for explanation in explained or () if explanation.always)


@dataclass(frozen=True)
class _Turn:
    """One iteration: the state before it, its events, and the state after it."""

    before: World
    events: Sequence[Event]
    after: World


def explain(
    referee: Referee, seen_first: Referee | None = None, most: int | None = MOST
) -> tuple[Explanation, ...] | None:
    """Explain the last judged iteration, with the simplest change at each place of a transition
    first. Return None if the spec agrees with the engine's state, or if the engine reports no
    events. The further iterations of ``seen_first``, the unshrunk example, are evidence.

    >>> from slotproof.engines.reference import InProcessEngine
    >>> from slotproof.lockstep.referee import Setup, play
    >>> from slotproof.protocol.config import EngineConfig
    >>> engine = InProcessEngine("22753-sticky-active")
    >>> print(explain(play(engine, Setup(EngineConfig()), [])))
    None
    """
    if not (turns := _turns(referee)) or len(turns[-1].events) > EVENTS:
        return None
    constants = referee.constants
    if constants.profile.choices["keeps_slack"] and referee.config.draft:
        return None  # Deviations assume an engine that frees the KV allocated past a turn's end.
    table, two_pools = steps(constants.page_size), "swa" in referee.snapshot["pools"]
    *earlier, last = turns
    if _lands(last, table):
        return None
    long = _turns(seen_first) if seen_first is not None else []
    fitting: list[tuple[Deviation, bool]] = []
    wrong = _wrong(last)
    added = [*([name] for name in wrong), *([wrong] if len(wrong) == 2 else [])]
    for id_ in dict.fromkeys(event[0] for event in last.events if event[0] in TRANSITIONS):
        evidence = [turn for turn in (*earlier, *long[:-1]) if id_ in {e[0] for e in turn.events}]
        others = (addition for names in added for addition in additions(id_, names))
        right = {**table, id_: as_told(id_).step(constants.page_size, lenient=True)}
        lenient = not _lands(last, right)  # If the lenient step succeeds, only the guard is wrong.
        for deviation in (*deviations(id_).values(), *others):
            other = {**table, id_: deviation.step(constants.page_size, lenient)}
            if not _lands(last, other):
                continue
            words = deviation.words if two_pools else _of_one_pool(deviation.words)
            if words and len(words) <= READABLE:
                held = all(_lands(turn, other) for turn in (*evidence, *long[-1:]))
                fitting.append((replace(deviation, said=words), held))
    fitting.sort(key=lambda one: (not one[1], one[0].rank))
    plain = _distinct(fitting)
    more = [one for one in fitting if one not in plain]
    every = [Explanation(change.id, change.words, always) for change, always in [*plain, *more]]
    return tuple(dict.fromkeys(every))[:most]


def _of_one_pool(words: str) -> str:
    """Return the sentence without the second pool, or "" if it is only about the second pool.

    >>> _of_one_pool("T-ABORT unlocks full u, swa swa_u twice")
    'T-ABORT unlocks full u twice'
    >>> _of_one_pool("T-CLOSE frees full [slot.Q, x), swa [max(slot.Q, slot.E), x) twice")
    'T-CLOSE frees full [slot.Q, x) twice'
    >>> _of_one_pool("T-INSERT does not unlock swa swa_u")
    ''
    """
    left = _SECOND.sub("", words)
    return "" if "swa" in left else left


def _turns(referee: Referee) -> list[_Turn]:
    """Return the last judged iterations, or none if the engine reports no events or crashed."""
    seen = [snapshot for entry in referee.log for snapshot in entry.snapshots[: entry.judged]]
    if not seen or "events" not in seen[-1] or not referee.log[-1].judged:
        return []
    last = [with_totals(empty_snapshot(), seen[0]), *seen][-EARLIER - 1 :]
    turns: list[_Turn] = []
    before = abstract(last[0], referee.constants)
    for snapshot in last[1:]:
        events, after = snapshot.get("events") or (), abstract(snapshot, referee.constants)
        spec = twin(before)
        for event in events:
            spec.apply(*event)
        carry(spec, after)
        turns.append(_Turn(before, events, after))
        before = after
    return turns


def _distinct(fitting: list[tuple[Deviation, bool]]) -> list[tuple[Deviation, bool]]:
    """Return the simplest change at each place of a transition."""
    first: dict[tuple[str, str], tuple[Deviation, bool]] = {}
    for deviation, always in fitting:
        id_, kind, place = deviation.name.split("/", 2)
        where = place.partition(":")[0]
        if not kind.startswith("throughout"):  # the place of a memory move starts with a digit
            where = where.partition("-")[0] if where[0].isdigit() else where
        first.setdefault((id_, where), (deviation, always))
    return list(first.values())


def _wrong(turn: _Turn) -> list[str]:
    """Return the variables of actors whose values differ between engine and spec."""
    world = twin(turn.before)
    for event in turn.events:
        world.apply(*event)
    differing = differences(world, turn.after)
    return list(dict.fromkeys(violation.variable for violation in differing if violation.variable))


def _lands(turn: _Turn, table: dict[str, Step]) -> bool:
    """Return True if the steps in ``table`` allow the events and lead to the engine's state."""
    world = twin(turn.before)
    world.steps = table
    for transition, sid, rid, params in turn.events:
        problems = world.apply(transition, sid, rid, params)
        if any(problem.invariant == "INV-STEP" for problem in problems):
            return False
    return not any(differences(world, turn.after))
