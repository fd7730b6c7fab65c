"""The world: actors, frames, and problems of steps that the spec does not allow."""

from __future__ import annotations

import random

import pytest

from slotproof_model.evaluation.layout import EMPTY_ACTOR, OWN, initial_pools
from slotproof_model.evaluation.world import Constants, Problem, World
from slotproof_model.spec import state
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.state import PLAIN, WAITING

FRAME = state.FRAME
LONGEST = list(state.CONTRIBUTIONS).index(state.frame.lock_max.name)
KIND, PHASE, PROMPT = (OWN[f"req.{name}"] for name in ("kind", "phase", "prompt"))


@pytest.fixture
def world() -> World:
    """Return a pool of 100 with one open session."""
    made = World(
        Constants(1, 100, 0, PROFILES["reference"]), initial_pools(full=100, swa=0, rows=3)
    )
    assert made.apply("T-OPEN", "s", None, {}) == []
    return made


def submit(world: World, new: int = 4, **more: int) -> list[Problem]:
    return world.apply("T-SUBMIT", "s", "r", {"new": new, **more})


def running(world: World) -> None:
    """Run turn 1: 4 tokens of prompt prefilled, one token sampled."""
    assert submit(world) == []
    assert world.apply("T-MATCH", "s", "r", {"m": 0, "locked": 0, "swa_locked": 0}) == []
    assert (
        world.apply("T-EXTEND", "s", "r", {"t": 4, "ahead": 0, "sampled": 1, "told": 1, "row": 0})
        == []
    )


def test_an_unknown_transition_is_a_problem(world: World) -> None:
    """INV-STEP.unknown."""
    assert world.apply("T-NAP", "s", None, {}) == [
        Problem("INV-STEP", "unknown", "there is no transition 'T-NAP'")
    ]


def test_a_missing_parameter_is_a_problem(world: World) -> None:
    """INV-STEP.unknown."""
    (problem,) = world.apply("T-MATCH", "s", "r", {"locked": 0})
    assert problem == Problem("INV-STEP", "unknown", "the event T-MATCH lacks m, swa_locked")


def test_a_parameter_without_a_figure_is_missing(world: World) -> None:
    """INV-STEP.unknown: an in-process engine may report None, which no guard can compare."""
    (problem,) = world.apply("T-MATCH", "s", "r", {"m": 0, "locked": None, "swa_locked": 0})  # type: ignore[dict-item]
    assert problem == Problem("INV-STEP", "unknown", "the event T-MATCH lacks locked")


@pytest.mark.parametrize(("sid", "rid"), [("t", None), ("t", "r"), (None, "r")])
def test_an_actor_that_does_not_exist_is_a_problem(
    world: World, sid: str | None, rid: str | None
) -> None:
    """INV-STEP.unknown."""
    problem, *after = world.apply("T-PARK", sid, rid, {})
    assert (problem.invariant, problem.conjunct) == ("INV-STEP", "unknown" if sid else "guard")
    assert not (sid and after), "what has no effect breaks nothing else"


def test_a_guard_that_fails_is_reported_and_the_effect_performed(world: World) -> None:
    """INV-STEP.guard: later steps are compared with the engine's own events."""
    assert submit(world) == []
    problems = submit(world, new=6)
    assert problems[0] == Problem("INV-STEP", "guard", "T-SUBMIT needs “idle”", "idle")
    assert world.actors["s"][PROMPT] == 6


def test_step_invariants_are_checked(world: World) -> None:
    """INV-INFLIGHT-STEP: a second turn displaces the turn in flight."""
    submit(world)
    (_, problem) = submit(world, new=6)
    assert (problem.invariant, problem.conjunct) == ("INV-INFLIGHT-STEP", "keeps")
    assert problem.detail == "broken by T-SUBMIT"


@pytest.mark.parametrize("name", ["C", "A", "Q", "E"])
def test_lengths_that_an_event_claims_are_compared(world: World, name: str) -> None:
    """INV-STEP.state: of the turn's KV right after the transition."""
    running(world)
    claims = {"C": 5, "A": 5, "Q": 0, "E": 0}
    assert world.apply("T-DECODE", "s", "r", {"at": 5, "d": 1, "k": 1, "told": 1, **claims}) == []
    wrong = {"C": 6, "A": 6, "Q": 0, "E": 0}
    wrong[name] += 3
    (problem,) = world.apply("T-DECODE", "s", "r", {"at": 6, "d": 1, "k": 1, "told": 1, **wrong})
    assert (problem.invariant, problem.conjunct) == ("INV-STEP", "state")
    want = wrong[name] - 3
    assert problem.detail == f"req.{name} is {wrong[name]} after T-DECODE, the spec says {want}"


def test_lengths_claimed_without_a_turn_are_the_slots(world: World) -> None:
    """INV-STEP.state: after T-SAVE the slot has the KV."""
    running(world)
    (problem,) = world.apply("T-SAVE", "s", "r", {"C": 5})
    assert problem.detail == "slot.C is 5 after T-SAVE, the spec says 4"


@pytest.mark.parametrize(("transition", "kept"), [("T-REJECT", True), ("T-DOOM", False)])
def test_a_stub_and_a_doomed_turn_go_on_alone(world: World, transition: str, kept: bool) -> None:
    """T-REJECT, T-DOOM: a plain request from then on. T-DOOM also ends the session's turn."""
    submit(world)
    assert world.apply(transition, "s", "other", {"prompt": 9}) == []
    alone = world.actors["/other"]
    assert (alone[KIND], alone[PHASE], alone[PROMPT]) == (PLAIN, WAITING, 9)
    assert bool(world.actors["s"][KIND]) is kept
    assert world.apply("T-MATCH", "s", "other", {"m": 0, "locked": 0, "swa_locked": 0}) == []
    assert world.apply("T-PLAIN-ABORT", None, "other", {"u": 0, "swa_u": 0}) == []
    assert "/other" not in world.actors


def test_an_actor_that_is_no_more_is_dropped(world: World) -> None:
    """T-CLOSE of a session without a slot leaves nothing (INV-DRAIN)."""
    assert world.apply("T-CLOSE", "s", None, {"u": 0, "swa_u": 0}) == []
    assert world.actors == {} and world.shares == {}
    assert list(world.violations()) == []


def test_the_frame_sums_up_everybody_else(world: World) -> None:
    """The frame has sums, except for the longest lock. The actor itself is left out."""
    running(world)
    assert world.apply("T-OPEN", "t", None, {}) == []
    names = ["held", "uncached", "swa_held", "swa_uncached", "rows", "lock_max", "lock_sum"]
    assert dict(zip(names, world.frame("t"), strict=True)) == dict.fromkeys(names, 0) | {
        "uncached": 4,
        "rows": 1,
    }
    assert world.frame("s") == [0] * 7
    assert world.frame(None) == world.frame("t")


def test_writers_name_the_transition_that_wrote_last(world: World) -> None:
    """Reports name the transition of a wrong figure."""
    running(world)
    assert world.writers["s"] == "T-EXTEND"
    assert world.writers["full.available"] == "T-EXTEND"
    assert world.writers["rows.free"] == "T-EXTEND"


def test_violations_name_the_actor_and_each_conjunct_once(world: World) -> None:
    """INV-ORDER, INV-LOAN, as seen by the actor."""
    bad = list(EMPTY_ACTOR)
    bad[OWN["slot.C"]] = 3
    for sid in ("t", "u"):
        values = list(bad)
        values[OWN["session.open"]] = 1
        world.put(sid, values)
    violations = list(world.violations())
    assert ("t", "INV-ORDER", "slot") in violations
    assert ("u", "INV-ORDER", "slot") not in violations


def test_the_frame_is_the_sum_of_the_others() -> None:
    """The frame follows changes of actors. The longest lock is another actor's."""
    rng = random.Random(0)
    world = World(Constants(1, 100, 0, PROFILES["reference"]), initial_pools(100, 0, 0))
    for _ in range(300):
        values = list(EMPTY_ACTOR)
        for name in ("slot.holding", "slot.Q", "slot.A", "req.kind", "req.phase", "req.Q"):
            values[OWN[name]] = rng.choice([0, 0, 1, 2, 3])
        world.put(rng.choice("abcde"), rng.choice([values, values, list(EMPTY_ACTOR)]))
        for key in (None, *"abcde"):
            others = [share for other, share in world.shares.items() if other != key]
            total = [sum(column) for column in zip(*others, strict=True)] or [0] * len(FRAME)
            total[LONGEST] = max((share[LONGEST] for share in others), default=0)
            assert world.frame(key) == total


def test_what_is_not_there_and_is_not_zero_is_kept() -> None:
    """INV-ABSENT: a closed session has no history."""
    world = World(Constants(1, 100, 0, PROFILES["reference"]), initial_pools(100, 0, 0))
    values = list(EMPTY_ACTOR)
    values[OWN["session.history"]] = 1
    world.put("t", values)
    assert ("t", "INV-ABSENT", "session") in list(world.violations())


def test_an_empty_world_is_checked_too() -> None:
    """INV-SUM-FULL without any actor."""
    world = World(Constants(1, 10, 0, PROFILES["reference"]), [9, 8, 0, 0, 0, 0, 0, 0, 1, 1])
    assert (None, "INV-SUM-FULL", "equation") in list(world.violations())


def test_eviction_has_no_actor(world: World) -> None:
    """T-EVICT moves pages of the tree. The session named in the event stays unchanged."""
    world.pools[1:3] = [90, 10]
    assert world.apply("T-EVICT", "s", "r", {"n": 4, "swa_n": 0}) == []
    assert world.pools[1:3] == [94, 6]
    (problem,) = world.apply("T-EVICT", None, None, {"n": 7, "swa_n": 0})
    assert problem.detail == "T-EVICT needs “full_evictable”"
