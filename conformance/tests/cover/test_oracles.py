"""Each oracle alone: one changed figure in a real snapshot breaks the right clause. The same oracle
reports no second clause where one is expected. The unchanged snapshot breaks nothing. One long
file: a test per clause, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import getitem
from types import SimpleNamespace
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import Sent
from slotproof.lockstep.oracles import ORACLES, counts, operators
from slotproof.lockstep.oracles.progress import PATIENCE
from slotproof.lockstep.referee import Setup, play
from slotproof.lockstep.waits import CAUSES
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, SERVED, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.search.findings import Mark
from slotproof.search.report import left_out
from slotproof_model.spec.profiles import PROFILES
from tests.alone import Liar

Change = Callable[[Any], object]
SCENES: dict[str, tuple[list[str], str]] = {
    "lent": (["turn1", "r2", "step"], "p4"),
    "idle": (["turn1"], "p4"),
    "swa": (["turn1", "r2", "step", "step"], "p4-swa"),
    "waiting": (["turn1", "r2"], "p4"),
    "plain": (["p1", "step"], "p4"),
    "finish": (["turn1", "r2", "step", "step", "step"], "p4"),
    "late": (["turn1", "r2", "step", "step"], "p1-overlap"),
    "late draft": (["turn1", "r2", "step", "step"], "p1-draft-overlap"),
}
"""States by name: turn 2 runs, no turn runs, a sliding window, turn 2 is read, a plain request, r2
finishes. The late scenes launch a round of turn 2 while the previous result arrives."""


@pytest.fixture
def make(scene: Any, commands: Any) -> Callable[..., Any]:
    """``make(name, oracle)``: a scene, judged by a single oracle."""
    words = {
        "turn1": commands.TURN_1,
        "step": [commands.STEP],
        "p1": [commands.submit("p1", None, 9, 6, first=61)],
        "r2": [commands.submit("r2")],
    }

    def made(name: str, *oracle: str) -> Any:
        said, config = SCENES[name]
        prepared = scene([command for word in said for command in words[word]], config)
        for oracle_name in oracle:
            prepared.only(oracle_name)
        return prepared

    return made


def at(path: str, change: Callable[[Any], object]) -> Change:
    """Return a change of one figure: ``at("slots s1 Q", ...)``."""
    *outer, last = [int(word) if word.lstrip("-").isdigit() else word for word in path.split()]

    def apply(s: Any) -> None:
        inner = reduce(getitem, outer, s)
        inner[last] = change(inner[last])

    return apply


def put(path: str, value: object) -> Change:
    return at(path, lambda _: value)


def plus(path: str, number: int = 1) -> Change:
    return at(path, lambda figure: figure + number)


def owner(s: Any) -> Any:
    """Turn 2, or the slot where no turn runs."""
    return s["requests"].get("r2") or s["slots"]["s1"]


def row(s: Any, pool: str = "full") -> Any:
    """KV indices of the owner."""
    return s["rows"]["used"][str(owner(s)["row"])][pool]


def given_back(s: Any) -> None:
    request = s["requests"]["r2"]
    assert request["E"] > request["Q"]
    row(s, "swa")[request["E"] - 1] = 3


def stamped(position: int, more: int, place: int) -> Change:
    """Return a change of a stamp: add ``more`` to its token, and set its place."""

    def apply(s: Any) -> None:
        stamps = s["content"][str(owner(s)["row"])]
        stamps[position] = (stamps[position][0] + more, place)

    return apply


def answer(s: Any, **fields: Any) -> None:
    """Replace the messages by an answer to r2, too early or wrong."""
    s["messages"] = [{"type": "finish", "rid": "r2", "reason": "length", "tokens": [], **fields}]


def says(s: Any, word: str, session: str = "s1") -> None:
    s["messages"].append({"type": word, "session": session})


def laid_out(s: Any) -> None:
    """Add the figures of an engine with hashed blocks, all in order."""
    tree = s["tree"]["full"]
    unused = [*s["pools"]["full"]["free"], *(page for page, locks in tree if not locks)]
    keys = [(100 + page, page) for page, _ in tree]
    s["reusable"] = {"full": unused}
    s["lookup"] = {"full": {"finds": keys, "holds": keys}}
    s["queues"] = {"running": ["r2"], "waiting": []}
    s["tables"] = {"requests": ["r2"], "blocks": ["r2", "s1"]}


def hashed(*changes: Change) -> Change:
    return lambda s: [change(s) for change in (laid_out, *changes)]


def told(s: Any, transition: str) -> dict[str, int]:
    """Return the parameters of the only event with a name."""
    (params,) = (event[3] for event in s["events"] if event[0] == transition)
    return dict(params)


def tells(s: Any, transition: str, **params: int) -> None:
    """Change some parameters of an event."""
    changed = told(s, transition) | params
    assert told(s, transition) != changed
    s["events"] = [(*e[:3], changed) if e[0] == transition else e for e in s["events"]]


def silent(s: Any, transition: str) -> None:
    """Leave the event out."""
    told(s, transition)
    s["events"] = [event for event in s["events"] if event[0] != transition]


def evicts(s: Any, tokens: int, *after: str) -> None:
    """Add an eviction from the full pool. Events of a plain request may follow."""
    s["events"].append(("T-EVICT", None, None, {"n": tokens, "swa_n": 0}))
    s["events"] += [(transition, None, "p1", {}) for transition in after]


FULL, CHECKED = "pools full", "checker pools full"
FREE = f"{FULL} free"
CHANGES: list[tuple[str, str, str, Change]] = [
    ("counts", "INV-SUM-FULL.equation", "lent", plus(f"{FULL} available", 4)),
    ("counts", "INV-SUM-FULL.nonnegative", "lent", put(f"{FULL} available", -4)),
    ("counts", "INV-SUM-SWA.equation", "swa", plus("pools swa available", -4)),
    ("counts", "INV-SUM-FULL.reported", "lent", plus(f"{CHECKED} evictable")),
    ("counts", "INV-SUM-SWA.reported", "swa", plus("checker pools swa held")),
    (
        "counts",
        "INV-ONCE.reported",
        "lent",
        at(CHECKED, lambda old: old | {"held": old["uncached"], "uncached": old["held"]}),
    ),
    ("counts", "INV-ROWS.reported", "lent", plus("checker held_rows")),
    ("counts", "INV-ONCE.never_both", "lent", put("slots s1 lent", False)),
    ("counts", "INV-ONCE.never_neither", "idle", put("slots s1 lent", True)),
    ("counts", "INV-ROWS.equation", "lent", at("rows free", lambda rows: rows[:-1])),
    ("counts", "INV-ORDER.slot", "idle", at("slots s1", lambda kv: kv | {"C": kv["A"] + 1})),
    ("counts", "INV-ORDER.req", "lent", at("requests r2", lambda kv: kv | {"Q": kv["C"] + 4})),
    ("counts", "INV-ALIGN.slot", "idle", plus("slots s1 Q", -1)),
    ("counts", "INV-ALIGN.req", "lent", plus("requests r2 Q", -1)),
    ("counts", "INV-ALIGN.free", "lent", plus(f"{FULL} available", -1)),
    ("counts", "INV-CURSOR.req", "swa", plus("requests r2 E")),
    ("counts", "INV-WINDOW.req", "swa", at("requests r2", lambda kv: kv | {"E": kv["C"] // 4 * 4})),
    ("counts", "INV-COVER.req", "lent", put("requests r2 prompt", 1)),
    ("counts", "INV-COVER.idle", "idle", put("sessions s1 history", 8)),
    ("counts", "INV-INFLIGHT.iff", "lent", put("sessions s1 inflight", None)),
    ("counts", "INV-LOCK.slot", "idle", put("slots s1 locks", 0)),
    ("counts", "INV-LOCK.req", "plain", put("requests p1 locks", 0)),
    (
        "counts",
        "INV-LOCK.bounded",
        "idle",
        lambda s: (plus(f"{FULL} protected", 4)(s), plus(f"{FULL} available", -4)(s)),
    ),
    ("counts", "INV-DRAIN.drained", "idle", lambda s: (s["slots"].clear(), s["sessions"].clear())),
    ("counts", "INV-ABSENT.session", "idle", lambda s: s["sessions"].clear()),
    ("rows", "INV-ROWS.range", "lent", at("rows used", lambda rows: rows | {"99": {"full": []}})),
    ("rows", "INV-ROWS.range", "lent", put("rows free 0", 99)),
    ("rows", "INV-ROWS.range", "lent", put("rows free 0", -2)),
    ("rows", "INV-ROWS.twice", "lent", at("rows free", lambda rows: [*rows, rows[0]])),
    ("rows", "INV-ROWS.twice", "idle", lambda s: s["rows"]["free"].append(owner(s)["row"])),
    ("pages", "INV-OWNER.lost", "lent", at(FREE, lambda pages: pages[:-1])),
    ("pages", "INV-OWNER.lost", "swa", at("pools swa free", lambda pages: pages[:-1])),
    (
        "pages",
        "INV-OWNER.shared",
        "lent",
        lambda s: s["pools"]["full"]["free"].append(row(s)[-1] // 4),
    ),
    (
        "pages",
        "INV-OWNER.shared",
        "idle",
        lambda s: s["pools"]["full"]["free"].append(s["tree"]["full"][0][0]),
    ),
    ("pages", "INV-OWNER.range", "lent", put(f"{FREE} 0", -7)),
    ("pages", "INV-OWNER.range", "lent", put(f"{FREE} 0", 10**9)),
    (
        "pages",
        "INV-OWNER.range",
        "lent",
        at(FREE, lambda pages: [16 if page == 15 else page for page in pages]),
    ),
    ("pages", "INV-OWNER.range", "swa", plus("pools swa free -1", 100)),
    # Not even where no later token reads
    ("pages", "INV-OWNER.range", "swa", lambda s: row(s, "swa").__setitem__(0, 10**9)),
    ("pages", "INV-OWNER.free_twice", "lent", at(FREE, lambda pages: [*pages, pages[0]])),
    ("pages", "INV-ALIGN.positions", "lent", lambda s: row(s).insert(4, row(s).pop(5))),
    (
        "pages",
        "INV-BACKED.protected",
        "idle",
        at("tree full", lambda tree: [(page, 0) for page, _ in tree]),
    ),
    ("pages", "INV-BACKED.private", "lent", lambda s: row(s).__setitem__(6, -1)),
    ("pages", "INV-BACKED.private", "idle", lambda s: row(s).pop()),
    ("pages", "INV-CURSOR.given_back", "swa", given_back),
    (
        "locks",
        "INV-LOCK.count",
        "swa",
        at("tree swa", lambda tree: [(page, locks + 1) for page, locks in tree]),
    ),
    (
        "locks",
        "INV-LOCK.count",
        "idle",
        at("tree full", lambda tree: [(page, locks + 1) for page, locks in tree]),
    ),
    ("history", "INV-HISTORY.history", "idle", plus("sessions s1 history")),
    ("history", "INV-HISTORY.history", "lent", at("sessions s1 hash", lambda old: old ^ 1)),
    ("history", "INV-HISTORY.prompt", "lent", at("requests r2 hash", lambda old: old ^ 1)),
    (
        "history",
        "INV-INFLIGHT.one",
        "lent",
        at("requests", lambda old: old | {"r3": {**old["r2"], "row": -1}}),
    ),
    ("content", "INV-CONTENT.stamp", "idle", stamped(2, 1, place=2)),
    ("content", "INV-CONTENT.stamp", "lent", stamped(5, 0, place=4)),
    ("content", "INV-CONTENT.tokens", "finish", plus("messages 0 tokens -1")),
    ("checker", "INV-CHECKER.verdict", "lent", put("checker verdict", "off")),
    ("checker", "INV-CHECKER.ran", "lent", put("checker ran", False)),
    ("checker", "INV-CHECKER.covers", "swa", lambda s: s["checker"]["pools"].pop("swa")),
    ("checker", "INV-CHECKER.counted", "lent", at("checker counted", lambda batch: batch * 2)),
    ("checker", "INV-CHECKER.level", "lent", put("checker logged", 0)),
    ("checker", "INV-CHECKER.level", "late", put("checker kept", 0)),
    ("checker", "INV-CHECKER.figures", "idle", plus(f"{CHECKED} held", -1)),
    ("checker", "INV-CHECKER.verdict", "lent", put("checker verdict", "crash")),
    (
        "checker",
        "INV-CHECKER.verdict",
        "idle",
        lambda s: [plus(f"{pool} available", -4)(s) for pool in (FULL, CHECKED)],
    ),
    ("answers", "INV-ANSWER.once", "finish", at("messages", lambda told: [*told, told[0]])),
    (
        "answers",
        "INV-ANSWER.once",
        "lent",
        lambda s: s["messages"].append(
            {"type": "finish", "rid": "nobody", "reason": "stop", "tokens": []}
        ),
    ),
    ("answers", "INV-ANSWER.never_silent", "waiting", lambda s: s["requests"].clear()),
    ("contract", "INV-ANSWER.most", "finish", lambda s: answer(s, tokens=[1, 2, 3, 4, 5])),
    ("contract", "INV-ANSWER.length", "finish", lambda s: answer(s, tokens=[1, 2])),
    ("contract", "INV-ANSWER.stop", "finish", lambda s: answer(s, tokens=[1, 2], reason="stop")),
    ("contract", "INV-ANSWER.reason", "finish", lambda s: answer(s, reason="tired")),
    ("contract", "INV-ANSWER.unasked", "finish", lambda s: answer(s, reason="abort")),
    ("sessions", "INV-SESSION.opened", "lent", lambda s: says(s, "opened")),
    ("sessions", "INV-SESSION.refused", "lent", lambda s: says(s, "refused", "s9")),
    ("sessions", "INV-SESSION.closed", "lent", lambda s: says(s, "closed")),
    (
        "limits",
        "INV-LIMIT.running",
        "lent",
        lambda s: [beside(s, f"p{number}") for number in range(9)],
    ),
    ("reuse", "INV-REUSE.all", "lent", hashed(at("reusable full", lambda pages: pages[:-1]))),
    (
        "reuse",
        "INV-REUSE.unused",
        "lent",
        hashed(lambda s: s["reusable"]["full"].append(s["rows"]["used"]["0"]["full"][-1] // 4)),
    ),
    ("lookup", "INV-LOOKUP.found", "lent", hashed(at("lookup full finds", lambda keys: keys[1:]))),
    (
        "lookup",
        "INV-LOOKUP.there",
        "lent",
        hashed(lambda s: s["lookup"]["full"]["finds"].append((7, s["pools"]["full"]["free"][0]))),
    ),
    (
        "lookup",
        "INV-LOOKUP.holds",
        "lent",
        hashed(at("lookup full holds", lambda keys: [(key + 1, page) for key, page in keys])),
    ),
    (
        "tables",
        "INV-TABLES.ended",
        "lent",
        hashed(at("tables blocks", lambda names: [*names, "s9"])),
    ),
    ("tables", "INV-TABLES.queued", "lent", hashed(put("queues waiting", ["r2"]))),
    ("tables", "INV-TABLES.queued", "lent", hashed(put("queues running", []))),
    ("economy", "INV-ECONOMY.evicts", "lent", lambda s: evicts(s, 4)),
    ("economy", "INV-ECONOMY.evicts", "lent", lambda s: evicts(s, 44)),
    (
        "lockstep",
        "INV-STEP.unknown",
        "lent",
        lambda s: s["events"].append(("T-NAP", "s1", "r2", {})),
    ),
    (
        "lockstep",
        "INV-STEP.unknown",
        "lent",
        lambda s: s["events"].append(("T-PARK", "s9", "r9", {})),
    ),
    (
        "lockstep",
        "INV-STEP.guard",
        "lent",
        lambda s: s["events"].append(("T-RESTORE", "s1", "r2", {})),
    ),
    ("lockstep", "INV-STEP.state", "lent", lambda s: s["events"].clear()),
    ("lockstep", "INV-STEP.state", "lent", plus(f"{FULL} evictable", 4)),
    ("lockstep", "INV-STEP.state", "lent", lambda s: s["sessions"].update(s2=s["sessions"]["s1"])),
    ("lockstep", "INV-STEP.state", "late", lambda s: silent(s, "T-LAUNCH")),
    ("lockstep", "INV-STEP.state", "late", lambda s: silent(s, "T-RESULT")),
    ("lockstep", "INV-STEP.state", "late draft", lambda s: silent(s, "T-RESULT")),
    ("lockstep", "INV-STEP.state", "late", lambda s: tells(s, "T-LAUNCH", d=1, k=0)),
    ("lockstep", "INV-STEP.guard", "late", lambda s: tells(s, "T-LAUNCH", d=2, k=2)),
    ("lockstep", "INV-STEP.guard", "late", lambda s: tells(s, "T-RESULT", k=1)),
    ("lockstep", "INV-STEP.guard", "late", lambda s: tells(s, "T-RESULT", sampled=0, told=0)),
    ("lockstep", "INV-STEP.state", "late", lambda s: tells(s, "T-RESULT", sampled=2, told=2)),
    ("lockstep", "INV-STEP.guard", "late", lambda s: tells(s, "T-RESULT", at=13)),
    ("lockstep", "INV-STEP.guard", "late", lambda s: tells(s, "T-RESULT", told=2)),
    ("lockstep", "INV-STEP.guard", "lent", lambda s: tells(s, "T-DECODE", at=15)),
    ("lockstep", "INV-STEP.guard", "lent", lambda s: tells(s, "T-DECODE", told=2)),
    ("lockstep", "INV-STEP.state", "finish", lambda s: tells(s, "T-DECODE", told=0)),
    ("lockstep", "INV-STEP.guard", "lent", lambda s: tells(s, "T-DECODE", d=3)),
    ("lockstep", "INV-STEP.state", "late draft", lambda s: tells(s, "T-LAUNCH", k=1)),
    (
        "lockstep",
        "INV-STEP.state",
        "late draft",
        lambda s: tells(
            s, "T-RESULT", **dict.fromkeys(("k", "sampled"), told(s, "T-RESULT")["sampled"] + 1)
        ),
    ),
    ("lockstep", "INV-STEP.guard", "late draft", lambda s: tells(s, "T-RESULT", k=0)),
]
"""(oracle, clause, scene, change of the snapshot)"""


@pytest.mark.parametrize(
    ("oracle", "clause", "where", "change"),
    [pytest.param(*case, id=f"{case[0]}-{case[1]}-{case[2]}") for case in CHANGES],
)
def test_one_changed_figure_is_caught_by_its_clause(
    oracle: str, clause: str, where: str, change: Change, make: Any
) -> None:
    made = make(where, oracle)
    change(made.snapshot)
    assert clause in made.clauses()


@pytest.mark.parametrize("where", SCENES)
def test_an_unchanged_snapshot_breaks_nothing(where: str, make: Any) -> None:
    """All oracles together: no false alarm."""
    assert make(where).judge() == []


def test_what_no_snapshot_shows_is_remembered(commands: Any) -> None:
    """INV-STEP.guard: a token that the client was not told ends the answer for later steps, too."""

    def forgets(s: Any) -> None:
        s["events"] = [
            (*e[:3], e[3] | {"told": 0}) if e[3].get("at") == 7 else e for e in s["events"]
        ]

    played = play(Liar(forgets), Setup(CONFIGS["p4"]), commands.TURN_1)
    told = [(seen.clause, seen.transition, seen.guard) for seen in played.log[-1].violations]
    assert told == [
        ("INV-STEP.guard", "T-DECODE", "answering"),
        ("INV-TOLD-STEP.ends", "T-DECODE", None),
    ]
    assert played.snapshot["iter"] == 3, "the iteration after"


def test_hashed_blocks_in_order_break_nothing(make: Any) -> None:
    """INV-REUSE, INV-LOOKUP, INV-TABLES: the figures are shown, and all in order."""
    made = make("lent")
    laid_out(made.snapshot)
    assert made.judge() == []


def test_every_oracle_is_tested_here() -> None:
    assert {case[0] for case in CHANGES} | {"progress", "operators", "matches"} == set(ORACLES)


def test_a_matched_request_hides_which_pages_it_locks(make: Any) -> None:
    """INV-LOCK.count is not judged while a match has no row: never a false alarm."""
    made = make("idle", "locks")
    made.snapshot["tree"]["full"] = [(page, 9) for page, _ in made.snapshot["tree"]["full"]]
    made.snapshot["requests"]["r9"] = {
        "phase": "matched",
        "session": None,
        "loan": None,
        "kind": "plain",
        "row": -1,
        "C": 0,
        "A": 0,
        "Q": 0,
        "E": 0,
        "locks": 1,
        "prompt": 1,
        "output": 0,
        "hash": None,
    }
    assert made.clauses() == set()


@pytest.mark.parametrize(("width", "clauses"), [(48, set()), (5, {"INV-ORDER.req"})])
def test_a_row_is_as_wide_as_the_engine_says(width: int, clauses: set[str]) -> None:
    """``rows.width``. Without a width, a row holds the context."""
    engine = InProcessEngine()
    do = engine.do

    def told(command: Command) -> list[Snapshot]:
        shown = do(command)
        for snapshot in shown:
            snapshot["rows"]["width"] = width
        return shown

    engine.do = told  # type: ignore[method-assign]
    turn = {"session": None, "rid": "r1", "tokens": [1] * 6, "max_new": 3, "stop": []}
    commands: list[Command] = [{"do": "submit", **turn}, {"do": "step", "n": 1}]
    violations = play(engine, Setup(EngineConfig()), commands).log[-1].violations
    assert {
        violation.clause for violation in violations if violation.invariant == "INV-ORDER"
    } == clauses


def test_only_the_oracle_of_the_check_sees_that_it_did_not_run(make: Any) -> None:
    """All oracles together. tests/alone.py has a mutant for it."""
    made = make("lent")
    made.snapshot["checker"]["ran"] = False
    assert made.clauses() == {"INV-CHECKER.ran"}


def test_a_check_that_is_off_need_not_run(make: Any) -> None:
    """INV-CHECKER.ran applies only to a check switched on, and only after a batch."""
    made = make("lent", "checker")
    made.snapshot["checker"] |= {"ran": False, "level": 0}
    assert made.clauses() == set()
    made = make("idle", "checker")
    made.snapshot["checker"] |= {"ran": False}
    assert made.clauses() == set()


def pool(total: int) -> dict[str, Any]:
    return {"total": total, "available": total, "evictable": 0, "protected": 0, "free": []}


def plain(snap: Any, prompt: int = 13) -> object:
    """Make r2 a request without a session, and leave the slot of s1 idle."""
    snap["requests"]["r2"].update(session=None, kind="plain", prompt=prompt)
    snap["sessions"]["s1"]["inflight"] = None
    return snap


def all_held(snap: Any, slot: int = 64, **figures: int) -> object:
    """Make a request without a session wait while the slot of s1 holds the pool."""
    plain(snap)
    snap["pools"]["full"].update(available=0, free=[], **figures)
    snap["slots"]["s1"]["A"] = slot
    if not slot:
        snap["slots"].clear()
    return snap


def beside(snap: Any, rid: str, session: str | None = None, **kv: Any) -> object:
    """Add a request."""
    snap["requests"][rid] = {**snap["requests"]["r2"], "session": session, **kv}
    return snap


WAITS: dict[str, Change] = {
    "full-reserve": lambda snap: None,
    "rows-reserve": lambda snap: snap["rows"].update(free=[]),  # its session has a row
    "flag": lambda snap: snap["slots"]["s1"].update(lent=True),
    "limit": lambda snap: [beside(snap, f"q{n}", phase="running") for n in range(8)],
    "rows-idle": lambda snap: (plain(snap), snap["rows"].update(free=[], total=1)),
    "rows-nobody": lambda snap: (plain(snap), snap["rows"].update(free=[])),
    "full-idle": all_held,
    "full-waiting": lambda snap: (all_held(snap), beside(snap, "r3", "s1", kind="turn")),
    "full-idle stub": lambda snap: (all_held(snap), beside(snap, "r3", "s1", kind="stub")),
    "full-waiting closing": lambda snap: (
        all_held(snap),
        snap["sessions"]["s1"].update(closing=True),
    ),
    "full-running": lambda snap: (
        all_held(snap, slot=0, protected=0),
        beside(snap, "q1", phase="running", row=1, A=64),
    ),
    "full-locks": lambda snap: all_held(snap, slot=0, protected=64),
    "full-nobody": lambda snap: all_held(snap, slot=0),
    "full-total": lambda snap: plain(snap, 80),
    "counter": lambda snap: snap["pools"]["full"].update(available=0),
    "counter tree": lambda snap: snap["tree"].update(full=[(0, 0)]),
}
"""States in which a request waits, by cause."""


class TestProgress:
    """INV-PROGRESS: 16 steps without a change, and a request."""

    def waiting(self, make: Any) -> Any:
        """Return a scene with a turn waiting beside its session's slot."""
        made = make("waiting", "progress")
        nothing = {"row": -1, "loan": None, "C": 0, "A": 0, "Q": 0, "E": 0}
        made.snapshot["requests"]["r2"] |= {"phase": "waiting", **nothing}
        made.snapshot["slots"]["s1"]["lent"] = False
        made.snapshot["consumed"] = made.referee.client.unread.clear() or 0
        return made

    def stalled(self, make: Any, paused: bool = False, phase: str = "waiting") -> list[int]:
        """Return the numbers of the snapshots at which the clause fires."""
        made = self.waiting(make)
        made.snapshot["requests"]["r2"]["phase"] = phase
        made.referee.client.paused = paused
        return [n for n in range(PATIENCE + 4) if made.clauses() == {"INV-PROGRESS.stalled"}]

    def test_fires_once_after_16_steps(self, make: Any) -> None:
        assert self.stalled(make) == [PATIENCE]

    def test_seconds_are_no_steps(self, make: Any) -> None:
        """A tick runs no batch (found on SGLang: 16 ticks and a running turn)."""
        made = self.waiting(make)
        made.judge()
        for _ in range(PATIENCE + 4):
            made.snapshot["iter"] = made.referee.snapshot["iter"]
            assert made.clauses() == set()

    @pytest.mark.parametrize("phase", ["parked", "running"])
    def test_whoever_does_not_move_is_stalled(self, phase: str, make: Any) -> None:
        assert self.stalled(make, phase=phase) == [PATIENCE]

    @pytest.mark.parametrize("word", WAITS)
    def test_it_says_what_is_missing_and_who_holds_it(self, word: str, make: Any) -> None:
        """Stalls with different causes are different findings. The sentence states the cause."""
        made = self.waiting(make)
        WAITS[word](made.snapshot)
        violations = [violation for _ in range(PATIENCE + 2) for violation in made.judge()]
        cause = word.partition(" ")[0]
        assert [violation.pins for violation in violations] == [cause]
        words = CAUSES[cause.split("-")[-1]].partition("{n}")
        assert words[0] in violations[0].detail and words[2] in violations[0].detail
        assert (
            Mark(violations[0].clause, (), "step", cause).id == f"INV-PROGRESS.stalled@step:{cause}"
        )

    def test_every_cause_has_a_state_that_shows_it(self) -> None:
        shown = {word.partition(" ")[0].split("-")[-1] for word in WAITS}
        assert shown == CAUSES.keys() - {"read"}  # test_sense.py has an engine that reads nothing

    def test_a_window_is_enough_of_a_prompt_that_exceeds_its_pool(self, make: Any) -> None:
        """SGLang #31205: no session exists, everything is free, and nobody holds anything."""
        for prompt in (11, 12, 40):
            made = self.waiting(make)
            plain(made.snapshot, prompt)
            made.snapshot["slots"].clear()
            made.snapshot["pools"]["full"] |= {"available": 64, "free": list(range(16))}
            made.snapshot["pools"]["swa"] = {**pool(12), "free": [0, 1, 2]}
            made.referee.config = replace(made.referee.config, window=2, swa_tokens=12)
            violations = [violation for _ in range(PATIENCE + 2) for violation in made.judge()]
            assert [violation.pins for violation in violations] == ["swa-reserve"], prompt

    @pytest.mark.parametrize(("draft", "pins"), [(0, "full-reserve"), (4, "full-idle")])
    def test_drafts_need_memory_too(self, draft: int, pins: str, make: Any) -> None:
        """The free pages suffice for the tokens, but not for a round of drafts as well."""
        made = self.waiting(make)
        made.referee.config = replace(made.referee.config, draft=draft)
        made.referee.client.unanswered["r2"] = Sent(None, [1], 1, [])
        plain(made.snapshot, 13)
        made.snapshot["slots"]["s1"]["A"] = 48
        made.snapshot["pools"]["full"].update(available=16, free=[12, 13, 14, 15])
        violations = [violation for _ in range(PATIENCE + 2) for violation in made.judge()]
        assert [violation.pins for violation in violations] == [pins]
        assert ("lacks up to " in violations[0].detail) == bool(draft)

    @pytest.mark.parametrize("word", ["full-idle", "rows-idle", "full-waiting", "full-nobody"])
    @pytest.mark.parametrize("clause", ["stalled", "starved"])
    def test_a_documented_choice_is_counted_and_not_judged(
        self, clause: str, word: str, make: Any
    ) -> None:
        """The profile vllm never reclaims the memory of a paused session. All else is judged."""
        made = self.waiting(make)
        referee, client = made.referee, made.referee.client
        referee.constants = replace(referee.constants, profile=PROFILES["vllm"])
        WAITS[word](made.snapshot)
        if clause == "starved":
            client.unanswered, client.patience = {"r2": Sent(None, [1], 1, [])}, 1
        violations = [violation for _ in range(PATIENCE + 1) for violation in made.judge()]
        key = f"INV-PROGRESS.{clause}:{word} (docs/findings/paused-session-pins.md)"
        if word.endswith("-idle"):
            assert violations == [] and referee.coverage.by_choice[key] == 1
            assert f"not judged      {key}, 1 times" in left_out({}, {}, referee.coverage.by_choice)
        else:
            assert (f"INV-PROGRESS.{clause}", word) in [(e.clause, e.pins) for e in violations]
            assert not referee.coverage.by_choice

    def test_where_somebody_runs_and_stands_still_nothing_is_a_choice(self, make: Any) -> None:
        made = self.waiting(make)
        made.referee.constants = replace(made.referee.constants, profile=PROFILES["vllm"])
        WAITS["full-idle"](made.snapshot)
        beside(made.snapshot, "q1", phase="running", row=1, A=4)
        assert [violation.pins for _ in range(PATIENCE + 2) for violation in made.judge()] == [
            "full-idle"
        ]

    def test_a_choice_of_the_profile_stays_where_a_configuration_changes_others(self) -> None:
        chosen = Setup(EngineConfig()).choices(
            replace(InProcessEngine().capabilities, profile="vllm")
        )
        assert chosen.idle_stays == PROFILES["vllm"].idle_stays
        assert {profile.name for profile in PROFILES.values() if profile.idle_stays} == {"vllm"}

    def test_a_paused_engine_is_not_stalled(self, make: Any) -> None:
        assert self.stalled(make, paused=True) == []

    def test_who_answers_somebody_goes_on(self, make: Any) -> None:
        """By policy, a new prompt in every iteration may keep running requests waiting (found on
        SGLang, where prompts go first)."""
        made = self.waiting(make)
        made.snapshot["messages"] = [
            {"type": "finish", "rid": "r8", "reason": "abort", "tokens": [], "message": ""}
        ]
        assert [made.clauses() for _ in range(PATIENCE + 4)] == [set()] * (PATIENCE + 4)

    def test_a_change_starts_the_count_again(self, make: Any) -> None:
        made = make("waiting", "progress")
        made.snapshot["requests"]["r2"]["phase"] = "waiting"
        for number in range(3 * PATIENCE):
            made.snapshot["pools"]["full"]["available"] = number // 8
            assert made.clauses() == set()


class Deaf(InProcessEngine):
    """An engine that ignores one kind of command."""

    def __init__(self, told: str) -> None:
        super().__init__()
        self.told = told

    def do(self, command: Command) -> list[Snapshot]:
        self.engine.intake._handlers[self.told] = lambda _: None
        return super().do(command)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("told", ["retract", "accept", "pause", "evict"])
def test_what_the_engine_is_told_is_done(told: str, overlap: bool) -> None:
    """INV-ANSWER.obeyed: the reference obeys. An engine that ignores the command does not."""
    turn = {"do": "submit", "session": None, "tokens": [5, 6, 7, 8, 9], "stop": []}
    step: Command = {"do": "step", "n": 6}
    commands: list[Command] = [{**turn, "rid": "r0", "max_new": 1}, step]
    commands += [{**turn, "rid": "r1", "max_new": 30 * (told != "evict")}, step]
    for tokens in (1, 2, 3):
        fields: dict[str, dict[str, Any]] = {
            "accept": {"rid": "r1", "tokens": tokens},
            "evict": {"tokens": tokens},
        }
        commands += [{"do": told, **fields.get(told, {})}, step]
        commands += [{**turn, "rid": f"p{tokens}", "max_new": 1}, step] * (told == "pause")
    setup = Setup(EngineConfig(draft=3 * (told == "accept"), overlap=overlap, page_size=4))
    assert play(InProcessEngine(), setup, commands).log[-1].violations == []
    violations = play(Deaf(told), setup, commands).log[-1].violations
    assert {violation.clause for violation in violations} == {"INV-ANSWER.obeyed"}
    other = Deaf(told)
    words = {**other.capabilities.not_observed, operators.TOLD: "it does so at times"}
    other.capabilities = replace(other.capabilities, not_observed=words)
    assert play(other, setup, commands).log[-1].violations == [], "its driver says that it can't"


class FlushesLess(InProcessEngine):
    """An engine that carries out a forced flush in part: ``retract`` or ``evict``."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part

    def do(self, command: Command) -> list[Snapshot]:
        intake = self.engine.intake
        parts = {"all": intake.flush_all, "retract": intake.retract, "evict": intake.flush}
        intake._handlers["flush_all"] = lambda _: parts[self.part]()
        return super().do(command)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("all", []),
        ("evict", ["r2 ran when the engine read a forced flush, and was not retracted"]),
        ("retract", ["full: a forced flush evicted 0 tokens of {} unlocked tokens"]),
    ],
)
@pytest.mark.parametrize("name", ["p1", "p4", "p4-wipe", "p1-overlap"])
def test_a_forced_flush_retracts_and_evicts(name: str, part: str, said: list[str]) -> None:
    """INV-ANSWER.obeyed: no other oracle sees that a flush did nothing."""
    turn: dict[str, Any] = {"do": "submit", "session": None, "stop": []}
    step: Command = {"do": "step", "n": 3}
    commands = [{**turn, "rid": "r1", "tokens": [5, 6, 7, 8], "max_new": 1}, step]
    commands += [{**turn, "rid": "r2", "tokens": [9, 8, 7], "max_new": 20}, step]
    setup = Setup(CONFIGS[name])
    log = play(FlushesLess(part), setup, [*commands, {"do": "flush_all"}, step]).log
    unlocked = 5 if name == "p1-overlap" else 4
    details = [violation.detail for violation in log[-1].violations]
    assert details == [line.format(unlocked) for line in said]
    assert {violation.oracle for violation in log[-1].violations} <= {"operators"}


class ReapsLate(InProcessEngine):
    """An engine that reaps sessions late: within a second, or always."""

    def __init__(self, late: float, always: bool = False) -> None:
        super().__init__()
        self.late, self.always = late, always

    def do(self, command: Command) -> list[Snapshot]:
        controller: Any = self.engine.controller
        if command["do"] == "tick_ms" or self.always:
            controller.timeout = self.engine.config.timeout + self.late
        elif command["do"] == "tick":
            controller.timeout = self.engine.config.timeout
        return super().do(command)


@pytest.mark.parametrize(("late", "clauses"), [(0, []), (9, [])])
def test_within_a_second_a_session_may_wait_for_its_reap(late: float, clauses: list[str]) -> None:
    """INV-SESSION.overdue: after ``tick_ms`` an engine may wait for its next reap."""
    commands: list[Command] = [{"do": "open", "session": "s1"}, {"do": "step", "n": 1}]
    commands += [{"do": "tick", "seconds": 4}, *[{"do": "tick_ms", "ms": 750}] * 3]
    for last, expected in (
        (None, clauses),
        ({"do": "tick", "seconds": 0}, ["overdue"] * (late > 0)),
    ):
        engine = ReapsLate(late, always=last is not None)
        log = play(
            engine, Setup(EngineConfig(timeout=5)), [*commands, *([last] if last else [])]
        ).log
        assert [violation.conjunct for violation in log[-1].violations] == expected


def test_a_session_is_not_closed_by_a_fraction_of_its_time() -> None:
    """INV-SESSION.closed: 4.75 s are not 5 s."""
    commands: list[Command] = [{"do": "open", "session": "s1"}, {"do": "step", "n": 1}]
    commands += [{"do": "tick", "seconds": 4}, {"do": "tick_ms", "ms": 750}]
    for late, clauses in ((0, []), (-0.25, ["closed"])):
        log = play(ReapsLate(late), Setup(EngineConfig(timeout=5)), commands).log
        assert [violation.conjunct for violation in log[-1].violations] == clauses


@pytest.mark.parametrize(
    ("mutant", "first", "total", "flush", "clauses"),
    [
        ("restore-all-or-nothing", [5, 6], 64, False, {"INV-PROGRESS.discarded"}),
        ("restore-all-or-nothing", [5], 64, False, set()),
        ("restore-all-or-nothing", [5, 6], 6, False, set()),
        ("restore-all-or-nothing", [5, 6], 64, True, set()),
        (None, [5, 6], 64, False, set()),
    ],
)
def test_a_slot_is_kept_where_nobody_needs_its_room(
    mutant: str | None, first: list[int], total: int, flush: bool, clauses: set[str]
) -> None:
    """INV-PROGRESS.discarded: in a small pool another request may need the slot, and a flush may
    free it. A history of one token is useless, for its last token is computed anew."""
    turn = {"do": "submit", "session": "s1", "stop": [], "max_new": 0}
    commands: list[Command] = [
        {"do": "open", "session": "s1"},
        {**turn, "rid": "r1", "tokens": first},
        {"do": "step", "n": 2},
        *([{"do": "flush"}] if flush else []),
        {**turn, "rid": "r2", "tokens": []},
        {"do": "step", "n": 1},
    ]
    setup = Setup(EngineConfig(total_tokens=total))
    violations = play(InProcessEngine(mutant), setup, commands).log[-1].violations
    assert {violation.clause for violation in violations} == clauses


@pytest.mark.parametrize(
    ("tokens", "after"),
    [(48, []), (4, ["T-PLAIN-FINISH"]), (4, ["T-PLAIN-RETRACT"]), (4, ["T-OOM"])],
)
def test_an_eviction_may_be_needed(tokens: int, after: list[str], make: Any) -> None:
    """INV-ECONOMY.evicts: the memory was not free before, was freed later, or did not suffice. The
    scene leaves 48 tokens free, and the running request may need a page of 4 more."""
    made = make("lent", "economy")
    assert made.snapshot["pools"]["full"]["available"] == 48
    evicts(made.snapshot, tokens, *after)
    assert made.clauses() == set()


ECONOMY = {"economy": ORACLES["economy"]}
CROWD: list[Command] = [
    command
    for number in range(6)
    for command in (
        {
            "do": "submit",
            "session": None,
            "rid": f"p{number}",
            "tokens": [5 + number] * 8,
            "max_new": 4,
            "stop": [],
        },
        {"do": "step", "n": 5},
    )
]
"""Six requests without a session. Each leaves 11 tokens in the tree."""


@pytest.mark.parametrize(
    ("mutant", "total", "more", "checked", "clauses"),
    [
        (None, 16, [], True, set()),
        (None, 80, [], False, set()),
        (None, 80, [{"do": "evict", "tokens": 8}], False, set()),
        (None, 80, [{"do": "flush"}], False, set()),
        ("evicts-unasked", 80, [], True, {"INV-ECONOMY.evicts"}),
    ],
)
def test_the_tree_evicts_what_is_needed_and_no_more(
    mutant: str | None, total: int, more: list[Command], checked: bool, clauses: set[str]
) -> None:
    """INV-ECONOMY.evicts: a small pool needs evictions, and a client may ask for an eviction."""
    setup = Setup(EngineConfig(total_tokens=total, context_len=16), oracles=ECONOMY)
    played = play(InProcessEngine(mutant), setup, [*CROWD, *more, {"do": "step", "n": 1}])
    assert {violation.clause for violation in played.log[-1].violations} == clauses
    assert bool(played.coverage.checked["INV-ECONOMY"]) == checked


@pytest.mark.parametrize("name", ["p1-swa", "p4-swa"])
def test_a_window_cursor_that_stays_is_told_once(name: str) -> None:
    """INV-ECONOMY.cursor: every later round would tell the same."""
    turn = {"session": None, "rid": "r1", "tokens": [5, 6], "max_new": 40, "stop": []}
    commands: list[Command] = [{"do": "submit", **turn}, *[{"do": "step", "n": 1}] * 30]
    setup = Setup(replace(CONFIGS[name], draft=0), oracles=ECONOMY)
    assert not play(InProcessEngine(), setup, commands).log[-1].violations
    referee = setup.referee(InProcessEngine("cursor-stays"))
    told = [violation for command in commands for violation in referee.do(command)]
    assert [violation.clause for violation in told] == ["INV-ECONOMY.cursor"]
    assert referee.snapshot["requests"]["r1"]["E"] == 0


def test_a_false_alarm_of_the_check_is_caught(make: Any) -> None:
    """INV-CHECKER.alarm: the check reports a leak exactly when memory is lost or shared."""
    made = make("lent", "checker")
    made.snapshot["checker"]["verdict"] = "leak"
    assert made.clauses() == {"INV-CHECKER.alarm"}


@pytest.mark.parametrize(("logged", "clauses"), [(9, set()), (2, {"INV-CHECKER.dump"})])
def test_a_check_that_fails_shows_those_before_it(
    logged: int, clauses: set[str], make: Any
) -> None:
    """INV-CHECKER.dump (#27238): at level 1, with nothing else logged."""
    made = make("late", "checker")
    made.snapshot["checker"] |= {"verdict": "leak", "logged": logged, "kept": 0}
    assert made.clauses() - {"INV-CHECKER.alarm"} == clauses


def test_a_violation_is_data(make: Any) -> None:
    """A violation is shown by its fields, and its sentence is built from the fields."""
    seen = make("idle", "pages")
    free = seen.snapshot["pools"]["full"]["free"]
    slot = seen.snapshot["slots"]["s1"]
    page = seen.snapshot["rows"]["used"][str(slot["row"])]["full"][slot["Q"]] // 4
    free[0] = page
    shared, lost = seen.judge()
    assert (shared.clause, lost.clause) == ("INV-OWNER.shared", "INV-OWNER.lost")
    assert shared.shown == {
        "pool": "full",
        "page": page,
        "owners": [{"kind": "free"}, {"kind": "slot", "name": "s1"}],
    }
    assert shared.detail == f"full: page {page} belongs to the free list and slot of s1"
    assert (lost.spec, lost.engine) == (16, 15)


def test_actors_come_in_the_order_of_the_snapshot(make: Any) -> None:
    """A violation names the same actor in every process, whatever the hash seed."""
    seen = make("idle")
    session = seen.snapshot["sessions"]["s1"]
    names = [f"s{number}" for number in range(40)]
    seen.snapshot["sessions"] = dict.fromkeys(names, session)
    assert list(abstract(seen.snapshot, seen.referee.constants).actors) == names


@pytest.mark.parametrize("how", ["stands still", "goes back"])
def test_an_engine_that_counts_no_iterations_makes_no_sense(how: str) -> None:
    engine = InProcessEngine()
    referee = Setup(EngineConfig()).referee(engine)
    assert not referee.do({"do": "step", "n": 1})
    engine.engine.iter -= 1 if how == "stands still" else 2
    [told] = referee.do({"do": "step", "n": 1})
    assert (told.clause, told.fault) == ("INV-ALIVE.crash", "nonsense")
    assert "iter is" in told.detail


def test_the_figures_of_a_session_are_those_of_its_turn() -> None:
    """A stub, a turn refused by its session, does not count."""
    stub = {"session": "s1", "kind": "stub", "phase": "running", "row": 2, "C": 1}
    requests = {"r2": stub, "r1": stub | {"kind": "turn", "row": 3, "C": 5}}
    seen: Any = SimpleNamespace(snapshot={"requests": requests, "slots": {}})
    assert counts._figures(seen, "s1") == "slot none, turn running row=3 C=5"
    del requests["r1"]
    assert counts._figures(seen, "s1") == "slot none, turn none"


def test_a_configuration_says_whose_turns_requests_without_a_session_are() -> None:
    assert SERVED["p1-branching"].size.endswith(
        "with branching (requests without a session are turns of a session without a slot)"
    )
