"""No oracle is idle: each catches a bug that all others together do not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep import oracles
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.search import campaign
from slotproof.search.plan import Plan

pytestmark = pytest.mark.quality

ALONE = {
    "checker": ("21499-one-pool-check", "p1-swa"),
    "contract": ("abort-unasked", "p1"),
    "sessions": ("session-silent-close", "p1"),
    "limits": ("limit-one-more", "p1-one"),
    "operators": ("retract-unheard", "p1"),
    "matches": ("prefix-last-token-twice", "p1"),
}
"""A mutant of the engine that the oracle alone catches, and a configuration."""


class Liar(InProcessEngine):
    """The reference engine, with snapshots that are changed before they are seen."""

    def __init__(self, change: Callable[[Any], None]) -> None:
        super().__init__()
        self.change = change

    def do(self, command: Command) -> list[Snapshot]:
        try:
            snapshots = super().do(command)
        except EngineFailed as failure:  # no bug of the engine is wanted here
            raise AssertionError from failure
        for snapshot in snapshots:
            self.change(snapshot)
        return snapshots


def _shared(s: Any) -> None:
    """A page with two owners, and another with none: every count is right."""
    free = s["pools"]["full"]["free"]
    if s["tree"]["full"] and free:
        free[0] = s["tree"]["full"][0][0]


def _locked_twice(s: Any) -> None:
    tree = s["tree"]["full"]
    s["tree"]["full"] = [(page, 2 * locks) for page, locks in tree]


def _row_twice(s: Any) -> None:
    free = s["rows"]["free"]
    if len(free) > 1:
        free[0] = free[1]


def _history(s: Any) -> None:
    for session in s["sessions"].values():
        session["hash"] ^= 1


def _content(s: Any) -> None:
    for stamps in s.get("content", {}).values():
        if len(stamps) > 1:
            stamps[1] = (stamps[1][0] + 1, 1)


def _event(s: Any) -> None:
    """An eviction of nothing by a transition that is not enabled: no figure differs."""
    s["events"] = [*s["events"], ("T-NAP", None, None, {})]


def _twice(s: Any) -> None:
    answers = [each for each in s["messages"] if each["type"] == "finish"]
    aborts = [each for each in answers if each["reason"] == "abort"]
    s["messages"] = [*s["messages"], *aborts]


def _check_missing(s: Any) -> None:
    s["checker"]["ran"] = False


def _never_given_out(s: Any) -> None:
    """What an engine with a queue of its free pages shows, but for the last one."""
    unlocked = [page for page, locks in s["tree"]["full"] if not locks]
    s["reusable"] = {"full": [*s["pools"]["full"]["free"], *unlocked][:-1]}


def _wrong_key(s: Any) -> None:
    """What an engine with a hash map shows: each page is found by the key of another."""
    keys = [(page, page) for page, _ in s["tree"]["full"]]
    s["lookup"] = {"full": {"finds": keys, "holds": [(key + 1, page) for key, page in keys]}}


def _entry_stays(s: Any) -> None:
    s["tables"] = {"requests": [*s["requests"], "r0"]}


LIES: dict[str, Callable[[Any], None]] = {
    "pages": _shared,
    "locks": _locked_twice,
    "rows": _row_twice,
    "history": _history,
    "content": _content,
    "lockstep": _event,
    "answers": _twice,
    "checker": _check_missing,
    "reuse": _never_given_out,
    "lookup": _wrong_key,
    "tables": _entry_stays,
}


def finds(engine: InProcessEngine, config: str, names: list[str]) -> bool:
    """Whether these oracles find anything."""
    chosen = {name: oracles.ORACLES[name] for name in names}
    plan = Plan({config: CONFIGS[config]}, examples=20, shrink=0, oracles=chosen)
    return campaign.run(engine, "x", plan).trace is not None


@pytest.mark.parametrize("oracle", LIES)
def test_only_this_oracle_sees_the_lie(oracle: str) -> None:
    others = [name for name in oracles.ORACLES if name != oracle]
    assert not finds(Liar(LIES[oracle]), "p4", others)
    assert finds(Liar(LIES[oracle]), "p4", [oracle])


@pytest.mark.parametrize("oracle", ALONE)
def test_only_this_oracle_sees_the_mutant(oracle: str) -> None:
    mutant, config = ALONE[oracle]
    others = [name for name in oracles.ORACLES if name != oracle]
    assert not finds(InProcessEngine(mutant), config, others)
    assert finds(InProcessEngine(mutant), config, [oracle])


def test_the_counts_oracle_alone_sees_a_wrong_state_at_the_start() -> None:
    """INV-SUM-FULL, without events and a check to go by: nothing else adds up."""

    def change(s: Any) -> None:
        s.pop("events")
        s["checker"]["ran"] = False
        s["checker"]["level"] = 0
        s["pools"]["full"]["evictable"] += 4

    others = [name for name in oracles.ORACLES if name != "counts"]
    assert not finds(Liar(change), "p4", others)
    assert finds(Liar(change), "p4", ["counts"])


def test_the_progress_oracle_alone_sees_a_stall() -> None:
    """INV-PROGRESS: an engine that is paused and does not say so."""

    class Lazy(InProcessEngine):
        def do(self, command: Command) -> list[Snapshot]:
            if command["do"] == "step" and not self.engine.inbox:
                self.engine.scheduler.paused = True
            return super().do(command)

    others = [name for name in oracles.ORACLES if name != "progress"]
    assert not finds(Lazy(), "p1", others)
    assert finds(Lazy(), "p1", ["progress"])


def test_every_oracle_has_such_a_bug() -> None:
    assert {*LIES, *ALONE, "counts", "progress"} == set(oracles.ORACLES)
