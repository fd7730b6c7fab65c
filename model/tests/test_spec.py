"""The shape of the spec: all its invariants and transitions, and their variables."""

from __future__ import annotations

import ast
import inspect

import pytest

from slotproof_model.evaluation.layout import LAYOUT
from slotproof_model.spec import invariants, state, steps, transitions
from slotproof_model.spec.expr import Sort, variables
from slotproof_model.spec.invariant import Invariant, Kind
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

DESIGNED_TRANSITIONS = [
    "T-OPEN",
    "T-CLOSE",
    "T-REAP",
    "T-SUBMIT",
    "T-REJECT",
    "T-DOOM",
    "T-MATCH",
    "T-RESTORE",
    "T-REFUSE",
    "T-EXTEND",
    "T-PARK",
    "T-INSERT",
    "T-DECODE",
    "T-SAVE",
    "T-ABORT",
    "T-RETRACT",
    "T-DISCARD",
    "T-OOM",
    "T-EVICT",
    "T-SWA-ADVANCE",
    "T-PLAIN-SUBMIT",
    "T-PLAIN-FINISH",
    "T-PLAIN-ABORT",
    "T-PLAIN-RETRACT",
    "T-CLOSE-DEFER",
    "T-ABORT-WAITING",
    "T-ABORT-PARTIAL",
    "T-RETRACT-WIPE",
]
DESIGNED_INVARIANTS = {
    "state": "SUM-FULL SUM-SWA ROWS ONCE ORDER ALIGN CURSOR WINDOW COVER OWNER BACKED INFLIGHT "
    "LOCK DRAIN",
    "step": "ALIGN-STEP INFLIGHT-STEP HISTORY",
    "harness": "STEP CONTENT CHECKER ANSWER ALIVE PROGRESS",
}
MUSEUM = [
    "#22213",
    "#22753",
    "#20070",
    "#20476",
    "#22790",
    "#21875",
    "#22862",
    "#22897",
    "#22900",
    "#22273",
    "#37502",
    "#32163",
]
SORTS = {var.name: var.sort for var in state.STATE}


def test_every_transition_of_the_design_is_there() -> None:
    assert set(DESIGNED_TRANSITIONS) <= set(TRANSITIONS)


@pytest.mark.parametrize("kind", DESIGNED_INVARIANTS)
def test_every_invariant_of_the_design_is_there(kind: str) -> None:
    ids = {invariant.id for invariant in INVARIANTS.values() if invariant.kind is Kind(kind)}
    assert {f"INV-{name}" for name in DESIGNED_INVARIANTS[kind].split()} <= ids


def test_ids_are_unique() -> None:
    """No transition or invariant is hidden by another with its ID."""
    made = [value for value in vars(transitions).values() if isinstance(value, Transition)]
    assert len(made) == len(TRANSITIONS)
    stated = [
        value
        for module in (invariants, steps)
        for value in vars(module).values()
        if isinstance(value, Invariant)
    ]
    assert len(stated) == len(INVARIANTS)
    assert not set(TRANSITIONS) & set(INVARIANTS)
    assert all(key == step.id and key.startswith("T-") for key, step in TRANSITIONS.items())
    assert all(key == inv.id and key.startswith("INV-") for key, inv in INVARIANTS.items())


@pytest.mark.parametrize("id_", [*TRANSITIONS, *INVARIANTS])
def test_every_clause_has_a_sentence(id_: str) -> None:
    sentence = (TRANSITIONS.get(id_) or INVARIANTS[id_]).sentence
    assert sentence.endswith(".") and len(sentence.split()) >= 4


@pytest.mark.parametrize("id_", INVARIANTS)
def test_every_invariant_says_what_is_checked(id_: str) -> None:
    invariant = INVARIANTS[id_]
    assert invariant.conjuncts or invariant.observed
    assert not invariant.conjuncts.keys() & invariant.observed.keys()
    assert (invariant.kind is Kind.HARNESS) <= (not invariant.conjuncts)
    known = {
        *LAYOUT,
        *(f"{name}'" for name in LAYOUT),
        *(var.name for var in (*state.PAGE, *state.LINE, *state.this_step)),
    }
    for name, expr in invariant.conjuncts.items():
        assert expr.sort is Sort.BOOL, name
        assert variables(expr) <= known, name
        if invariant.kind is Kind.STATE:
            assert not any(var.endswith("'") for var in variables(expr)), name


@pytest.mark.parametrize("id_", TRANSITIONS)
def test_a_transition_writes_its_actor_and_the_pools_only(id_: str) -> None:
    """Framing: no effect writes the frame, a constant, a page or a total."""
    effect = TRANSITIONS[id_].full_effect
    writable = {var.name for var in state.STATE} - {"full.total", "swa.total", "rows.total"}
    assert effect.keys() <= writable
    assert not TRANSITIONS[id_].effect.keys() & {var.name for var in state.POOLS}
    for name, expr in effect.items():
        assert expr.sort is SORTS[name], name


@pytest.mark.parametrize("id_", TRANSITIONS)
def test_a_transition_reads_what_it_declares(id_: str) -> None:
    transition = TRANSITIONS[id_]
    declared = {var.name for var in transition.params}
    assert len(declared) == len(transition.params)
    formulas = [*transition.full_guard.values(), *transition.full_effect.values()]
    read = {var for expr in formulas for var in variables(expr)}
    used = {var for var in read if var.startswith("param.")}
    assert used <= declared
    if transition.detaches is None:
        assert used == declared, "a parameter that nothing reads"
    assert read - used <= set(LAYOUT), "no page variable, nothing primed"
    assert all(expr.sort is Sort.BOOL for expr in transition.full_guard.values())


@pytest.mark.parametrize("id_", TRANSITIONS)
def test_pools_change_only_through_memory(id_: str) -> None:
    """A transition without memory moves leaves every figure of the pools alone."""
    transition = TRANSITIONS[id_]
    pools = {name for name in transition.full_effect if name.split(".")[0] in ("full", "swa")}
    assert bool(pools) <= bool(transition.memory)


def test_history_is_written_where_a_turn_finishes_or_a_session_ends_only() -> None:
    """INV-HISTORY, by looking at the spec."""
    writers = {id_ for id_, step in TRANSITIONS.items() if "session.history" in step.effect}
    assert writers == {"T-OPEN", "T-SAVE", "T-LATE-FINISH", "T-CLOSE", "T-REAP"}


def test_what_follows_from_guard_and_effect() -> None:
    """Derived facts: the started thing, the actor, the required choices."""
    assert {id_: step.starts for id_, step in TRANSITIONS.items() if step.starts} == {
        "T-OPEN": "session",
        "T-SUBMIT": "turn",
        "T-PLAIN-SUBMIT": "request",
    }
    assert [id_ for id_, step in TRANSITIONS.items() if not step.has_actor] == ["T-EVICT"]
    assert {id_: step.choices for id_, step in TRANSITIONS.items() if step.choices} == {
        "T-DECODE": {"config.overlap": False},
        "T-LAUNCH": {"config.overlap": True},
        "T-RESULT": {"config.overlap": True},
        "T-LATE-RESULT": {"config.overlap": True, "config.retract_keeps": False},
        "T-LATE-FINISH": {"config.overlap": True, "config.retract_keeps": False},
        "T-SWA-ADVANCE": {"config.swa": True},
        "T-ABORT-PUBLISH": {"config.abort_publishes": True},
        "T-RETRACT": {"config.retract_keeps": True},
        "T-RETRACT-WIPE": {"config.retract_keeps": False},
    }


def test_museum_bugs_are_cited() -> None:
    cited = " ".join(transition.source for transition in TRANSITIONS.values())
    assert {name for name in MUSEUM if name not in cited} == set()


def test_the_spec_can_be_read_in_an_hour() -> None:
    """Transitions with the meaning of their events and their allowances, and invariants."""
    lines = 0
    for module in (transitions, invariants, steps):
        text = inspect.getsource(module)
        read = [node for node in ast.parse(text).body if not isinstance(node, ast.ImportFrom)]
        lines += len(text.splitlines()) - read[1].lineno + 1  # after the docstring
    assert lines <= 1_760
