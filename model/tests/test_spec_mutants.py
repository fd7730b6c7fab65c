"""The mutate reading: obligations kill what is wrong, and proofs say why the rest is not."""

from dataclasses import replace

import pytest

from slotproof.model import state, transitions as t
from slotproof.model.expr import Expr, is_aligned
from slotproof.model.kill import judge, judge_exhibit
from slotproof.model.museum import EXHIBITS
from slotproof.model.mutate import Mutant, systematic
from slotproof.model.obligations import Spec, tasks
from slotproof.model.prove import Prover
from slotproof.model.transition import Transition
from slotproof.model.transitions import TRANSITIONS

MUTANTS = {mutant.name: mutant for mutant in systematic()}


def test_there_are_many_and_their_names_are_their_own() -> None:
    assert len(MUTANTS) == len(list(systematic())) > 1000


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("T-RESTORE/drop-guard/window", "INV-WINDOW.turn"),
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
        ("T-SUBMIT/off-by-one/turn.prompt", "T-SUBMIT / MEANS.new"),
        ("T-EXTEND/drop-effect/turn.output", "T-EXTEND / MEANS.sampled"),
        ("T-OPEN/drop-effect/session.open", "T-OPEN / changes nothing"),
        ("T-PARK/drop-effect/turn.phase", "T-PARK / changes nothing"),
        ("T-DISCARD/drop-guard/u", "T-DISCARD / INV-ALIGN.tree"),
        ("T-ABORT-PARTIAL/drop-guard/partial", "T-ABORT-PARTIAL / INV-QUEUED-STEP.slot"),
        ("T-CLOSE-DEFER/drop-guard/busy", "T-CLOSE-DEFER / INV-INFLIGHT-STEP.defers"),
        ("T-DECODE/drop-guard/prefilled", "T-DECODE / INV-COVER-STEP.samples"),
        ("T-SAVE/drop-guard/prefilled", "T-SAVE / INV-COVER-STEP.finishes"),
        ("T-PLAIN-FINISH/drop-guard/running", "T-PLAIN-FINISH / INV-PUBLISH-STEP.plain"),
        ("T-REFUSE/branch/swa_u.1.1.1", "T-REFUSE / INV-LOCK-STEP.swa_falls"),
    ],
)
def test_what_kills_it_is_what_was_made_for_it(name: str, by: str) -> None:
    """Too strict, misnamed, idle, too lax: each kind of obligation has mutants of its own."""
    assert judge(MUTANTS[name]).by.startswith(by + " ")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        # A session that is not open has no history: resetting it changes nothing.
        ("T-OPEN/drop-effect/session.history", "same steps"),
        # A cursor that "moves" to where it is.
        ("T-SWA-ADVANCE/less-or-equal/e.0.0", "more steps, which change nothing"),
        # An abort of a request without a session is T-PLAIN-ABORT.
        ("T-ABORT/drop-guard/turn", "more steps, which other transitions allow"),
    ],
)
def test_what_can_do_no_harm_is_proved_equivalent(name: str, why: str) -> None:
    assert judge(MUTANTS[name]).by == why


@pytest.mark.parametrize("name", EXHIBITS)
def test_a_known_bug_is_killed_by_an_obligation(name: str) -> None:
    verdict = judge_exhibit(name)
    assert verdict.fate == "killed", verdict
    assert not verdict.by.startswith("INIT")


def _part(transition: Transition, conjunct: str, kept: Expr) -> Mutant:
    guard = {**transition.guard, conjunct: kept}
    return Mutant(f"{transition.id}/by-hand/{conjunct}", replace(transition, guard=guard))


@pytest.mark.parametrize(
    ("mutant", "clause"),
    [
        # A turn for a session that is closing.
        (_part(t.T_SUBMIT, "open", state.session.open), "INV-INFLIGHT-STEP.closes"),
        # A history with tokens that nobody sampled.
        (_part(t.T_SAVE, "F", t.F >= 0), "INV-HISTORY.sampled"),
        # An unlock of more than the slot had locked.
        (_part(t.T_DISCARD, "u", (t.u >= 0) & is_aligned(t.u)), "INV-LOCK-STEP.falls"),
        # A cursor without a sliding window.
        (_part(t.T_SWA_ADVANCE, "swa", state.has_kv), "INV-CURSOR.no_window"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_a_reviewer_left_out_of_a_conjunction(mutant: Mutant, clause: str) -> None:
    """The operators drop whole conjuncts; these drop a part of one."""
    spec = Spec({**TRANSITIONS, mutant.id: mutant.transition})
    prover = Prover(tasks(spec, mutant.id), 4)
    refuted = [
        each.clause
        for task in prover.tasks
        for each in prover.results(task)
        if each.status == "refuted"
    ]
    assert clause in refuted


@pytest.mark.exhaustive
@pytest.mark.parametrize("transition", TRANSITIONS)
def test_no_mutant_survives(transition: str) -> None:
    """Killed by an obligation, or proved equivalent; nothing third."""
    mine = [mutant for mutant in MUTANTS.values() if mutant.id == transition]
    assert len(mine) > 3
    verdicts = [judge(mutant) for mutant in mine]
    assert [each.mutant for each in verdicts if each.fate == "survives"] == []
    assert any(each.fate == "killed" for each in verdicts)
