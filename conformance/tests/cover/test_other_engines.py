"""Legal variants of other engines (ADR 13), run by the reference engine. A variant with transitions
conforms. A variant without is judged without events, and is no bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof_engine.requests.req import Phase, Req
from tests.turns import CLOSE, OPEN, steps

Change = Callable[[Any], None]
"""A change that makes an engine do one thing differently."""

RETRACT: Command = {"do": "retract"}


def turn(rid: str, length: int, new: int, session: str | None = "s1") -> Command:
    said = [10 * int(rid[1:]) + position for position in range(length)]
    fields = {"session": session, "rid": rid, "tokens": said, "max_new": new, "stop": []}
    return {"do": "submit", **fields}


class Other(InProcessEngine):
    """The reference engine with one change."""

    def __init__(self, change: Change, events: bool = True) -> None:
        super().__init__()
        self.change, self.tells = change, events
        self.capabilities = replace(self.capabilities, events=events)

    def reset(self, config: EngineConfig, seed: int) -> None:
        super().reset(config, seed)
        self.change(self.engine)

    def _snapshot(self) -> Snapshot:
        snapshot = super()._snapshot()
        if not self.tells:
            del snapshot["events"]
        return snapshot


def keeps_at_abort(engine: Any) -> None:
    """Leave the slot of an aborted turn, cut to the history."""
    cache, abort = engine.cache, engine.cache.abort_req

    def keeping(req: Req, *, out_of_memory: bool = False) -> None:
        if req.session is not None and req.phase is Phase.RUNNING and not out_of_memory:
            cache.retract_req(req)
        abort(req, out_of_memory=out_of_memory)

    cache.abort_req = keeping


def sends_away(engine: Any) -> None:
    """Hold a finished request's pages for three iterations, then answer it."""
    scheduler = engine.scheduler
    finish, run, abort = scheduler._finish_if_done, scheduler.step, scheduler.abort
    left: dict[Req, int] = {}

    def later(req: Req) -> None:
        if req.finished_len() is not None:
            scheduler._remove(req)
            left[req] = 3

    def stepping() -> None:
        for req in list(left):
            scheduler.running_batch.remove(req)  # a finished request leaves the batch
            if not left[req]:
                del left[req]
                finish(req)
        run()
        for req in left:
            left[req] -= 1
            scheduler.running_batch.reqs.append(req)

    def aborting(req: Req, message: str, **more: Any) -> None:
        left.pop(req, None)
        abort(req, message, **more)

    scheduler._finish_if_done, scheduler.step, scheduler.abort = later, stepping, aborting


def publishes_at_discard(engine: Any) -> None:
    """Publish the whole pages of a discarded slot to the tree."""
    cache, discard = engine.cache, engine.cache.discard

    def publishing(sid: str) -> None:
        slot, history = cache.slots[sid], engine.controller.sessions[sid].history
        upto = cache.kv.floor_page(min(slot.kv_committed_len, len(history)))
        if upto > slot.cache_protected_len:
            slot.fill_ids = history
            cache.kv.insert(slot, upto)
            slot.cache_protected_len = upto
        discard(sid)

    cache.discard = publishing


def trims_at_retract(engine: Any) -> None:
    """Hold all KV of a retracted turn except the last position."""
    cache, retract = engine.cache, engine.cache.retract_req

    def trimming(req: Req) -> None:
        session = req.session
        retract(req)
        if session is not None:
            slot = cache.slots[session.session_id]
            cache.kv.cut(slot, max(slot.cache_protected_len, slot.kv_committed_len - 1))

    cache.retract_req = trimming


IN_WORDS: dict[str, tuple[Change, list[Command], str]] = {
    "keeps the slot at an abort": (
        keeps_at_abort,
        [
            OPEN,
            turn("r1", 6, 3),
            steps(5),
            turn("r2", 4, 6),
            steps(2),
            {"do": "abort", "rid": "r2"},
        ],
        "T-ABORT-PARTIAL",
    ),
    "sends pages away": (sends_away, [turn("r1", 6, 2, None), steps(5)], "T-PLAIN-FINISH"),
}
WITHOUT_WORDS: dict[str, tuple[Change, str, list[Command], str]] = {
    "publishes at a discard": (
        publishes_at_discard,
        "p1-tight",
        [OPEN, turn("r1", 8, 2), steps(3), turn("r2", 14, 2, None), steps(2)],
        "T-DISCARD",
    ),
    "trims at a retract": (
        trims_at_retract,
        "p4",
        [OPEN, turn("r1", 6, 6), steps(3), RETRACT, steps(2)],
        "T-RETRACT",
    ),
}
REST = [steps(), turn("r3", 2, 2), steps(8), CLOSE, steps(2)]


def run(engine: Other, config: str, commands: list[Command]) -> Referee:
    return play(engine, Setup(CONFIGS[config]), [*commands, *REST])


@pytest.mark.parametrize("what", IN_WORDS)
def test_what_can_be_said_conforms(what: str) -> None:
    change, commands, told = IN_WORDS[what]
    log = run(Other(change), "p4", commands).log
    assert [str(violation) for violation in log[-1].violations] == []
    assert told in {
        event[0] for iteration in log for seen in iteration.snapshots for event in seen["events"]
    }


@pytest.mark.parametrize("what", WITHOUT_WORDS)
def test_what_has_no_word_is_not_what_was_said_and_no_bug_without_events(what: str) -> None:
    """INV-STEP.state: the engine did something else than its events state."""
    change, config, commands, told = WITHOUT_WORDS[what]
    log = run(Other(change), config, commands).log
    assert {violation.clause for violation in log[-1].violations} == {"INV-STEP.state"}
    assert told in {event[0] for seen in log[-1].snapshots for event in seen["events"]}
    log = run(Other(change, events=False), config, commands).log
    assert [str(violation) for violation in log[-1].violations] == [] and len(log) == len(
        commands + REST
    )


@pytest.mark.slow
@pytest.mark.parametrize("change", [keeps_at_abort, publishes_at_discard, trims_at_retract])
def test_no_false_alarm(change: Change) -> None:
    """In a search: with events if transitions exist for the change, otherwise without."""
    configs = {name: CONFIGS[name] for name in ("p1-tight", "p4", "p4-draft")}
    engine = Other(change, events=change is keeps_at_abort)
    outcome = campaign.run(engine, "reference", Plan(configs, examples=30, seed=4))
    assert outcome.trace is None, outcome.trace and outcome.trace.violations
