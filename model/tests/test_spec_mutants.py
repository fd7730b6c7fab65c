"""The mutate reading: obligations kill wrong mutants, and proofs explain the equivalent mutants."""

from dataclasses import replace

import pytest

from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.bugs.mutate import Mutant
from slotproof_model.proofs.obligations import tasks
from slotproof_model.proofs.prove import Prover
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.expr import Expr, ceil_page, is_aligned, maximum
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec
from tests.checks.mutants import (
    Comparison,
    Verdict,
    judge,
    judge_exhibit,
    judge_wrong,
    refuted,
    systematic,
    table,
)
from tests.checks.variants import VARIANTS
from tests.checks.wrong import WRONG

MUTANTS = {mutant.name: mutant for mutant in systematic()}


def test_there_are_many_and_their_names_are_their_own() -> None:
    assert len(MUTANTS) == len(list(systematic())) > 1000


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("T-RESTORE/drop-guard/window", "INV-WINDOW.req"),
        ("T-RESTORE/drop-effect/slot.lent", "INV-SUM-FULL.equation"),
        ("T-RESTORE/drop-move/0-free", "INV-SUM-FULL.equation"),
        ("T-SAVE/drop-effect/slot.E", "INV-SUM-SWA.equation"),
        ("T-SUBMIT/drop-effect/session.inflight", "INV-INFLIGHT.iff"),
        ("T-ABORT/drop-move/2-give-row", "INV-ROWS.equation"),
        ("T-REFUSE/drop-effect/slot.lent", "INV-SUM-FULL.equation"),
        ("T-INSERT/forget-pool/0-free-swa", "INV-SUM-SWA.equation"),
    ],
)
def test_a_mutant_is_killed(name: str, clause: str) -> None:
    verdict = judge(MUTANTS[name])
    assert verdict.fate == "killed", verdict
    assert f"/ {clause} /" in verdict.by


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("T-PLAIN-SUBMIT/less-or-equal/nonempty", "T-PLAIN-SUBMIT [allowed] / ALLOWS.nonempty"),
        ("T-CLOSE/less-or-equal/u.1", "T-CLOSE [allowed] / ALLOWS.u"),
        ("T-SUBMIT/off-by-one/req.prompt", "T-SUBMIT / INV-HISTORY.extends"),
        ("T-EXTEND/drop-effect/req.output", "T-EXTEND / INV-TOKENS.told"),
        ("T-OPEN/drop-effect/session.open", "T-OPEN / changes nothing"),
        ("T-PARK/drop-effect/req.phase", "T-PARK / changes nothing"),
        ("T-DISCARD/drop-guard/u", "T-DISCARD / INV-ALIGN.tree"),
        ("T-ABORT-PARTIAL/drop-guard/partial", "T-ABORT-PARTIAL / INV-QUEUED-STEP.slot"),
        ("T-CLOSE-DEFER/drop-guard/busy", "T-CLOSE-DEFER / INV-INFLIGHT-STEP.defers"),
        ("T-DECODE/drop-guard/prefilled", "T-DECODE / INV-TOKENS.past_end"),
        ("T-SAVE/drop-guard/prefilled", "T-SAVE / INV-COVER-STEP.finishes"),
        ("T-PLAIN-FINISH/drop-guard/running", "T-PLAIN-FINISH / INV-LIFE-STEP.finishes"),
        ("T-REFUSE/branch/swa_u.1.1.1", "T-REFUSE / INV-LOCK-STEP.swa_falls"),
    ],
)
def test_what_kills_it_is_what_was_made_for_it(name: str, by: str) -> None:
    """Too strict, misnamed, idle, too lax: every kind of obligation has mutants of its own."""
    assert judge(MUTANTS[name]).by.startswith(by + " ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        # A session that is not open has no history, so a reset changes nothing.
        ("T-OPEN/drop-effect/session.history", "same steps"),
        # A cursor that "moves" to its own position.
        ("T-SWA-ADVANCE/less-or-equal/e.0.0", "more steps, which change nothing"),
        # An abort of a request without a session is T-PLAIN-ABORT.
        ("T-ABORT/drop-guard/turn", "more steps, which other transitions allow"),
    ],
)
def test_what_can_do_no_harm_is_proved_equivalent(name: str, why: str) -> None:
    assert judge(MUTANTS[name]).by == why


@pytest.mark.slow
@pytest.mark.parametrize("name", EXHIBITS)
def test_a_known_bug_is_killed_by_an_obligation(name: str) -> None:
    verdict = judge_exhibit(name)
    assert verdict.fate == "killed", verdict
    assert not verdict.by.startswith("INIT")


@pytest.mark.slow
def test_the_abort_that_was_merged_does_no_harm() -> None:
    """#22790 frees up to max(slot.A, req.A). INV-LOAN.grows says slot.A ≤ req.A."""
    loan = INVARIANTS["INV-LOAN"]
    rest = {name: expr for name, expr in loan.conjuncts.items() if name != "grows"}
    less = replace(loan, conjuncts=rest)
    gone, *others = t.T_ABORT.memory
    hi = ceil_page(maximum(state.slot.A, state.req.A))
    gone = replace(gone, full=replace(gone.full, hi=hi), swa=replace(gone.swa, hi=hi))
    merged = replace(t.T_ABORT, memory=(gone, *others))
    transitions = {**TRANSITIONS, "T-ABORT": merged}
    assert refuted(Spec(transitions), (4,)) is None
    assert refuted(Spec(transitions, {**INVARIANTS, "INV-LOAN": less}), (4,)) is not None


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_spec_is_refuted_by_the_clause_made_for_it(name: str) -> None:
    assert judge_wrong(name).fate == "killed"


_NEVER_ALONE = {
    "INV-CURSOR-STEP.far",
    *(f"INV-LIFE-STEP.{name}" for name in ("kind", "ends", "answered")),
}
"""Step clauses that fail only along with another obligation."""
_ASKED_FOR = {
    "INV-ROWS-STEP.req",
    "INV-ALIGN-STEP.reuse",
    "INV-INFLIGHT-STEP.ends",
    "INV-INFLIGHT-STEP.remembers",
    "INV-HISTORY.only_at_finish",
    "INV-HISTORY.begins",
    "INV-PUBLISH-STEP.committed",
    "INV-PUBLISH-STEP.swa_committed",
    *(f"INV-COVER-STEP.{name}" for name in ("computes", "prefills", "rounds", "tells")),
    *(f"{id_}.{name}" for id_ in ("INV-KEEP-STEP", "INV-LIFE-STEP", "INV-CURSOR-STEP")
      for name in INVARIANTS[id_].conjuncts if f"{id_}.{name}" not in _NEVER_ALONE),
    *(f"INV-PIN.{name}" for name in INVARIANTS["INV-PIN"].conjuncts),
    *(f"INV-PLACE.{name}" for name in INVARIANTS["INV-PLACE"].conjuncts),
    *(f"INV-BACKED.{name}" for name in INVARIANTS["INV-BACKED"].conjuncts),
    "INV-ROW.counted",
    "INV-LOCK-STEP.window",
    "INV-TOLD-STEP.next",
    "INV-ROUND-STEP.arrives",
    *(f"INV-SLACK-STEP.{name}" for name in ("grows", "tail", "trims")),
    "INV-INFLIGHT-STEP.asks",
}  # fmt: skip
"""Clauses requested by a review of the spec: before, no obligation refuted these specs. INV-ROW.one
fails only along with a clause about figures of rows or their owner."""


def test_every_clause_asked_for_has_a_wrong_spec_of_its_own() -> None:
    alone = {wrong.by.partition(" / ")[2] for wrong in WRONG.values() if wrong.alone}
    assert alone >= _ASKED_FOR


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [wrong.name for wrong in WRONG.values() if wrong.alone])
def test_nothing_else_refutes_it(name: str) -> None:
    """No clause, no meaning of an event and no allowance refutes the rest."""
    wrong = WRONG[name]
    transition, _, clause = wrong.by.partition(" / ")
    name = transition.partition(" ")[0]
    assert wrong.spec.rewritten == ([] if wrong.spec.unruled else [name])
    for page_size in (4, 1):
        prover = Prover(tasks(wrong.spec, name), page_size)
        for task in prover.tasks:
            assert not prover.vacuity(task).problem
            others = replace(task, goals=tuple(g for g in task.goals if g.clause != clause))
            assert {result.status for result in prover.results(others)} <= {"proved"}


@pytest.mark.parametrize("name", VARIANTS)
def test_another_way_to_build_it_is_not_refuted(name: str) -> None:
    assert refuted(VARIANTS[name]) is None


@pytest.mark.parametrize("name", ["insert-frees-last", "insert-frees-last-of-window"])
def test_same_figures_with_other_pages_are_not_the_same_steps(name: str) -> None:
    transition = WRONG[name].spec.transitions["T-INSERT"]
    assert not Comparison(Mutant(name, transition), 4).reason()


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("T-SAVE/instead/slot.C.0:req.A", "INV-COVER-STEP.computes"),
        ("T-LAUNCH/drop-effect/req.rounds", "INV-COVER.rounds"),
    ],
)
def test_one_thing_is_taken_for_another(name: str, clause: str) -> None:
    assert f"/ {clause} /" in judge(MUTANTS[name]).by


def _part(transition: Transition, conjunct: str, kept: Expr) -> Mutant:
    guard = {**transition.guard, conjunct: kept}
    return Mutant(f"{transition.id}/by-hand/{conjunct}", replace(transition, guard=guard))


@pytest.mark.parametrize(
    ("mutant", "clause"),
    [
        # A turn for a closing session.
        (_part(t.T_SUBMIT, "open", state.session.open), "INV-INFLIGHT-STEP.closes"),
        # An answer with tokens that no step reported.
        (_part(t.T_DECODE, "told", t.told >= 0), "INV-TOKENS.told"),
        # An unlock of more than the slot had locked.
        (_part(t.T_DISCARD, "u", (t.u >= 0) & is_aligned(t.u)), "INV-LOCK-STEP.falls"),
        # A cursor without a sliding window.
        (_part(t.T_SWA_ADVANCE, "swa", state.has_kv), "INV-CURSOR.no_window"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_a_reviewer_left_out_of_a_conjunction(mutant: Mutant, clause: str) -> None:
    """The operators drop whole conjuncts. These mutants drop a part of a conjunct."""
    spec = Spec({**TRANSITIONS, mutant.id: mutant.transition})
    prover = Prover(tasks(spec, mutant.id), 4)
    refuted = [
        result.clause
        for task in prover.tasks
        for result in prover.results(task)
        if result.status == "refuted"
    ]
    assert clause in refuted


@pytest.mark.exhaustive
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_no_mutant_survives(transition: str) -> None:
    """Every mutant is killed by an obligation, or proved equivalent."""
    mutants = [mutant for mutant in MUTANTS.values() if mutant.id == transition]
    assert len(mutants) > 3
    verdicts = [judge(mutant) for mutant in mutants]
    assert [verdict.mutant for verdict in verdicts if verdict.fate == "survives"] == []
    assert any(verdict.fate == "killed" for verdict in verdicts)


def test_the_table_tells_what_became_of_each() -> None:
    verdicts = [
        Verdict("T-PARK/drop-guard/running", "killed", "T-PARK / INV-PHASE.row / P=4"),
        Verdict("T-PARK/drop-guard/x", "equivalent", "same steps"),
        Verdict("T-OPEN/drop-guard/y", "survives"),
    ]
    lines = list(table(verdicts))
    assert {"| T-PARK | 2 | 1 | 1 | 0 |", "| all | 3 | 1 | 1 | 1 |", "| INV-PHASE | 1 |"} <= {
        *lines
    }
    assert lines[-1] == "survives: T-OPEN/drop-guard/y"
