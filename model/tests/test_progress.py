"""Progress: the theorem is proved, and refuted for a spec in which a request can wait forever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotproof_model.bugs.museum import changed, less
from slotproof_model.evaluation.explore import Bounds
from slotproof_model.proofs.obligations import framing
from slotproof_model.proofs.progress import (
    ENDS,
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
    assert [result.name for result in results if result.status != "proved"] == []
    assert not any(check.vacuous for check in vacuity)
    layers = {result.transition for result in results}
    alone = {id_ for id_ in STEPS if f"PROGRESS [{id_}]" not in layers}
    assert alone == {"T-DECODE", "T-LAUNCH"}
    assert layers >= {f"PROGRESS [{id_}, alone]" for id_ in (*alone, *ENDS)}
    assert layers >= {f"PROGRESS [{id_} enabled]" for id_ in (*HELPERS, EVICT)}


@pytest.mark.parametrize("profile", PROFILES)
def test_under_every_profile(profile: str) -> None:
    """A transition impossible under the profile is not asked about: the answer would be vacuous."""
    results, vacuity = prove_progress(page_sizes=(4,), profile=profile)
    assert {result.status for result in results} == {"proved"}
    assert not any(check.vacuous for check in vacuity)
    keeps = PROFILES[profile].choices["retract_keeps"]
    asked = {result.transition for result in results}
    assert ("PROGRESS [T-RETRACT]" in asked) == keeps
    assert ("PROGRESS [T-RETRACT-WIPE]" in asked) != keeps
    assert ("PROGRESS [T-RESULT]" in asked) == PROFILES[profile].choices["overlap"]


@pytest.mark.parametrize("name", HELPERS)
def test_every_helper_is_needed(name: str) -> None:
    """Without the helper, no step is prescribed for some actor."""
    assert _refuted(Spec(), "cases", frozenset([name])) == {"CASES.covered"}


def test_without_evictions_the_tree_stays() -> None:
    assert _refuted(Spec(), "end", frozenset([EVICT])) == {"END.evictable"}


WRONG = {
    "a match that requires part of the prompt in the tree": (
        guarded(t.T_MATCH, m=conj(t.T_MATCH.guard["m"], t.m >= 1)), "T-MATCH", "ENABLED.m"),
    "a match that never happens behind another request": (
        guarded(t.T_MATCH, first=session.open), "T-MATCH", "ENABLED.first"),
    "a prefill that requires a spare row": (
        guarded(t.T_EXTEND, spare=rows.free >= 2), "T-EXTEND", "ENABLED.spare"),
    "a prefill without the last token": (
        guarded(t.T_EXTEND, t=(t.t >= req.C) & (t.t < known)), "T-EXTEND", "ENABLED.t"),
    "a prefill that requires a spare page": (
        guarded(t.T_EXTEND, spare=t.t <= full.available - 1), "T-EXTEND", "ENABLED.spare"),
    "a prefill without a sampled token": (
        becomes(t.T_EXTEND, (req.output, req.output)), "T-EXTEND", "ANSWERS.length"),
    "a discard of idle sessions only": (
        guarded(t.T_DISCARD, idle=~session.inflight), "T-DISCARD enabled", "ENABLED.idle"),
    "a discard that does not remove the slot": (
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
    "a result without tokens": (
        becomes(t.T_RESULT, (req.output, req.output)), "T-RESULT", "RANK.falls"),
    "an eviction of no more than a row is wide": (
        guarded(t.T_EVICT, n=(t.n >= 0) & is_aligned(t.n) & (t.n <= config.width)),
        "T-EVICT enabled", "ENABLED.n"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_spec_in_which_somebody_waits_for_ever_is_refuted(what: str) -> None:
    wrong, layer, clause = WRONG[what]
    refuted = _refuted(changed(wrong), layer)
    assert clause in refuted
    assert _refuted(Spec(), layer) == set()


def test_the_documented_row_of_wrong_specs_is_fresh() -> None:
    obligations = sorted({clause.partition(".")[0] for _, _, clause in WRONG.values()})
    row = f"| progress | {len(WRONG)} | {', '.join(obligations)} | no |"
    text = (Path(__file__).parents[2] / "docs" / "proof.md").read_text(encoding="utf-8")
    assert row in text


def test_what_an_unlock_gives_back_does_not_matter() -> None:
    """The rank falls with every legal ``u``. The environment decides how many pages others lock."""
    (task,) = (task for task in tasks_of(Spec()) if task.layer == "T-DISCARD")
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
    """Without this clause the theorem fails."""
    id_, _, name = clause.partition(".")
    some = INVARIANTS[id_]
    rest = {key: expr for key, expr in some.conjuncts.items() if key != name}
    spec = Spec(invariants={**INVARIANTS, id_: replace(some, conjuncts=rest)})
    assert goal in _refuted(spec, layer)


def test_a_theorem_about_no_state_is_vacuous() -> None:
    """Invariants without any waiting request would prove everything."""
    kind = INVARIANTS["INV-KIND"]
    nobody: dict[str, Expr] = {**kind.conjuncts, "waits": req.phase != WAITING}
    spec = Spec(invariants={**INVARIANTS, "INV-KIND": replace(kind, conjuncts=nobody)})
    _, vacuity = prove_progress(spec, (4,))
    assert "PROGRESS [T-MATCH]" in {check.transition for check in vacuity if check.vacuous}


def test_no_step_writes_the_counts_of_others() -> None:
    """So the rank of the whole state changes only by the actor's share and the pools."""
    assert framing(Spec()) == []
    written = {name for id_ in STEPS for name in TRANSITIONS[id_].full_effect}
    assert not any(name.startswith(("others.", "frame.", "waiting.")) for name in written)


def test_the_order_of_the_rank() -> None:
    """Lexicographic order: an earlier place decides, whatever the later places are."""

    def below(now: tuple[int, ...], before: tuple[int, ...]) -> bool:
        a, b = ({n: lift(v) for n, v in zip(RANK, rank, strict=True)} for rank in (now, before))
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
    stuck = look(DISCARD, profile).stuck
    assert stuck is not None
    assert [stride.transition for stride in stuck.path] == [
        "T-OPEN", "T-SUBMIT", "T-MATCH", "T-EXTEND", "T-SAVE", "T-PLAIN-SUBMIT",
    ]  # fmt: skip
    assert stuck.who == 1
    assert stuck.reachable > 1


def test_a_wrong_guard_is_found_in_the_small_world_too() -> None:
    """A match that requires part of the prompt in the tree: the tree never gets any."""
    wrong = guarded(t.T_MATCH, m=conj(t.T_MATCH.guard["m"], t.m >= 1))
    stuck = look(spec=changed(wrong)).stuck
    assert stuck is not None
    assert len(stuck.path) == 1


def test_with_room_for_both_nobody_waits_for_ever() -> None:
    roomy = replace(WORLD, pages=4)
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
