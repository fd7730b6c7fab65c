"""Each oracle alone: a real snapshot with one figure changed breaks the right clause.

And none other of that oracle's where only one should be seen; the unchanged
snapshot breaks nothing. One long file: a test per clause, side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import Sent
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.oracles import ORACLES, operators
from slotproof.lockstep.oracles.progress import PATIENCE
from slotproof.lockstep.referee import Setup, play
from slotproof.lockstep.waits import CAUSES
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.search.findings import Mark
from slotproof.search.report import left_out
from slotproof_model.spec.profiles import PROFILES

Change = Callable[[Any], object]
CHANGES: list[tuple[str, str, str, Change]] = []
"""(oracle, clause, scene, change of the snapshot)"""


def breaks(oracle: str, clause: str, scene: str = "lent") -> Callable[[Change], Change]:
    def keep(change: Change) -> Change:
        CHANGES.append((oracle, clause, scene, change))
        return change

    return keep


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
"""Turn 2 runs; nothing runs; with a sliding window; turn 2 is read; a plain request; r2 ends;
a round of turn 2 is launched and the result of the one before comes, plain and speculative."""


def make(scene: Any, commands: Any, name: str) -> Any:
    words, config = SCENES[name]
    said: list[Any] = []
    for word in words:
        if word == "turn1":
            said += commands.TURN_1
        elif word == "step":
            said.append(commands.STEP)
        elif word == "p1":
            said.append(commands.submit("p1", None, 9, 6, first=61))
        else:
            said.append(commands.submit(word))
    return scene(said, config)


@breaks("counts", "INV-SUM-FULL.equation")
def _(s: Any) -> None:
    s["pools"]["full"]["available"] += 4


@breaks("counts", "INV-SUM-FULL.nonnegative")
def _(s: Any) -> None:
    s["pools"]["full"]["available"] = -4


@breaks("counts", "INV-SUM-SWA.equation", "swa")
def _(s: Any) -> None:
    s["pools"]["swa"]["available"] -= 4


@breaks("counts", "INV-SUM-FULL.reported")
def _(s: Any) -> None:
    s["checker"]["pools"]["full"]["evictable"] += 1


@breaks("counts", "INV-SUM-SWA.reported", "swa")
def _(s: Any) -> None:
    s["checker"]["pools"]["swa"]["held"] += 1


@breaks("counts", "INV-ONCE.reported")
def _(s: Any) -> None:
    figures = s["checker"]["pools"]["full"]
    figures["held"], figures["uncached"] = figures["uncached"], figures["held"]


@breaks("counts", "INV-ROWS.reported")
def _(s: Any) -> None:
    s["checker"]["held_rows"] += 1


@breaks("counts", "INV-ONCE.never_both")
def _(s: Any) -> None:
    s["slots"]["s1"]["lent"] = False


@breaks("counts", "INV-ONCE.never_neither", "idle")
def _(s: Any) -> None:
    s["slots"]["s1"]["lent"] = True


breaks("counts", "INV-ROWS.equation")(lambda s: s["rows"]["free"].pop())


@breaks("counts", "INV-ORDER.slot", "idle")
def _(s: Any) -> None:
    s["slots"]["s1"]["C"] = s["slots"]["s1"]["A"] + 1


@breaks("counts", "INV-ORDER.req")
def _(s: Any) -> None:
    s["requests"]["r2"]["Q"] = s["requests"]["r2"]["C"] + 4


@breaks("counts", "INV-ALIGN.slot", "idle")
def _(s: Any) -> None:
    s["slots"]["s1"]["Q"] -= 1


@breaks("counts", "INV-ALIGN.req")
def _(s: Any) -> None:
    s["requests"]["r2"]["Q"] -= 1


@breaks("counts", "INV-ALIGN.free")
def _(s: Any) -> None:
    s["pools"]["full"]["available"] -= 1


@breaks("counts", "INV-CURSOR.req", "swa")
def _(s: Any) -> None:
    s["requests"]["r2"]["E"] += 1


@breaks("counts", "INV-WINDOW.req", "swa")
def _(s: Any) -> None:
    s["requests"]["r2"]["E"] = s["requests"]["r2"]["C"] // 4 * 4


@breaks("counts", "INV-COVER.req")
def _(s: Any) -> None:
    s["requests"]["r2"]["prompt"] = 1


@breaks("counts", "INV-COVER.idle", "idle")
def _(s: Any) -> None:
    s["sessions"]["s1"]["history"] = 8


@breaks("counts", "INV-INFLIGHT.iff")
def _(s: Any) -> None:
    s["sessions"]["s1"]["inflight"] = None


@breaks("counts", "INV-LOCK.slot", "idle")
def _(s: Any) -> None:
    s["slots"]["s1"]["locks"] = 0


@breaks("counts", "INV-LOCK.req", "plain")
def _(s: Any) -> None:
    s["requests"]["p1"]["locks"] = 0


@breaks("counts", "INV-LOCK.bounded", "idle")
def _(s: Any) -> None:
    pool = s["pools"]["full"]
    pool["protected"] += 4
    pool["available"] -= 4


@breaks("counts", "INV-DRAIN.drained", "idle")
def _(s: Any) -> None:
    s["slots"].clear()
    s["sessions"].clear()


breaks("counts", "INV-ABSENT.session", "idle")(lambda s: s["sessions"].clear())


@breaks("rows", "INV-ROWS.range")
def _(s: Any) -> None:
    s["rows"]["used"]["99"] = {"full": []}


@breaks("rows", "INV-ROWS.range")
def _(s: Any) -> None:
    s["rows"]["free"][0] = 99


@breaks("rows", "INV-ROWS.range")
def _(s: Any) -> None:
    s["rows"]["free"][0] = -2


breaks("rows", "INV-ROWS.twice")(lambda s: s["rows"]["free"].append(s["rows"]["free"][0]))


@breaks("rows", "INV-ROWS.twice", "idle")
def _(s: Any) -> None:
    s["rows"]["free"].append(s["slots"]["s1"]["row"])


breaks("pages", "INV-OWNER.lost")(lambda s: s["pools"]["full"]["free"].pop())
breaks("pages", "INV-OWNER.lost", "swa")(lambda s: s["pools"]["swa"]["free"].pop())


@breaks("pages", "INV-OWNER.shared")
def _(s: Any) -> None:
    row = str(s["requests"]["r2"]["row"])
    s["pools"]["full"]["free"].append(s["rows"]["used"][row]["full"][-1] // 4)


@breaks("pages", "INV-OWNER.shared", "idle")
def _(s: Any) -> None:
    s["pools"]["full"]["free"].append(s["tree"]["full"][0][0])


@breaks("pages", "INV-OWNER.range")
def _(s: Any) -> None:
    s["pools"]["full"]["free"][0] = -7


@breaks("pages", "INV-OWNER.range")
def _(s: Any) -> None:
    s["pools"]["full"]["free"][0] = 10**9


@breaks("pages", "INV-OWNER.range")
def _(s: Any) -> None:
    free = s["pools"]["full"]["free"]
    free[free.index(15)] = 16


@breaks("pages", "INV-OWNER.range", "swa")
def _(s: Any) -> None:
    s["pools"]["swa"]["free"][-1] += 100


@breaks("pages", "INV-OWNER.range", "swa")
def _(s: Any) -> None:
    """Not even where no later token reads."""
    row = str(s["requests"]["r2"]["row"])
    s["rows"]["used"][row]["swa"][0] = 10**9


@breaks("pages", "INV-OWNER.free_twice")
def _(s: Any) -> None:
    free = s["pools"]["full"]["free"]
    free.append(free[0])


@breaks("pages", "INV-ALIGN.positions")
def _(s: Any) -> None:
    indices = s["rows"]["used"][str(s["requests"]["r2"]["row"])]["full"]
    indices[4], indices[5] = indices[5], indices[4]


@breaks("pages", "INV-BACKED.protected", "idle")
def _(s: Any) -> None:
    s["tree"]["full"] = [(page, 0) for page, _ in s["tree"]["full"]]


@breaks("pages", "INV-BACKED.private")
def _(s: Any) -> None:
    s["rows"]["used"][str(s["requests"]["r2"]["row"])]["full"][6] = -1


@breaks("pages", "INV-BACKED.private", "idle")
def _(s: Any) -> None:
    s["rows"]["used"][str(s["slots"]["s1"]["row"])]["full"].pop()


@breaks("pages", "INV-CURSOR.given_back", "swa")
def _(s: Any) -> None:
    request = s["requests"]["r2"]
    assert request["E"] > request["Q"]
    s["rows"]["used"][str(request["row"])]["swa"][request["E"] - 1] = 3


@breaks("locks", "INV-LOCK.count", "swa")
def _(s: Any) -> None:
    s["tree"]["swa"] = [(page, locks + 1) for page, locks in s["tree"]["swa"]]


@breaks("locks", "INV-LOCK.count", "idle")
def _(s: Any) -> None:
    s["tree"]["full"] = [(page, locks + 1) for page, locks in s["tree"]["full"]]


@breaks("history", "INV-HISTORY.history", "idle")
def _(s: Any) -> None:
    s["sessions"]["s1"]["history"] += 1


@breaks("history", "INV-HISTORY.history")
def _(s: Any) -> None:
    s["sessions"]["s1"]["hash"] ^= 1


@breaks("history", "INV-HISTORY.prompt")
def _(s: Any) -> None:
    s["requests"]["r2"]["hash"] ^= 1


@breaks("history", "INV-INFLIGHT.one")
def _(s: Any) -> None:
    s["requests"]["r3"] = {**s["requests"]["r2"], "row": -1}


@breaks("content", "INV-CONTENT.stamp", "idle")
def _(s: Any) -> None:
    stamps = s["content"][str(s["slots"]["s1"]["row"])]
    stamps[2] = (stamps[2][0] + 1, 2)


@breaks("content", "INV-CONTENT.stamp")
def _(s: Any) -> None:
    stamps = s["content"][str(s["requests"]["r2"]["row"])]
    stamps[5] = (stamps[5][0], 4)


@breaks("content", "INV-CONTENT.tokens", "finish")
def _(s: Any) -> None:
    (message,) = s["messages"]
    message["tokens"] = [*message["tokens"][:-1], message["tokens"][-1] + 1]


@breaks("checker", "INV-CHECKER.verdict")
def _(s: Any) -> None:
    s["checker"]["verdict"] = "off"


@breaks("checker", "INV-CHECKER.ran")
def _(s: Any) -> None:
    s["checker"]["ran"] = False


@breaks("checker", "INV-CHECKER.covers", "swa")
def _(s: Any) -> None:
    del s["checker"]["pools"]["swa"]


@breaks("checker", "INV-CHECKER.counted")
def _(s: Any) -> None:
    s["checker"]["counted"] *= 2


@breaks("checker", "INV-CHECKER.level")
def _(s: Any) -> None:
    s["checker"]["logged"] = 0


@breaks("checker", "INV-CHECKER.level", "late")
def _(s: Any) -> None:
    s["checker"]["kept"] = 0


@breaks("checker", "INV-CHECKER.figures", "idle")
def _(s: Any) -> None:
    s["checker"]["pools"]["full"]["held"] -= 1


@breaks("checker", "INV-CHECKER.verdict")
def _(s: Any) -> None:
    s["checker"]["verdict"] = "crash"


@breaks("checker", "INV-CHECKER.verdict", "idle")
def _(s: Any) -> None:
    s["pools"]["full"]["available"] -= 4
    s["checker"]["pools"]["full"]["available"] -= 4


breaks("answers", "INV-ANSWER.once", "finish")(lambda s: s["messages"].append(s["messages"][0]))


@breaks("answers", "INV-ANSWER.once")
def _(s: Any) -> None:
    s["messages"].append({"type": "finish", "rid": "nobody", "reason": "stop", "tokens": []})


breaks("answers", "INV-ANSWER.never_silent", "waiting")(lambda s: s["requests"].clear())


def answer(s: Any, **fields: Any) -> None:
    """Another answer to r2 than the one that it gets, or gets only later."""
    s["messages"] = [{"type": "finish", "rid": "r2", "reason": "length", "tokens": [], **fields}]


breaks("contract", "INV-ANSWER.most", "finish")(lambda s: answer(s, tokens=[1, 2, 3, 4, 5]))
breaks("contract", "INV-ANSWER.length", "finish")(lambda s: answer(s, tokens=[1, 2]))
breaks("contract", "INV-ANSWER.stop", "finish")(lambda s: answer(s, tokens=[1, 2], reason="stop"))
breaks("contract", "INV-ANSWER.reason", "finish")(lambda s: answer(s, reason="tired"))
breaks("contract", "INV-ANSWER.unasked", "finish")(lambda s: answer(s, reason="abort"))


def says(s: Any, word: str, session: str = "s1") -> None:
    s["messages"].append({"type": word, "session": session})


breaks("sessions", "INV-SESSION.opened")(lambda s: says(s, "opened"))
breaks("sessions", "INV-SESSION.refused")(lambda s: says(s, "refused", "s9"))
breaks("sessions", "INV-SESSION.closed")(lambda s: says(s, "closed"))


@breaks("limits", "INV-LIMIT.running")
def _(s: Any) -> None:
    s["requests"] |= {f"p{n}": {**s["requests"]["r2"], "session": None} for n in range(9)}


def laid_out(s: Any) -> None:
    """What an engine with hashed blocks shows besides: here it is all in order."""
    tree = s["tree"]["full"]
    unused = [*s["pools"]["full"]["free"], *(page for page, locks in tree if not locks)]
    keys = [(100 + page, page) for page, _ in tree]
    s["reusable"] = {"full": unused}
    s["lookup"] = {"full": {"finds": keys, "holds": keys}}
    s["queues"] = {"running": ["r2"], "waiting": []}
    s["tables"] = {"requests": ["r2"], "blocks": ["r2", "s1"]}


@breaks("reuse", "INV-REUSE.all")
def _(s: Any) -> None:
    laid_out(s)
    s["reusable"]["full"].pop()


@breaks("reuse", "INV-REUSE.unused")
def _(s: Any) -> None:
    laid_out(s)
    s["reusable"]["full"].append(s["rows"]["used"]["0"]["full"][-1] // 4)


@breaks("lookup", "INV-LOOKUP.found")
def _(s: Any) -> None:
    laid_out(s)
    s["lookup"]["full"]["finds"] = s["lookup"]["full"]["finds"][1:]


@breaks("lookup", "INV-LOOKUP.there")
def _(s: Any) -> None:
    laid_out(s)
    free = s["pools"]["full"]["free"][0]
    s["lookup"]["full"]["finds"] += [(7, free)]
    s["lookup"]["full"]["holds"] += [(7, free)]


@breaks("lookup", "INV-LOOKUP.holds")
def _(s: Any) -> None:
    laid_out(s)
    s["lookup"]["full"]["holds"] = [(key + 1, page) for key, page in s["lookup"]["full"]["holds"]]


@breaks("tables", "INV-TABLES.ended")
def _(s: Any) -> None:
    laid_out(s)
    s["tables"]["blocks"] += ["s9"]


@breaks("tables", "INV-TABLES.queued")
def _(s: Any) -> None:
    laid_out(s)
    s["queues"]["waiting"] += ["r2"]


@breaks("tables", "INV-TABLES.queued")
def _(s: Any) -> None:
    laid_out(s)
    s["queues"]["running"].clear()


breaks("lockstep", "INV-STEP.unknown")(lambda s: s["events"].append(("T-NAP", "s1", "r2", {})))
breaks("lockstep", "INV-STEP.unknown")(lambda s: s["events"].append(("T-PARK", "s9", "r9", {})))
breaks("lockstep", "INV-STEP.guard")(lambda s: s["events"].append(("T-RESTORE", "s1", "r2", {})))
breaks("lockstep", "INV-STEP.state")(lambda s: s["events"].clear())


@breaks("lockstep", "INV-STEP.state")
def _(s: Any) -> None:
    s["pools"]["full"]["evictable"] += 4


@breaks("lockstep", "INV-STEP.state")
def _(s: Any) -> None:
    s["sessions"]["s2"] = s["sessions"]["s1"]


def told(s: Any, transition: str) -> dict[str, int]:
    """The parameters of the one event of that name."""
    (params,) = (event[3] for event in s["events"] if event[0] == transition)
    return dict(params)


def tells(s: Any, transition: str, **params: int) -> None:
    """Tell other parameters."""
    assert told(s, transition) != params
    s["events"] = [(*e[:3], params) if e[0] == transition else e for e in s["events"]]


def silent(s: Any, transition: str) -> None:
    """Leave the event out."""
    told(s, transition)
    s["events"] = [event for event in s["events"] if event[0] != transition]


breaks("lockstep", "INV-STEP.state", "late")(lambda s: silent(s, "T-LAUNCH"))
breaks("lockstep", "INV-STEP.state", "late")(lambda s: silent(s, "T-RESULT"))
breaks("lockstep", "INV-STEP.state", "late draft")(lambda s: silent(s, "T-RESULT"))
breaks("lockstep", "INV-STEP.state", "late")(lambda s: tells(s, "T-LAUNCH", d=1, k=0))
breaks("lockstep", "INV-STEP.guard", "late")(lambda s: tells(s, "T-LAUNCH", d=2, k=2))
breaks("lockstep", "INV-STEP.guard", "late")(lambda s: tells(s, "T-RESULT", k=1, n=1))
breaks("lockstep", "INV-STEP.state", "late")(lambda s: tells(s, "T-RESULT", k=0, n=0))
breaks("lockstep", "INV-STEP.state", "late")(lambda s: tells(s, "T-RESULT", k=0, n=2))


@breaks("lockstep", "INV-STEP.state", "late draft")
def _(s: Any) -> None:
    tells(s, "T-LAUNCH", d=told(s, "T-LAUNCH")["d"], k=1)


@breaks("lockstep", "INV-STEP.state", "late draft")
def _(s: Any) -> None:
    accepted = told(s, "T-RESULT")["n"]
    tells(s, "T-RESULT", k=accepted + 1, n=accepted + 1)


@breaks("lockstep", "INV-STEP.guard", "late draft")
def _(s: Any) -> None:
    tells(s, "T-RESULT", k=0, n=told(s, "T-RESULT")["n"])


@pytest.mark.parametrize(
    ("oracle", "clause", "where", "change"),
    [pytest.param(*each, id=f"{each[0]}-{each[1]}-{each[2]}") for each in CHANGES],
)
def test_one_changed_figure_is_caught_by_its_clause(
    oracle: str, clause: str, where: str, change: Change, scene: Any, commands: Any
) -> None:
    made = make(scene, commands, where)
    made.only(oracle)
    change(made.snapshot)
    assert clause in made.clauses()


@pytest.mark.parametrize("where", SCENES)
def test_an_unchanged_snapshot_breaks_nothing(where: str, scene: Any, commands: Any) -> None:
    """All oracles together: no false alarm."""
    assert make(scene, commands, where).judge() == []


def test_hashed_blocks_in_order_break_nothing(scene: Any, commands: Any) -> None:
    """INV-REUSE, INV-LOOKUP, INV-TABLES: what an engine shows of them, and nothing is wrong."""
    made = make(scene, commands, "lent")
    laid_out(made.snapshot)
    assert made.judge() == []


def test_every_oracle_is_tested_here() -> None:
    assert {each[0] for each in CHANGES} | {"progress", "operators", "matches"} == set(ORACLES)


def test_a_matched_request_hides_which_pages_it_locks(scene: Any, commands: Any) -> None:
    """INV-LOCK.count is not judged while a match has no row: never a false alarm."""
    made = make(scene, commands, "idle")
    made.only("locks")
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
    """``rows.width``; without it a row holds the context."""
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
    found = play(engine, Setup(EngineConfig()), commands).log[-1].violations
    assert {each.clause for each in found if each.invariant == "INV-ORDER"} == clauses


def test_only_the_oracle_of_the_check_sees_that_it_did_not_run(scene: Any, commands: Any) -> None:
    """All oracles together; a bug beside the mutant of tests/alone.py."""
    made = make(scene, commands, "lent")
    made.snapshot["checker"]["ran"] = False
    assert made.clauses() == {"INV-CHECKER.ran"}


def test_a_check_that_is_off_need_not_run(scene: Any, commands: Any) -> None:
    """INV-CHECKER.ran speaks of checks that are on, and of batches that were there."""
    made = make(scene, commands, "lent")
    made.only("checker")
    made.snapshot["checker"] |= {"ran": False, "level": 0}
    assert made.clauses() == set()
    made = make(scene, commands, "idle")
    made.only("checker")
    made.snapshot["checker"] |= {"ran": False}
    assert made.clauses() == set()


def pool(total: int) -> dict[str, Any]:
    return {"total": total, "available": total, "evictable": 0, "protected": 0, "free": []}


def plain(snap: Any, prompt: int = 13) -> object:
    """Somebody without a session waits; nobody uses that of s1."""
    snap["requests"]["r2"].update(session=None, kind="plain", prompt=prompt)
    snap["sessions"]["s1"]["inflight"] = None
    return snap


def all_held(snap: Any, slot: int = 64, **figures: int) -> object:
    """Somebody without a session waits, nothing is free, and the slot of s1 has so much."""
    plain(snap)
    snap["pools"]["full"].update(available=0, free=[], **figures)
    snap["slots"]["s1"]["A"] = slot
    if not slot:
        snap["slots"].clear()
    return snap


def beside(snap: Any, rid: str, session: str | None = None, **kv: Any) -> object:
    """Another request."""
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
"""States in which a request waits, by the cause of it."""


class TestProgress:
    """INV-PROGRESS: 16 steps of the same, and a request."""

    def waiting(self, scene: Any, commands: Any) -> Any:
        """A turn that waits beside its session's slot."""
        made = make(scene, commands, "waiting")
        made.only("progress")
        nothing = {"row": -1, "loan": None, "C": 0, "A": 0, "Q": 0, "E": 0}
        made.snapshot["requests"]["r2"] |= {"phase": "waiting", **nothing}
        made.snapshot["slots"]["s1"]["lent"] = False
        made.snapshot["consumed"] = made.referee.client.unread.clear() or 0
        return made

    def stalled(
        self, scene: Any, commands: Any, paused: bool = False, phase: str = "waiting"
    ) -> list[int]:
        """Numbers of the snapshots at which the clause fires."""
        made = self.waiting(scene, commands)
        made.snapshot["requests"]["r2"]["phase"] = phase
        made.referee.client.paused = paused
        return [n for n in range(PATIENCE + 4) if made.clauses() == {"INV-PROGRESS.stalled"}]

    def test_fires_once_after_16_steps(self, scene: Any, commands: Any) -> None:
        assert self.stalled(scene, commands) == [PATIENCE]

    def test_seconds_are_no_steps(self, scene: Any, commands: Any) -> None:
        """While time passes nothing runs (found on SGLang: 16 ticks and a turn that ran)."""
        made = self.waiting(scene, commands)
        made.judge()
        for _ in range(PATIENCE + 4):
            made.snapshot["iter"] = made.referee.snapshot["iter"]
            assert made.clauses() == set()

    @pytest.mark.parametrize("phase", ["parked", "running"])
    def test_whoever_does_not_move_is_stalled(self, phase: str, scene: Any, commands: Any) -> None:
        assert self.stalled(scene, commands, phase=phase) == [PATIENCE]

    @pytest.mark.parametrize("word", WAITS)
    def test_it_says_what_is_missing_and_who_holds_it(
        self, word: str, scene: Any, commands: Any
    ) -> None:
        """Stalls with different causes are different findings; the sentence has the cause, too."""
        made = self.waiting(scene, commands)
        WAITS[word](made.snapshot)
        found = [each for _ in range(PATIENCE + 2) for each in made.judge()]
        cause = word.partition(" ")[0]
        assert [each.pins for each in found] == [cause]
        words = CAUSES[cause.split("-")[-1]].partition("{n}")
        assert words[0] in found[0].detail and words[2] in found[0].detail
        assert Mark(found[0].clause, (), "step", cause).id == f"INV-PROGRESS.stalled@step:{cause}"

    def test_every_cause_has_a_state_that_shows_it(self) -> None:
        shown = {word.partition(" ")[0].split("-")[-1] for word in WAITS}
        assert shown == CAUSES.keys() - {"read"}  # test_sense.py has an engine that reads nothing

    def test_a_window_is_enough_of_a_prompt_that_exceeds_its_pool(
        self, scene: Any, commands: Any
    ) -> None:
        """SGLang #31205: no session exists, everything is free, and nobody holds anything."""
        for prompt in (11, 12, 40):
            made = self.waiting(scene, commands)
            plain(made.snapshot, prompt)
            made.snapshot["slots"].clear()
            made.snapshot["pools"]["full"] |= {"available": 64, "free": list(range(16))}
            made.snapshot["pools"]["swa"] = {**pool(12), "free": [0, 1, 2]}
            made.referee.config = replace(made.referee.config, window=2, swa_tokens=12)
            found = [each for _ in range(PATIENCE + 2) for each in made.judge()]
            assert [each.pins for each in found] == ["swa-reserve"], prompt

    @pytest.mark.parametrize(("draft", "pins"), [(0, "full-reserve"), (4, "full-idle")])
    def test_drafts_need_memory_too(self, draft: int, pins: str, scene: Any, commands: Any) -> None:
        """What is there suffices for the tokens, not for a round of drafts beside them."""
        made = self.waiting(scene, commands)
        made.referee.config = replace(made.referee.config, draft=draft)
        made.referee.client.unanswered["r2"] = Sent(None, [1], 1, [])
        plain(made.snapshot, 13)
        made.snapshot["slots"]["s1"]["A"] = 48
        made.snapshot["pools"]["full"].update(available=16, free=[12, 13, 14, 15])
        found = [each for _ in range(PATIENCE + 2) for each in made.judge()]
        assert [each.pins for each in found] == [pins]

    @pytest.mark.parametrize("word", ["full-idle", "rows-idle", "full-waiting", "full-nobody"])
    @pytest.mark.parametrize("clause", ["stalled", "starved"])
    def test_a_documented_choice_is_counted_and_not_judged(
        self, clause: str, word: str, scene: Any, commands: Any
    ) -> None:
        """The profile vllm: nobody gets what a paused session holds. All else is judged."""
        made = self.waiting(scene, commands)
        referee, client = made.referee, made.referee.client
        referee.constants = replace(referee.constants, profile=PROFILES["vllm"])
        WAITS[word](made.snapshot)
        if clause == "starved":
            client.unanswered, client.patience = {"r2": Sent(None, [1], 1, [])}, 1
        found = [each for _ in range(PATIENCE + 1) for each in made.judge()]
        key = f"INV-PROGRESS.{clause}:{word} (docs/findings/paused-session-pins.md)"
        if word.endswith("-idle"):
            assert found == [] and referee.coverage.by_choice[key] == 1
            assert f"not judged      {key}, 1 times" in left_out({}, {}, referee.coverage.by_choice)
            assert Coverage.from_json(referee.coverage.to_json()) == referee.coverage
        else:
            assert (f"INV-PROGRESS.{clause}", word) in [(e.clause, e.pins) for e in found]
            assert not referee.coverage.by_choice

    def test_where_somebody_runs_and_stands_still_nothing_is_a_choice(
        self, scene: Any, commands: Any
    ) -> None:
        made = self.waiting(scene, commands)
        made.referee.constants = replace(made.referee.constants, profile=PROFILES["vllm"])
        WAITS["full-idle"](made.snapshot)
        beside(made.snapshot, "q1", phase="running", row=1, A=4)
        assert [each.pins for _ in range(PATIENCE + 2) for each in made.judge()] == ["full-idle"]

    def test_a_choice_of_the_profile_stays_where_a_configuration_changes_others(self) -> None:
        chosen = Setup(EngineConfig()).choices(
            replace(InProcessEngine().capabilities, profile="vllm")
        )
        assert chosen.idle_stays == PROFILES["vllm"].idle_stays
        assert {each.name for each in PROFILES.values() if each.idle_stays} == {"vllm"}

    def test_a_paused_engine_is_not_stalled(self, scene: Any, commands: Any) -> None:
        assert self.stalled(scene, commands, paused=True) == []

    def test_who_answers_somebody_goes_on(self, scene: Any, commands: Any) -> None:
        """A prompt that comes and goes in every iteration keeps those who run waiting, as policy
        has it (found on SGLang, whose prompts go first)."""
        made = self.waiting(scene, commands)
        made.snapshot["messages"] = [
            {"type": "finish", "rid": "r8", "reason": "abort", "tokens": [], "message": ""}
        ]
        assert [made.clauses() for _ in range(PATIENCE + 4)] == [set()] * (PATIENCE + 4)

    def test_a_change_starts_the_count_again(self, scene: Any, commands: Any) -> None:
        made = make(scene, commands, "waiting")
        made.only("progress")
        made.snapshot["requests"]["r2"]["phase"] = "waiting"
        for number in range(3 * PATIENCE):
            made.snapshot["pools"]["full"]["available"] = number // 8
            assert made.clauses() == set()


class Deaf(InProcessEngine):
    """It ignores one kind of command."""

    def __init__(self, told: str) -> None:
        super().__init__()
        self.told = told

    def do(self, command: Command) -> list[Snapshot]:
        self.engine.intake._handlers[self.told] = lambda _: None
        return super().do(command)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("told", ["retract", "accept", "pause", "evict"])
def test_what_the_engine_is_told_is_done(told: str, overlap: bool) -> None:
    """INV-ANSWER.obeyed: by the reference; not by an engine that is deaf to just that."""
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
    found = play(Deaf(told), setup, commands).log[-1].violations
    assert {each.clause for each in found} == {"INV-ANSWER.obeyed"}
    other = Deaf(told)
    words = {**other.capabilities.not_observed, operators.TOLD: "it does so at times"}
    other.capabilities = replace(other.capabilities, not_observed=words)
    assert play(other, setup, commands).log[-1].violations == [], "its driver says that it can't"


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
    """INV-PROGRESS.discarded: in a small pool somebody may need it, and a flush may take it; of a
    history of one token nothing can be used, for that is computed anew."""
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
    found = play(InProcessEngine(mutant), setup, commands).log[-1].violations
    assert {each.clause for each in found} == clauses


def test_a_false_alarm_of_the_check_is_caught(scene: Any, commands: Any) -> None:
    """INV-CHECKER.alarm: it says leak when memory is lost or shared, and only then."""
    made = make(scene, commands, "lent")
    made.only("checker")
    made.snapshot["checker"]["verdict"] = "leak"
    assert made.clauses() == {"INV-CHECKER.alarm"}


@pytest.mark.parametrize(("logged", "clauses"), [(9, set()), (2, {"INV-CHECKER.dump"})])
def test_a_check_that_fails_shows_those_before_it(
    logged: int, clauses: set[str], scene: Any, commands: Any
) -> None:
    """INV-CHECKER.dump (#27238): at level 1, which logs nothing else."""
    made = make(scene, commands, "late")
    made.only("checker")
    made.snapshot["checker"] |= {"verdict": "leak", "logged": logged, "kept": 0}
    assert made.clauses() - {"INV-CHECKER.alarm"} == clauses


def test_a_violation_is_data(scene: Any, commands: Any) -> None:
    """A violation is shown by its fields, and its sentence is made of them."""
    seen = make(scene, commands, "idle")
    seen.only("pages")
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


def test_actors_come_in_the_order_of_the_snapshot(scene: Any, commands: Any) -> None:
    """Which one a violation names is the same in every process, whatever its hash seed."""
    seen = make(scene, commands, "idle")
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
