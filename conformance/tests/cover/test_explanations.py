"""The single change of the spec that explains a finding, if one does."""

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
    "22862-no-free-tail": ("p1", TWO_TURNS, "T-RESTORE does not free full [⌈end⌉, ⌈slot.A⌉)"),
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
    changes = explain(after(mutant, config, commands))
    assert changes is not None and (changes[0].words, changes[0].always) == (words, True)


LONG = turn("r1", [1, 2, 3], max_new=4)
PLAIN = [command for n in "12" for command in (turn(f"r{n}", [1, 2, 3, 4], 3, None), STEP, STEP)]
NO_UNLOCK = "T-ABORT does not unlock full u; does not give back the row, one if req.row ≠ no_row"


@pytest.mark.parametrize(
    ("mutant", "commands", "words"),
    [
        ("22790b-first-turn-abort", [OPEN, LONG, STEP, {"do": "abort", "rid": "r1"}], NO_UNLOCK),
        ("leak-full", [*PLAIN, STEP], "T-EXTEND allocates full [⌈req.A⌉, ⌈t + ahead⌉) twice"),
    ],
)
def test_a_pool_that_the_engine_does_not_have_is_not_named(
    mutant: str, commands: list[Command], words: str
) -> None:
    changes = explain(after(mutant, "p1", [*commands, STEP]))
    assert changes is not None
    assert words in {change.words for change in changes}
    assert "swa" not in " ".join(map(str, changes))


def test_an_engine_that_conforms_needs_no_explanation() -> None:
    assert explain(after(None, "p1", TWO_TURNS)) is None


def test_what_is_only_reported_wrongly_is_no_step() -> None:
    """#22213: the engine reaches the spec's state. Only its own check adds up other figures."""
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
    """The bug shows once. A change contradicted by earlier iterations is marked."""
    config, commands, words = EXPLAINED["22862-no-free-tail"]
    right, wrong = after(None, config, commands), after("22862-no-free-tail", config, commands)
    again = [turn("r3", []), STEP]
    once = after(None, config, [*commands, *again])
    once.log[-1].snapshots[:] = _leaks(once.log[-1].snapshots)
    changes = explain(once)
    assert right.log[-1].violations == [] and wrong.log[-1].violations
    assert changes and words not in {change.words for change in changes if change.always}
    assert str(Explanation("T-SAVE", "x", always=False)) == "x, this time"


def _leaks(snapshots: list[Any]) -> list[Any]:
    """Take a page off the free list without giving it to an owner."""
    for snapshot in snapshots:
        full = snapshot["pools"]["full"]
        full["available"] -= 1
        full["free"] = full["free"][1:]
    return snapshots


@pytest.mark.parametrize("id_", TRANSITIONS)
def test_every_deviation_is_said(id_: str) -> None:
    """A deviation names its transition, and uses only parameters of the event."""
    changes = deviations(id_).values()
    assert all(change.words.strip() and id_ in change.words for change in changes)
    assert all(knows(change.transition) for change in changes)
    assert sum(len(change.words) <= READABLE for change in changes) >= 10
