"""INV-STEP: the spec applies the engine's events and must end in the engine's state.

Without events only the states are judged, not the steps between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from slotproof.lockstep.abstraction import UNSHOWN, carry
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.figures import figures
from slotproof.lockstep.observation import Observation, Violation, actor_of, violated
from slotproof.lockstep.published import transitions_where
from slotproof.protocol.snapshot import Event
from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.evaluation.layout import LAYOUT, OWN, POOLS
from slotproof_model.evaluation.world import World
from slotproof_model.spec.state import slot
from slotproof_model.spec.steps import STEPS
from slotproof_model.spec.transitions import TRANSITIONS, reusable
from slotproof_model.text.idioms import words_of

_PROVED = tuple(name for name, step in STEPS.items() if not step.observed)
"""Names of step invariants defined only by formulas. Other oracles check the other invariants."""

_GIVES_UP = transitions_where(
    lambda transition: transition.stage == "match" and slot.holding.name in transition.effect
)
_AFTER = transitions_where(lambda transition: transition.stage == "abort" and not transition.memory)
"""Transitions that may abort a queued turn after the turn has lost its slot."""
(_PARTIAL,) = transitions_where(
    lambda transition: transition.stage == "abort" and transition.memory and not transition.names
)
(_RESTORE,) = transitions_where(lambda transition: transition.course == "every later turn")

_REUSES, _compiled = reusable > 0, cache(compiled)
_LENT = OWN["slot.lent"]
_STALE = {OWN[f"slot.{name}"] for name in ("C", "A", "Q", "E")}
"""Lengths of a slot. They may be out of date while a turn has the slot on loan."""
_CURSORS = {OWN[f"{whose}.E"]: OWN[f"{whose}.Q"] for whose in ("slot", "req")}
"""Index of the length Q by the index of the cursor E. A cursor up to Q has no meaning."""


def judge(seen: Observation) -> Iterator[Violation]:
    if (events := seen.snapshot.get("events")) is None:
        return
    world = seen.before
    world.writers.clear()
    yield from follow(world, events, seen.coverage, seen.given_up)
    seen.differences = list(differences(world, seen.world))
    carry(world, seen.world)
    yield from seen.differences


def follow(
    world: World,
    events: Sequence[Event],
    coverage: Coverage,
    given_up: list[tuple[str, str]] | None = None,
) -> Iterator[Violation]:
    """Apply the events to the spec in order. Yield each step that the spec forbids.

    ``given_up`` gets each session that lost a usable slot, or lost any slot while no turn waited.
    """
    if events:
        for invariant in ("INV-STEP", *_PROVED):
            coverage.checked[invariant] += 1
    page = world.constants.page_size
    for index, (transition, sid, rid, params) in enumerate(events):
        key = world.key(transition, sid, rid)
        before = world.vector(key)
        coverage.saw_guards(page, before)
        if given_up is not None and transition in _GIVES_UP and sid is not None:
            then = next((name for name, of, *_ in events[index + 1 :] if of == sid), None)
            if _of_use(world, sid, then in _AFTER):
                given_up.append((sid, transition))
        if transition in TRANSITIONS:  # A driver may report any number of unknown names.
            coverage.saw(transition, before)
        for problem in world.apply(transition, sid, rid, params):
            why = ""  # values in a failed guard, or in a step invariant that does not hold
            if problem.guard is not None:
                guard = TRANSITIONS[transition].full_guard[problem.guard]
                why = figures(guard, page, before, (), params)
            elif problem.invariant in STEPS:
                step = STEPS[problem.invariant].conjuncts[problem.conjunct]
                why = figures(step, page, before, world.vector(key))
            who = " of ".join(name for name in (rid, sid) if name)
            words = "{detail}{why} ({who})" if not why else "{detail}: {why} ({who})"
            yield violated(
                f"{problem.invariant}.{problem.conjunct}",
                words,
                **problem._asdict(),
                why=why,
                who=who,
                transition=transition,
                session=sid,
                rid=rid,
            )


def _of_use(world: World, sid: str, aborts: bool) -> bool:
    """Return True if part of the slot could be restored, or if no turn waits. An aborted turn may
    lose the slot that its retraction left, if the slot exceeds the history and can't be cut."""
    if (actor := world.actors.get(sid)) is None:
        return False
    beyond = actor[OWN["slot.C"]] > actor[OWN["session.history"]]
    if aborts and beyond and world.blocked(_PARTIAL, sid) is not None:
        return False
    if (blocked := world.blocked(_RESTORE, sid)) is None:
        return bool(_compiled(_REUSES, world.constants.page_size)(world.vector(sid), {}))
    return blocked == "turn"


def differences(spec: World, engine: World) -> Iterator[Violation]:
    """Yield a violation for each variable and each actor about which spec and engine disagree.

    Each violation names the last transition that changed the variable or its actor.
    """
    if spec.pools != engine.pools:
        for name, want, have in zip(LAYOUT[POOLS], spec.pools, engine.pools, strict=True):
            if want != have:
                yield _differs(name, spec.writers.get(name), int(want), int(have))
    if spec.actors == engine.actors:
        return
    for key in sorted(spec.actors.keys() | engine.actors.keys()):
        ours, theirs = spec.actors.get(key), engine.actors.get(key)
        writer = spec.writers.get(key)
        if ours is None or theirs is None:
            yield _differs(None, writer, 1 if ours else None, 1 if theirs else None, key)
            continue
        lent = bool(ours[_LENT] and theirs[_LENT])
        for (name, index), want, have in zip(OWN.items(), ours, theirs, strict=True):
            if index in _CURSORS and max(want, have) <= ours[_CURSORS[index]]:
                continue
            if want != have and index not in UNSHOWN and not (lent and index in _STALE):
                yield _differs(name, writer, int(want), int(have), key)


def _differs(
    variable: str | None, writer: str | None, spec: int | None, engine: int | None, key: str = ""
) -> Violation:
    session, rid = actor_of(key or None)
    named = words_of(variable or "")
    have, want = (named.get(number or 0, number) for number in (engine, spec))
    words = f"{{what}} is {have}, the spec says {want}"
    if variable is None:
        words = f"{{what}} exists only in {'the engine' if spec is None else 'the spec'}"
    return violated(
        "INV-STEP.state",
        words,
        what=" ".join(filter(None, (session or rid, variable))),
        spec=spec,
        engine=engine,
        transition=writer,
        variable=variable,
        session=session,
        rid=rid,
    )
