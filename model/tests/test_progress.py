"""Progress: the theorem goes through, and a spec in which somebody can wait for ever does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotproof_model.bugs.museum import changed, less
from slotproof_model.evaluation.explore import Bounds
from slotproof_model.proofs.obligations import framing
from slotproof_model.proofs.progress import (
    EVICT,
    HELPERS,
    RANK,
    STEPS,
    less as smaller,
    prove_progress,
    tasks_of,
)
from slotproof_model.proofs.prove import Prover
from slotproof_model.proofs.stuck import WORLD, look
from slotproof_model.spec import transitions as t
from slotproof_model.spec.expr import Expr, conj, is_aligned, lift
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.state import (
    PARKED,
    RUNNING,
    WAITING,
    config,
    full,
    is_turn,
    known,
    req,
    rows,
    session,
)
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec
from tests.checks.paged import value
from tests.checks.wrong import becomes, guarded

DISCARD = frozenset(["T-DISCARD"])


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 4, 16, 64, None])
def test_whoever_waits_can_be_brought_to_run(page_size: int | None) -> None:
    results, vacuity = prove_progress(page_sizes=(page_size,))
    assert [each.name for each in results if each.status != "proved"] == []
    assert not any(each.vacuous for each in vacuity)
    layers = {each.transition for each in results}
    assert layers >= {f"PROGRESS [{name}]" for name in STEPS}
    assert layers >= {f"PROGRESS [{name} enabled]" for name in (*HELPERS, EVICT)}


@pytest.mark.parametrize("profile", PROFILES)
def test_under_every_profile(profile: str) -> None:
    """Of a step that engines of the profile never take nothing is asked: it would be vacuous."""
    results, vacuity = prove_progress(page_sizes=(4,), profile=profile)
    assert {each.status for each in results} == {"proved"}
    assert not any(each.vacuous for each in vacuity)
    keeps = PROFILES[profile].choices["retract_keeps"]
    asked = {each.transition for each in results}
    assert ("PROGRESS [T-RETRACT]" in asked) == keeps
    assert ("PROGRESS [T-RETRACT-WIPE]" in asked) != keeps
    assert ("PROGRESS [T-RESULT]" in asked) == PROFILES[profile].choices["overlap"]


@pytest.mark.parametrize("name", HELPERS)
def test_every_helper_is_needed(name: str) -> None:
    """Without it there is an actor that no step is prescribed for."""
    assert _refuted(Spec(), "cases", frozenset([name])) == {"CASES.covered"}


def test_without_evictions_the_tree_stays() -> None:
    assert _refuted(Spec(), "end", frozenset([EVICT])) == {"END.evictable"}


WRONG = {
    "a match that needs something of the prompt in the tree": (
        guarded(t.T_MATCH, m=conj(t.T_MATCH.guard["m"], t.m >= 1)), "T-MATCH", "ENABLED.m"),
    "a match while another request is queued before it, for ever": (
        guarded(t.T_MATCH, first=session.open), "T-MATCH", "ENABLED.first"),
    "a prefill that leaves a row free": (
        guarded(t.T_EXTEND, spare=rows.free >= 2), "T-EXTEND", "ENABLED.spare"),
    "a prefill that leaves the last token out": (
        guarded(t.T_EXTEND, t=(t.t >= req.C) & (t.t < known)), "T-EXTEND", "ENABLED.t"),
    "a prefill that keeps a page in reserve": (
        guarded(t.T_EXTEND, spare=t.t <= full.available - 1), "T-EXTEND", "ENABLED.spare"),
    "a prefill that forgets the token": (
        becomes(t.T_EXTEND, (req.output, req.output)), "T-EXTEND", "RUNS.token"),
    "a discard of idle sessions only": (
        guarded(t.T_DISCARD, idle=~session.inflight), "T-DISCARD enabled", "ENABLED.idle"),
    "a discard that keeps the slot": (
        less(t.T_DISCARD, "slot.holding"), "T-DISCARD", "RANK.falls"),
    "a discard of one's own that ends the turn": (
        becomes(t.T_DISCARD, (req.prompt, 0)), "T-DISCARD", "ITSELF.something"),
    "a discard that takes a page from the pool": (
        becomes(t.T_DISCARD, (full.total, full.total - 4)), "T-DISCARD", "ANOTHER.fits"),
    "a refusal of turns only": (
        guarded(t.T_REFUSE, turn=is_turn), "T-REFUSE enabled", "ENABLED.turn"),
    "a retraction from the batch only": (
        guarded(t.T_RETRACT, begun=req.phase == RUNNING), "T-RETRACT enabled", "ENABLED.begun"),
    "a retraction that only parks": (
        becomes(t.T_PLAIN_RETRACT, (req.phase, PARKED), (req.row, req.row), (req.C, req.C)),
        "T-PLAIN-RETRACT", "RANK.falls"),
    "a result that tells nothing": (
        becomes(t.T_RESULT, (req.output, req.output)), "T-RESULT", "RANK.falls"),
    "an eviction of no more than a row is wide": (
        guarded(t.T_EVICT, n=(t.n >= 0) & is_aligned(t.n) & (t.n <= config.width)),
        "T-EVICT enabled", "ENABLED.n"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_spec_in_which_somebody_waits_for_ever_is_refuted(what: str) -> None:
    wrong, layer, clause = WRONG[what]
    found = _refuted(changed(wrong), layer)
    assert clause in found
    assert _refuted(Spec(), layer) == set()


def test_what_an_unlock_gives_back_does_not_matter() -> None:
    """The rank falls with every legal ``u``: how many pages others lock is the environment's."""
    (task,) = (each for each in tasks_of(Spec()) if each.layer == "T-DISCARD")
    assert not {"given.u", "given.swa_u"} & task.hypotheses.keys()
    assert {"guard.u", "guard.u_others"} <= task.hypotheses.keys()


@pytest.mark.parametrize(
    ("clause", "layer", "goal"),
    [
        ("INV-SUM-FULL.equation", "T-EXTEND", "ENABLED.full_available"),
        ("INV-ROWS.equation", "T-EXTEND", "ENABLED.a_row"),
        ("INV-COVER.req", "T-RESULT enabled", "ENABLED.running"),
    ],
)
def test_it_rests_on_the_invariants(clause: str, layer: str, goal: str) -> None:
    """Without this one the theorem does not go through."""
    id_, _, name = clause.partition(".")
    some = INVARIANTS[id_]
    rest = {key: expr for key, expr in some.conjuncts.items() if key != name}
    spec = Spec(invariants={**INVARIANTS, id_: replace(some, conjuncts=rest)})
    assert goal in _refuted(spec, layer)


def test_a_theorem_about_no_state_is_vacuous() -> None:
    """Invariants under which nobody ever waits would prove everything."""
    kind = INVARIANTS["INV-KIND"]
    nobody: dict[str, Expr] = {**kind.conjuncts, "waits": req.phase != WAITING}
    spec = Spec(invariants={**INVARIANTS, "INV-KIND": replace(kind, conjuncts=nobody)})
    _, vacuity = prove_progress(spec, (4,))
    assert "PROGRESS [T-MATCH]" in {each.transition for each in vacuity if each.vacuous}


def test_no_step_writes_the_counts_of_others() -> None:
    """So the rank of the whole changes by what the actor's share and the pools do."""
    assert framing(Spec()) == []
    written = {name for id_ in STEPS for name in TRANSITIONS[id_].full_effect}
    assert not any(name.startswith(("others.", "frame.", "waiting.")) for name in written)


def test_the_order_of_the_rank() -> None:
    """Lexicographic: an earlier place decides, whatever later ones do."""

    def below(now: tuple[int, ...], before: tuple[int, ...]) -> bool:
        a, b = ({n: lift(v) for n, v in zip(RANK, each, strict=True)} for each in (now, before))
        return bool(value(smaller(a, b), {}, 1))

    assert below((0, 9, 9, 9), (1, 0, 0, 0))
    assert below((1, 1, 0, 8), (1, 1, 0, 9))
    assert not below((1, 1, 1, 1), (1, 1, 1, 1))
    assert not below((1, 0, 0, 1), (1, 0, 0, 0))


# Explored ------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_in_a_small_world_everybody_who_waits_runs(profile: str) -> None:
    seen = look(profile=profile)
    assert seen.stuck is None
    assert seen.waiting > 100


@pytest.mark.parametrize("profile", ["sglang", "sglang-records", "vllm"])
def test_an_idle_session_keeps_others_waiting(profile: str) -> None:
    """The finding of the real builds (docs/findings/idle-session-pins.md), in six steps."""
    found = look(DISCARD, profile).stuck
    assert found is not None
    assert [each.transition for each in found.path] == [
        "T-OPEN", "T-SUBMIT", "T-MATCH", "T-EXTEND", "T-SAVE", "T-PLAIN-SUBMIT",
    ]  # fmt: skip
    assert found.who == 1
    assert found.reachable > 1


def test_a_wrong_guard_is_found_in_the_small_world_too() -> None:
    """A match that needs something of the prompt in the tree: nothing ever gets there."""
    wrong = guarded(t.T_MATCH, m=conj(t.T_MATCH.guard["m"], t.m >= 1))
    found = look(spec=changed(wrong)).stuck
    assert found is not None
    assert len(found.path) == 1


def test_with_room_for_both_nobody_waits_for_ever() -> None:
    roomy = replace(WORLD, pages=3)
    assert isinstance(roomy, Bounds)
    assert look(DISCARD, bounds=roomy).stuck is None


def _refuted(spec: Spec, layer: str, without: frozenset[str] = frozenset()) -> set[str]:
    return {
        result.clause
        for task in tasks_of(spec, without)
        if task.layer == layer
        for result in Prover([task], 4).results(task)
        if result.status == "refuted"
    }
