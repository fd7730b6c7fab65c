"""Proofs about something: conjuncts can be broken, guards can hold under every profile."""

from dataclasses import replace

import pytest

from slotproof_model.proofs.obligations import tasks
from slotproof_model.proofs.prove import PAGE_SIZES, Prover
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.expr import lift
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec
from tests.checks.vacuity import impossible, tautologies

KEEPS = {"reference", "overlap", "aligned", "sglang", "sglang-records"}


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_every_conjunct_can_be_broken(page_size: int) -> None:
    """At P = 1 everything is aligned: only the alignment conjuncts cannot be broken."""
    nothing = tautologies(Spec(), page_size)
    if page_size == 1:
        assert {clause.partition(".")[0] for clause in nothing} == {"INV-ALIGN", "INV-ALIGN-STEP"}
    else:
        assert nothing == []


def test_a_tautology_is_noticed() -> None:
    drain = INVARIANTS["INV-DRAIN"]
    empty = replace(drain, conjuncts={"drained": state.req.kind == state.req.kind})
    spec = Spec(invariants={**INVARIANTS, "INV-DRAIN": empty})
    assert tautologies(spec, 4) == ["INV-DRAIN.drained"]


@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_a_profile_forbids_what_it_says_and_nothing_else(page_size: int) -> None:
    expected = {
        name: [
            *(["T-LAUNCH", "T-RESULT"] if name != "overlap" else ["T-DECODE"]),
            *["T-LATE-RESULT", "T-LATE-FINISH"],
            *(["T-ABORT-PUBLISH"] if name != "sglang-records" else []),
            *(["T-RETRACT"] if name not in KEEPS else []),
            *(["T-RETRACT-WIPE"] if name in KEEPS else []),
        ]
        for name in PROFILES
    }
    assert impossible(Spec(), page_size) == expected


def test_a_guard_that_a_profile_empties_is_noticed() -> None:
    never = replace(t.T_PARK, guard={**t.T_PARK.guard, "aligned": lift(False)})
    never_enabled = impossible(Spec({**TRANSITIONS, "T-PARK": never}), 4)
    assert all("T-PARK" in names for names in never_enabled.values())


def test_a_transition_that_allows_nothing_is_noticed() -> None:
    """A missing ``allows``: no proof could show a guard that is too strict."""
    park = Transition("T-PARK", "", "the scheduler", "run", TRANSITIONS["T-PARK"].guard)
    spec = Spec(transitions={**TRANSITIONS, park.id: park})
    prover = Prover(tasks(spec, park.id), 1)
    (allowed,) = (task for task in prover.tasks if task.layer == "allowed")
    assert prover.vacuity(allowed).problem == "can never happen"
