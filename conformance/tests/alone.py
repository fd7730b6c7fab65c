"""A bug for each oracle, missed by every other oracle.

A bug is a mutant, or the reference engine with falsified snapshots. ``make mutant-table`` writes
the table to ``docs/reference/mutants/oracles.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.commands import Command
from slotproof.protocol.snapshot import Snapshot
from slotproof_engine.mutants import MUTANTS


@dataclass(frozen=True)
class OnlyBug:
    """A bug, with a configuration in which a run finds it."""

    engine: Callable[[], InProcessEngine]
    sentence: str
    config: str = "p4"
    mutant: str = ""


class Liar(InProcessEngine):
    """The reference engine, with snapshots falsified before the oracles see them."""

    def __init__(self, change: Callable[[Any], None]) -> None:
        super().__init__()
        self.change = change

    def do(self, command: Command) -> list[Snapshot]:
        snapshots = super().do(command)
        for snapshot in snapshots:
            self.change(snapshot)
        return snapshots


class Lazy(InProcessEngine):
    def do(self, command: Command) -> list[Snapshot]:
        if command["do"] == "step" and not self.engine.inbox:
            self.engine.scheduler.paused = True
        return super().do(command)


ALONE: dict[str, OnlyBug] = {
    "progress": OnlyBug(Lazy, "the engine pauses without reporting the pause", "p1")
}
"""By oracle."""


def lie(oracle: str, sentence: str) -> Callable[[Callable[[Any], None]], None]:
    """Register a change of snapshots as the bug caught by this oracle alone."""

    def keep(change: Callable[[Any], None]) -> None:
        ALONE[oracle] = OnlyBug(partial(Liar, change), sentence)

    return keep


for _oracle, _mutant, _config in (
    ("checker", "21499-one-pool-check", "p1-swa"),
    ("contract", "abort-unasked", "p1"),
    ("sessions", "session-silent-close", "p1"),
    ("limits", "limit-one-more", "p1-one"),
    ("operators", "retract-unheard", "p1"),
    ("matches", "prefix-last-token-twice", "p1"),
    ("economy", "cursor-stays", "p1-swa"),
):
    _engine = partial(InProcessEngine, _mutant)
    ALONE[_oracle] = OnlyBug(_engine, MUTANTS[_mutant].sentence, _config, _mutant)


@lie("pages", "one page has two owners and another has none, so every count is right")
def _(s: Any) -> None:
    free = s["pools"]["full"]["free"]
    if s["tree"]["full"] and free:
        free[0] = s["tree"]["full"][0][0]


@lie("locks", "every lock of the tree is counted twice")
def _(s: Any) -> None:
    s["tree"]["full"] = [(page, 2 * locks) for page, locks in s["tree"]["full"]]


@lie("rows", "a free row is listed twice and another is missing")
def _(s: Any) -> None:
    free = s["rows"]["free"]
    if len(free) > 1:
        free[0] = free[1]


@lie("history", "a session's history has another token")
def _(s: Any) -> None:
    for session in s["sessions"].values():
        session["hash"] ^= 1


@lie("content", "the second position of a row has the KV of another token")
def _(s: Any) -> None:
    for stamps in s.get("content", {}).values():
        if len(stamps) > 1:
            stamps[1] = (stamps[1][0] + 1, 1)


@lie("lockstep", "an event names a transition missing from the spec")
def _(s: Any) -> None:
    s["events"] = [*s["events"], ("T-NAP", None, None, {})]


@lie("answers", "an aborted request is answered twice")
def _(s: Any) -> None:
    answers = [answer for answer in s["messages"] if answer["type"] == "finish"]
    s["messages"] = [*s["messages"], *(answer for answer in answers if answer["reason"] == "abort")]


@lie("counts", "the figure for evictable KV is too large, and no event or check contradicts it")
def _(s: Any) -> None:
    s.pop("events")
    s["checker"].update(ran=False, level=0)
    s["pools"]["full"]["evictable"] += 4


@lie("reuse", "the queue of reusable pages lacks its last page")
def _(s: Any) -> None:
    unlocked = [page for page, locks in s["tree"]["full"] if not locks]
    s["reusable"] = {"full": [*s["pools"]["full"]["free"], *unlocked][:-1]}


@lie("lookup", "the hash map finds every page by another page's key")
def _(s: Any) -> None:
    keys = [(page, page) for page, _ in s["tree"]["full"]]
    s["lookup"] = {"full": {"finds": keys, "holds": [(key + 1, page) for key, page in keys]}}


@lie("tables", "the table of requests holds an ended request")
def _(s: Any) -> None:
    s["tables"] = {"requests": [*s["requests"], "r0"]}


def page() -> str:
    """Return the table of all oracles, in Markdown."""
    lines = [
        "# Bugs that each oracle finds on its own",
        "",
        "A run without the oracle misses its bug. A run with only this oracle finds it.",
        "A bug is a [mutant](matrix.md) of the reference engine, or the reference engine with",
        "snapshots falsified before the oracles see them.",
        "",
        "| oracle | bug | mutant | configuration |",
        "|---|---|---|---|",
        *(
            f"| {oracle} | {bug.sentence} | {bug.mutant or 'falsified snapshots'} | {bug.config} |"
            for oracle, bug in sorted(ALONE.items())
        ),
    ]
    return "\n".join(lines) + "\n"
