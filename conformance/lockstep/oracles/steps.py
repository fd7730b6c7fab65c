"""INV-STEP: the spec replays what the engine says it did, and must end where it did.

An engine that tells no events has its states judged; its steps are not observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Observation, Violation
from slotproof.conformance.protocol.snapshot import Event
from slotproof.model.layout import LAYOUT, OWN, POOLS
from slotproof.model.steps import STEPS
from slotproof.model.transitions import TRANSITIONS
from slotproof.model.world import World

_PROVED = tuple(name for name, each in STEPS.items() if not each.observed)
"""Step invariants that are formulas and nothing else; the others have an oracle of their own."""

_LENT = OWN["slot.lent"]
_STALE = {OWN[f"slot.{name}"] for name in ("C", "A", "Q", "E")}
"""While a slot is on loan its own lengths may be stale: the turn's count."""
_CURSORS = {OWN[f"{whose}.E"]: OWN[f"{whose}.Q"] for whose in ("slot", "turn")}
"""Up to Q the cursor stands on the tree's pages; where exactly says nothing."""


def judge(seen: Observation) -> Iterator[Violation]:
    events = seen.snapshot.get("events")
    if events is None:
        return
    world = seen.before
    world.writers.clear()
    yield from follow(world, events, seen.coverage)
    yield from differences(world, seen.world)


def follow(world: World, events: Sequence[Event], coverage: Coverage) -> Iterator[Violation]:
    """Move the spec by the events, in order; what it does not allow."""
    if events:
        for invariant in ("INV-STEP", *_PROVED):
            coverage.checked[invariant] += 1
    for transition, sid, rid, params in events:
        coverage.saw_guards(world, world.key(transition, sid, rid))
        if transition in TRANSITIONS:  # others are a stranger's words: any number of them
            coverage.transitions[transition] += 1
        for problem in world.apply(transition, sid, rid, params):
            who = " of ".join(name for name in (rid, sid) if name)
            yield Violation(
                problem.invariant, problem.conjunct, f"{problem.detail} ({who})", transition
            )


def differences(spec: World, engine: World) -> Iterator[Violation]:
    """Each field in which the engine is not where the spec says it must be."""
    for each in compared(spec, engine):
        if each.spec is None or each.engine is None:
            there = "the engine" if each.spec is None else "the spec"
            text = f"{each.what} exists only in {there}"
        else:
            text = f"{each.what.lstrip('/')} is {each.engine}, the spec says {each.spec}"
        yield Violation("INV-STEP", "state", text, each.writer)


class Difference(NamedTuple):
    """A field, or an actor, in which spec and engine differ. ``None``: it is not there."""

    what: str
    spec: int | None
    engine: int | None
    writer: str | None
    """The last transition of its actor."""


def compared(spec: World, engine: World) -> Iterator[Difference]:
    """Where the spec was led to, beside where the engine is."""
    for name, want, have in zip(LAYOUT[POOLS], spec.pools, engine.pools, strict=True):
        if want != have:
            yield Difference(name, int(want), int(have), spec.writers.get(name))
    for key in sorted(spec.actors.keys() | engine.actors.keys()):
        mine, theirs = spec.actors.get(key), engine.actors.get(key)
        writer = spec.writers.get(key)
        if mine is None or theirs is None:
            yield Difference(
                key, None if mine is None else 1, None if theirs is None else 1, writer
            )
            continue
        lent = bool(mine[_LENT] and theirs[_LENT])
        for (name, index), want, have in zip(OWN.items(), mine, theirs, strict=True):
            if index in _CURSORS and max(want, have) <= mine[_CURSORS[index]]:
                continue
            if want != have and not (lent and index in _STALE):
                yield Difference(f"{key} {name}", int(want), int(have), writer)
