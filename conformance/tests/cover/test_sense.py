"""The cause of an error: a contradictory snapshot is a finding about the engine, in words. An
exception while a valid snapshot is judged is a bug in slotproof."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.process import ProcessEngine
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.oracles import ORACLES
from slotproof.lockstep.referee import Setup
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot, nonsense
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof.support import bounds
from slotproof.traces.record import rows_of
from tests.turns import OPEN, STEP, turn

SUBMIT = turn("r1", 3, 2)
PLAN = Plan({"p1": CONFIGS["p1"]}, examples=20)
Edit = Callable[[Any], object]


class Odd(InProcessEngine):
    """The reference engine with an edit of its snapshots."""

    def __init__(self, edit: Edit, events: bool = True) -> None:
        super().__init__()
        self.edit, self.events = edit, events

    def do(self, command: Command) -> list[Snapshot]:
        shown = copy.deepcopy(super().do(command))
        for snapshot in shown:
            if not self.events:
                del snapshot["events"]
            self.edit(snapshot)
        return shown


def messages(*said: dict[str, object]) -> Edit:
    return lambda snapshot: snapshot["messages"].extend(said)


ODD_REQUEST: dict[str, Any] = {
    "session": "s1",
    "kind": "stub",
    "phase": "running",
    "in_last": True,
    "in_running": True,
    "loan": "s1",
    "row": 99,
    "C": 1,
    "A": 1,
    "Q": 0,
    "E": 0,
    "locks": 1,
    "prompt": 1,
    "hash": None,
    "output": 1,
}


NONSENSE: dict[str, tuple[Edit, str]] = {
    "rows without number": (
        lambda snapshot: snapshot["rows"].update(total=4_000_000_000),
        f"rows/total is 4000000000, more than {bounds.ROWS_SHOWN}",
    ),
    "more owners than anyone can look at": (
        lambda snapshot: (
            snapshot["rows"]["used"].update({"0": {"full": [0] * 200_000}}),
            snapshot["requests"].update(
                {f"q{number}": {**ODD_REQUEST, "row": 0, "A": 10**6} for number in range(11)}
            ),
        ),
        "slots and requests describe 2200000 positions, more than 2000000",
    ),
    "a window and no pool for it": (
        lambda snapshot: snapshot["pools"].pop("swa"),
        "the configuration has a sliding window, but the pool “swa” is missing",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_a_finding_in_words(name: str) -> None:
    """INV-ALIVE.crash: the snapshot fits the schema, and no trace, oracle or replay fails on it."""
    edit, text = NONSENSE[name]
    referee = Setup(CONFIGS["p1-swa"]).referee(Odd(edit))
    assert referee.do(OPEN) == []
    (violation,) = referee.do(STEP)
    assert violation.clause == "INV-ALIVE.crash"
    assert violation.detail == f"the snapshot is invalid: {text}"
    assert SNAPSHOTS.misfit({"snapshots": referee.log[-1].snapshots}) is None
    assert len(rows_of(referee.log)) == 2


ODD: dict[str, Edit] = {
    "slots of sessions there are not": lambda s: s["slots"].update(
        s9={"row": 1, "C": 1, "A": 1, "Q": 0, "E": 0, "lent": None, "locks": 0}
    ),
    "a loan of a session there is not": lambda s: [
        request.update(loan="s9") for request in s["requests"].values()
    ],
    "a turn of no session": lambda s: [
        request.update(session=None, kind="turn") for request in s["requests"].values()
    ],
    "rows that no list shows": lambda s: s["rows"].update(used={}, free=[]),
    "rows below nothing": lambda s: [
        request.update(row=-9, C=-5, A=-7, Q=-3, E=-2) for request in s["requests"].values()
    ],
    "lengths beyond everything": lambda s: [
        request.update(dict.fromkeys("CAQE", bounds.INTEGER)) for request in s["requests"].values()
    ],
    "no tree": lambda s: s["tree"].clear(),
    "no figures in the check": lambda s: s["checker"]["pools"].clear(),
    "events of nobody": lambda s: (
        "events" in s
        and s["events"].extend([["T-SAVE", None, None, {}], ["T-EXTEND", "s9", "r9", {"t": 1}]])
    ),
    "parameters nobody knows": lambda s: (
        "events" in s and s["events"].append(["T-OPEN", "s1", None, {"huge": 2**53 - 1, "C": -1}])
    ),
    "an answer that nobody waits for": messages(
        {"type": "finish", "rid": "r77", "reason": "other", "tokens": [1] * 99}
    ),
    "a session of no name": messages({"type": "opened", "session": None}),
    "more than was sent": lambda s: s.update(consumed=2**40),
    "a pool of nothing": lambda s: s["pools"]["full"].update(total=0, free=[]),
    "a request called like a slot": lambda s: s["requests"].update(
        {"slot of s1": copy.deepcopy(next(iter(s["requests"].values()), None)) or ODD_REQUEST}
    ),
    "contents of no row": lambda s: s.update(content={"x": [[1, 1]], "-1": []}),
    "an end of a stranger": lambda s: s["ended"].append({"rid": "r77"}),
}


@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("config", ["p1", "p4-swa"])
@pytest.mark.parametrize("name", ODD)
def test_whatever_fits_the_schema_can_be_judged(name: str, config: str, events: bool) -> None:
    """No oracle raises, and no trace made from the snapshot fails."""
    referee = Setup(CONFIGS[config]).referee(Odd(ODD[name], events))
    for command in (OPEN, STEP, SUBMIT, STEP, STEP, {"do": "close", "session": "s1"}, STEP):
        if referee.do(command):
            break
        for snapshot in referee.log[-1].snapshots:
            assert SNAPSHOTS.misfit({"snapshots": [snapshot]}) is None
            assert nonsense(snapshot, CONFIGS[config]) is None
    assert len(rows_of(referee.log)) == len(referee.log)


# Fault of the engine or of slotproof --------------------------------------------


def slip(_: object) -> Any:
    raise KeyError("row")


@pytest.mark.parametrize("distinct", [4, None])
@pytest.mark.parametrize("name", ["reference", "someone else's engine"])
def test_our_own_error_is_not_the_engines_crash(
    distinct: int | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under any engine name, and not hidden by Hypothesis."""
    monkeypatch.setattr(InProcessEngine, "name", name)
    monkeypatch.setattr("slotproof.lockstep.referee.ORACLES", {**ORACLES, "slip": slip})
    seen = {**ORACLES, "slip": slip}
    plan = Plan({"p1": CONFIGS["p1"]}, examples=20, oracles=seen, distinct=distinct)
    with pytest.raises(KeyError, match="row"):
        campaign.run(InProcessEngine(), "x", plan)


class Strange(InProcessEngine):
    """A user's engine in this process."""

    wrong = ""

    def do(self, command: Command) -> list[Any]:
        if command["do"] != "step":
            return super().do(command)
        if self.wrong == "raises":
            raise ZeroDivisionError("by the engine")
        if self.wrong == "exits":
            sys.exit(0)
        if self.wrong == "nothing":
            return []
        if self.wrong == "unwritable":
            return [object()]
        return [{"iter": 1}] if self.wrong == "incomplete" else super().do(command)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ("raises", "ZeroDivisionError: by the engine"),
        ("exits", "SystemExit: 0"),
        ("nothing", "the engine's answer is invalid: 0 snapshots after step, not 1"),
        ("unwritable", "the engine's answer is invalid: Object of type object is not JSON"),
        ("incomplete", "the engine's answer is invalid: snapshots/0/"),
    ],
)
def test_an_engine_in_this_process_is_believed_no_more_than_a_driver(
    wrong: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``module:factory``: exceptions and bad snapshots count as faults of the engine."""
    monkeypatch.setattr(Strange, "wrong", wrong)
    monkeypatch.setitem(sys.modules, "strange", sys.modules[__name__])
    engine = EngineSpec("strange:Strange").open()
    (violation,) = Setup(CONFIGS["p1"]).referee(engine).do(STEP)
    assert violation.clause == "INV-ALIVE.crash" and violation.detail.startswith(text)
    monkeypatch.setattr(Strange, "wrong", "")
    assert Setup(CONFIGS["p1"]).referee(engine).do(STEP) == []
    monkeypatch.setattr(Strange, "close", slip)
    engine.close()


# One finding per kind -----------------------------------------------------------


class Babbling(InProcessEngine):
    """An engine that fails with a different text each time."""

    count = 0
    how, fault = "garbage on the wire: b'{}'", "garbage"

    def do(self, command: Command) -> list[Snapshot]:
        Babbling.count += 1
        if Babbling.count % 7 == 0:
            raise EngineFailed("crash", self.how.format(Babbling.count), fault=self.fault)
        return super().do(command)


@pytest.mark.parametrize(
    ("how", "fault"), [(Babbling.how, Babbling.fault), ("the driver was ended by SIG{}", "death")]
)
def test_a_driver_that_fails_differently_each_time_is_one_finding(
    how: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a shared identity, one fault of a driver gave twelve traces."""
    monkeypatch.setattr(Babbling, "how", how)
    monkeypatch.setattr(Babbling, "fault", fault)
    unlimited = campaign.run(Babbling(), "x", replace(PLAN, distinct=None))
    assert [finding.id for finding in unlimited.findings] == [f"INV-ALIVE.crash@driver:{fault}"]
    outcome = campaign.run(Babbling(), "x", PLAN)
    assert len(outcome.findings) == 1


# Capabilities of a driver, and their use ----------------------------------------

DRIVER = """
import json, sys
shown = {{"tree": {{"full": []}}, "rows": {{"total": 4, "free": [0, 1, 2, 3], "used": {{}}}},
         "sessions": {{}}, "slots": {{}}, "requests": {{}}, "messages": [],
         "consumed": 0,
         "pools": {{"full": {{"total": 64, "available": 64, "evictable": 0, "protected": 0,
                            "free": list(range(64))}}}},
         "checker": {{"ran": False, "level": 0, "pools": {{}}, "verdict": "off", "message": ""}}}}
offered = {{"commands": ["open", "submit", "abort", "close", "step", "tick"], "pools": ["full"],
           "page_sizes": [1]}}
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    result = {{}}
    if asked["op"] == "hello":
        result = {{"protocol": 2, "engine": {{"name": "idle", "version": "1"}},
                  "capabilities": {{**offered, **{more}}}}}
    elif asked["op"] == "do":
        done = asked["command"].get("n", 0)
        result = {{"snapshots": [{{**shown, "iter": count + i + 1}} for i in range(done)]}}
        count += done
        if asked["command"]["do"] == "tick":
            result = {{"snapshots": [{{**shown, "iter": count}}]}}
    elif asked["op"] == "reset":
        count = 0
    print(json.dumps({{"id": asked["id"], "ok": True, "result": result}}), flush=True)
"""


def idle(more: dict[str, Any]) -> ProcessEngine:
    return ProcessEngine([sys.executable, "-c", DRIVER.format(more=more)], 30.0)


def test_nobody_reads_what_was_not_sent() -> None:
    """INV-ALIVE: `consumed` counts one iteration. A running total is caught in the second."""
    total = 0

    def adds_up(snapshot: Any) -> None:
        nonlocal total
        total = snapshot["consumed"] = total + snapshot["consumed"]

    referee = Setup(CONFIGS["p1"]).referee(Odd(adds_up))
    assert not referee.do({"do": "open", "session": "s1"}) and not referee.do(STEP)
    (said,) = referee.do(STEP)
    assert said.fault == "nonsense"
    assert "consumed is 1, but only 0 unread commands were sent" in said.detail


def test_an_engine_that_reads_nothing_does_not_conform() -> None:
    """INV-PROGRESS.stalled: the engine drops every command, and its snapshots are in order."""
    engine = idle({})
    try:
        outcome = campaign.run(engine, "cmd:", Plan({"p1": CONFIGS["p1"]}, examples=20, shrink=30))
    finally:
        engine.close()
    assert outcome.trace is not None
    assert outcome.trace.violations[0].clause == "INV-PROGRESS.stalled"
    assert "commands wait in the inbox" in outcome.trace.violations[0].detail


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"events": True}, "the engine reports events, but names no transitions"),
        ({"transitions": ["T-NOPE"]}, "there is no transition 'T-NOPE'"),
        ({"commands": ["step"]}, "it lacks “abort”, a command that every engine needs"),
    ],
)
def test_an_offer_that_would_be_judged_by_nothing_is_refused(more: Any, text: str) -> None:
    with pytest.raises(EngineUnusable, match=text):
        idle(more)


def test_an_engine_that_refuses_after_a_finding_hides_nothing() -> None:
    """A finding from before the refusal is the verdict."""
    findings: list[object] = []

    class Refusing(InProcessEngine):
        def do(self, command: Command) -> list[Snapshot]:
            if len(findings) and command["do"] == "open":
                raise EngineUnusable("refuses a legal command")
            return super().do(command)

    engine = Refusing("22862-no-free-tail")
    plan = Plan({"p1": CONFIGS["p1"]}, examples=200, distinct=None)
    outcome = campaign.run(engine, "x", plan, keep=findings.append)
    assert outcome.findings and outcome.unusable == "refuses a legal command"
