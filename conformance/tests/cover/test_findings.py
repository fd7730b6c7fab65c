"""Identity of a finding, and recognition of findings by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, Setup, empty_snapshot
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Event
from slotproof.search.findings import Mark, lead, mark

RESTORE: list[Event] = [
    ("T-SUBMIT", "s1", "r2", {}),
    ("T-RESTORE", "s1", "r2", {}),
    ("T-EXTEND", "s1", "r2", {}),
    ("T-PLAIN-ABORT", None, "r9", {}),
]
REAL = Violation("INV-OWNER", "lost", "1 page")
NOISE = Violation("INV-ONCE", "reported", "held 1")


def iteration(events: list[Event] | None, *violations: Violation) -> Iteration:
    snapshot = empty_snapshot()
    if events is not None:
        snapshot["events"] = events
    return Iteration({"do": "step", "n": 1}, [snapshot], list(violations), judged=1)


def identity(events: list[Event] | None, *violations: Violation) -> str:
    return mark(iteration(events, *violations), violations[0]).id


def test_it_is_named_by_what_is_not_ordinary() -> None:
    assert identity(RESTORE[:3], REAL) == "INV-OWNER.lost@T-RESTORE"
    assert identity(RESTORE[2:3], REAL) == "INV-OWNER.lost@T-EXTEND"
    assert identity([("T-DECODE", "s1", "r", {}), ("T-SAVE", "s1", "r", {})], REAL).endswith(
        "@T-SAVE"
    )


def test_only_transitions_of_the_session_it_is_about_count() -> None:
    assert identity(RESTORE, REAL) == "INV-OWNER.lost@T-PLAIN-ABORT"
    assert identity(RESTORE, Violation("INV-HISTORY", "history", "", session="s1")).endswith(
        "@T-RESTORE"
    )
    assert identity(RESTORE, Violation("INV-PHASE", "row", "", rid="r9")).endswith("@T-PLAIN-ABORT")


def test_what_the_spec_does_not_allow_comes_first() -> None:
    guard = Violation("INV-STEP", "guard", "needs idle", "T-SUBMIT")
    differs = Violation("INV-STEP", "state", "1, not 2", "T-EXTEND")
    assert identity(RESTORE, REAL, differs, guard) == "INV-OWNER.lost@T-SUBMIT"
    assert identity(RESTORE, differs, guard) == "INV-STEP.state@T-EXTEND"


def test_without_transitions_it_is_the_command() -> None:
    assert identity(None, REAL) == identity([], REAL) == "INV-OWNER.lost@step"
    crash = Violation("INV-ALIVE", "crash", "KeyError: 'r17' in 3 batches")
    log = Iteration({"do": "close", "session": "s1"}, [], [crash])
    assert mark(log, crash).id == "INV-ALIVE.crash@close:KeyError-in-batches"
    assert mark(log, crash).slug == "INV-ALIVE.crash@close-KeyError-in-batches"


def test_how_a_driver_failed_is_a_field_and_no_words() -> None:
    """The fault is a field of its own. An engine's message can't imitate a failed driver."""
    words = "garbage on the wire: 7"
    for fault, name in (("garbage", "driver:garbage"), (None, "step:garbage-on-the-wire")):
        crash = Violation("INV-ALIVE", "crash", words, fault=fault)
        assert identity(None, crash) == f"INV-ALIVE.crash@{name}"
    hang = Violation("INV-ALIVE", "hang", "no answer within 1 s", fault="hang")
    assert identity(None, hang) == "INV-ALIVE.hang@driver"


def test_whom_it_was_seen_on_is_not_always_who_did_it() -> None:
    """INV-CONTENT: somebody else wrote over the KV of r1."""
    tokens = Violation("INV-CONTENT", "tokens", rid="r1")
    events: list[Event] = [("T-SAVE", "s1", "r1", {}), ("T-RETRACT", "s2", "r2", {})]
    assert identity(events, tokens).endswith("@T-RETRACT")
    assert identity(events, replace(tokens, invariant="INV-PHASE")).endswith("@T-SAVE")


@pytest.mark.parametrize(
    ("known", "seen", "same"),
    [
        (("T-RESTORE", "T-EXTEND"), ("T-RESTORE", "T-MATCH", "T-EXTEND"), True),
        (("T-SUBMIT", "T-RESTORE"), ("T-RESTORE", "T-PARK"), True),  # submitted before
        (("T-RESTORE", "T-EXTEND"), ("T-MATCH", "T-EXTEND"), False),
        (("T-MATCH", "T-EXTEND"), ("T-MATCH", "T-EXTEND", "T-SAVE"), True),
        (("T-MATCH", "T-EXTEND"), ("T-MATCH", "T-DOOM", "T-EXTEND"), False),
        (("T-SUBMIT", "T-RESTORE"), ("T-RETRACT", "T-RESTORE"), False),  # #22862: a bug of its own
        (("T-RETRACT", "T-RESTORE"), ("T-RETRACT", "T-RESTORE", "T-EXTEND"), True),
        ((), ("T-CLOSE",), True),
    ],
)
def test_a_longer_example_is_recognised(
    known: tuple[str, ...], seen: tuple[str, ...], same: bool
) -> None:
    old, new = (Mark("INV-OWNER.lost", transitions, "step") for transitions in (known, seen))
    assert old.explains(new) is same
    assert not old.explains(Mark("INV-OWNER.shared", seen, "step"))


def test_a_finding_is_named_by_more_than_the_reporting() -> None:
    """INV-SUM-FULL.reported comes first in the list, but tells nothing about the memory."""
    assert lead([NOISE, REAL]) is REAL and lead([NOISE]) is NOISE
    assert Violation("INV-CHECKER", "alarm").reporting and not REAL.reporting


def test_an_example_goes_on_with_a_clause_set_aside() -> None:
    """An example continues after an ignored clause, even within `step 3`. Later violations are
    seen."""
    asked: list[set[str]] = []

    def passes(entry: Iteration) -> bool:
        asked.append({violation.clause for violation in entry.violations})
        return True

    engine = InProcessEngine("22213-double-count")
    referee = Setup(CONFIGS["p1"]).referee(engine, passes=passes)
    turn = {"session": "s1", "tokens": [1, 2], "max_new": 3, "stop": []}
    for command in (
        {"do": "open", "session": "s1"},
        {"do": "submit", "rid": "r1", **turn},
        {"do": "step", "n": 5},
        {"do": "submit", "rid": "r2", **turn},
        {"do": "step", "n": 3},
    ):
        assert referee.do(command) == []
    assert [entry.judged for entry in referee.log] == [0, 0, 5, 0, 3]
    assert len(asked) == 1 and "INV-ONCE.reported" in asked[0]
    assert asked[0] <= referee.ignored
    assert referee.coverage.ignored["INV-ONCE.reported"] > 1
