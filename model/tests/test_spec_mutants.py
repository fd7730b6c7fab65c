"""The mutate reading: obligations kill what is wrong, and proofs say why the rest is not."""

import pytest

from slotproof.model.kill import judge
from slotproof.model.mutate import systematic

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


def test_a_stricter_guard_only_restricts() -> None:
    """Every step it makes is one that the spec allows; both halves are proved."""
    assert judge(MUTANTS["T-PLAIN-SUBMIT/less-or-equal/nonempty"]).fate == "restricts"


def test_what_the_invariants_already_say_is_equivalent() -> None:
    """T-OPEN: a session that is not open has no history, so resetting it changes nothing."""
    assert judge(MUTANTS["T-OPEN/drop-effect/session.history"]).fate == "equivalent"


def test_what_no_invariant_speaks_of_survives() -> None:
    """A session that never opens breaks nothing: invariants are about safety."""
    assert judge(MUTANTS["T-OPEN/drop-effect/session.open"]).fate == "survives"
