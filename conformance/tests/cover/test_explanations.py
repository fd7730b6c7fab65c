"""Which single change of the spec explains a finding; and where there is none, it says so."""

from __future__ import annotations

from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.explanations import Explanation, explain
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof_model.bugs.deviations import READABLE, deviations
from slotproof_model.bugs.mutate import knows
from slotproof_model.spec.transitions import TRANSITIONS
from tests.turns import OPEN, STEP, turn

TWO_TURNS = [OPEN, turn("r1", [1, 2]), STEP, turn("r2", []), STEP]
EXPLAINED = {
    "22862-no-free-tail": ("p1", TWO_TURNS, "T-RESTORE does not free full [⌈m⌉, ⌈slot.A⌉)"),
    "20070-unaligned-protected": (
        "p1",
        [OPEN, turn("r1", [1, 2, 3]), STEP, turn("r2", [4]), STEP],
        "T-RESTORE sets req.Q to slot.C, not to slot.Q",
    ),
}


def after(mutant: str | None, config: str, commands: list[Command]) -> Referee:
    return play(InProcessEngine(mutant), Setup(CONFIGS[config]), commands)


@pytest.mark.parametrize("mutant", EXPLAINED)
def test_the_change_that_is_the_bug_comes_first(mutant: str) -> None:
    config, commands, words = EXPLAINED[mutant]
    found = explain(after(mutant, config, commands))
    assert found is not None and (found[0].words, found[0].always) == (words, True)


LONG = turn("r1", [1, 2, 3], max_new=4)
PLAIN = [each for n in "12" for each in (turn(f"r{n}", [1, 2, 3, 4], 3, None), STEP, STEP)]
NO_UNLOCK = "T-ABORT does not unlock full u; does not give back the row, one if req.row ≠ no_row"


@pytest.mark.parametrize(
    ("mutant", "commands", "words"),
    [
        ("22790b-first-turn-abort", [OPEN, LONG, STEP, {"do": "abort", "rid": "r1"}], NO_UNLOCK),
        ("leak-full", [*PLAIN, STEP], "T-EXTEND allocates full [⌈req.A⌉, ⌈t⌉) twice"),
    ],
)
def test_a_pool_that_the_engine_does_not_have_is_not_named(
    mutant: str, commands: list[Command], words: str
) -> None:
    found = explain(after(mutant, "p1", [*commands, STEP]))
    assert found is not None
    assert words in {each.words for each in found}
    assert "swa" not in " ".join(map(str, found))


def test_an_engine_that_conforms_needs_no_explanation() -> None:
    assert explain(after(None, "p1", TWO_TURNS)) is None


def test_what_is_only_reported_wrongly_is_no_step() -> None:
    """#22213: the spec ends where the engine is; its check adds up other figures."""
    commands = [OPEN, turn("r1", [1]), STEP, turn("r2", [2], max_new=2), STEP]
    referee = after("22213-double-count", "p1", commands)
    assert referee.log[-1].violations and explain(referee) is None


def test_a_bug_of_several_places_is_said_to_be_one() -> None:
    """A page is gone, and the history has grown: no single change does both."""
    referee = after(None, "p1", TWO_TURNS)
    (snapshot,) = _leaks(referee.log[-1].snapshots)
    snapshot["sessions"]["s1"]["history"] += 5
    assert explain(referee) == ()


def test_an_engine_that_tells_no_events_is_not_explained() -> None:
    referee = after("22862-no-free-tail", "p1", TWO_TURNS)
    for entry in referee.log:
        for snapshot in entry.snapshots:
            snapshot.pop("events", None)
    assert explain(referee) is None


def test_a_change_that_earlier_iterations_contradict_comes_last() -> None:
    """The bug shows once: what would have shown before is marked."""
    config, commands, words = EXPLAINED["22862-no-free-tail"]
    right, wrong = after(None, config, commands), after("22862-no-free-tail", config, commands)
    again = [turn("r3", []), STEP]
    once = after(None, config, [*commands, *again])
    once.log[-1].snapshots[:] = _leaks(once.log[-1].snapshots)
    found = explain(once)
    assert right.log[-1].violations == [] and wrong.log[-1].violations
    assert found and words not in {each.words for each in found if each.always}
    assert str(Explanation("T-SAVE", "x", always=False)) == "x, this time"


def _leaks(snapshots: list[Any]) -> list[Any]:
    """A page less is free, and nobody has it."""
    for snapshot in snapshots:
        full = snapshot["pools"]["full"]
        full["available"] -= 1
        full["free"] = full["free"][1:]
    return snapshots


@pytest.mark.parametrize("id_", TRANSITIONS)
def test_every_deviation_is_said(id_: str) -> None:
    """It names what it is about, and speaks of parameters that the event has."""
    found = deviations(id_).values()
    assert all(each.words.strip() and id_ in each.words for each in found)
    assert all(knows(each.transition) for each in found)
    assert sum(len(each.words) <= READABLE for each in found) >= 10
