"""Every mutant in its museum scenario: the reference is clean there, the mutant is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotproof_engine import EngineConfig, build
from slotproof_engine.mutants import MUTANTS, answers, choices, mutant_named

Script = Callable[[Any], object]
SCENARIOS: dict[str, tuple[dict[str, Any], Script, set[str], int | None]] = {}


def scenario(
    name: str, broken: set[str], reported: int | None = None, **config: Any
) -> Callable[[Script], Script]:
    """``broken``: clauses that the audit finds broken. ``reported``: the engine's own sum."""

    def add(script: Script) -> Script:
        SCENARIOS[name] = config, script, broken, reported
        return script

    return add


def turn1(d: Any) -> Any:
    """The museum's turn 1: leaves Q = 4, C = A = 10, available = 90."""
    return d.open("s").submit("s", "r1", [5, 6, 7, 8], 7).step(7)


@scenario("22213-double-count", {"INV-CHECKER"}, 106)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()


@scenario("22213b-rows-on-loan", {"INV-ROWS"}, 100)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()


@scenario("retract-unheard", set())
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 9).step(3).do("retract").step()


@scenario("pause-unheard", set())
def _(d: Any) -> None:
    d.do("pause").submit(None, "r1", [5, 6], 9).step(3)


@scenario("evict-unheard", set(), page_size=4, total_tokens=100)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7, 8, 9], 2).drain().do("evict", tokens=1).step()


@scenario("accept-unheard", set(), draft=3)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 12).step()
    for tokens in (1, 2, 3):
        d.do("accept", rid="r1", tokens=tokens).step()


@scenario("restore-all-or-nothing", set())
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 0).drain().submit("s", "r2", [], 3).step()


@scenario("overlap-retracts-unheard", set(), overlap=True)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 2).step(40)


@scenario("answer-overshoot", set(), draft=4)
@scenario("answer-last-token", set())
@scenario("answer-length-as-stop", set())
@scenario("answer-past-stop", set())
@scenario("answer-stop-as-length", set())
def stopped(d: Any) -> None:
    """One that ends by length, at whatever draft, and one that its own first token stops."""
    d.submit(None, "r1", [5], 2).submit(None, "r2", [5, 6], 3).drain()
    [first, second] = (d.answer(rid)["tokens"] for rid in ("r1", "r2"))
    d.submit(None, "r3", [5], 8, stop=tuple(first[:1])).drain()
    d.submit(None, "r4", [5, 6], 8, stop=tuple(second[-1:])).drain()


@scenario("answer-no-reason", set())
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 1).drain()


@scenario("answer-doomed-token", set())
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5] * 90, 90).drain()


@scenario("abort-unasked", set(), max_running=1)
def _(d: Any) -> None:
    for number in range(5):
        d.submit(None, f"r{number}", [5, 6], 6)
    d.step(3)


@scenario("abort-for-idle-slots", set(), total_tokens=24)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5] * 10, 2).drain()
    d.submit(None, "r2", [6] * 20, 2).step()


@scenario("abort-unheard", set())
@scenario("abort-wrong-tokens", set())
def aborted(d: Any) -> None:
    d.submit(None, "r1", [5], 9).step(3)
    d.do("abort", rid="r1").step()


@scenario("limit-one-more", set(), max_running=1)
@scenario("limit-long-chunk", set(), chunk=4)
def two_at_once(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4, 5, 6], 6).submit(None, "r2", [8, 9], 6).step(3)


@scenario("session-opened-twice", set())
@scenario("session-id-once", set())
@scenario("session-closes-nothing", set())
@scenario("session-silent-close", set())
def opened_again(d: Any) -> None:
    d.open("s").do("close", session="s").do("close", session="s").open("s").step()


@scenario("evict-one-page", set())
@scenario("flush-unheard", set())
def given_up(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7, 8, 9], 2).drain().do("evict", tokens=2).step()
    d.do("flush").step()


def answer(d: Any, rid: str) -> list[int]:
    return list(next(each["tokens"] for each in d.messages if each.get("rid") == rid))


@scenario("stop-one-of-two", set())
@scenario("retract-loses-stops", set())
def stopped_later(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7], 6).drain()
    stops = [answer(d, "r1")[3], 1]
    d.submit(None, "r2", [5, 6, 7], 6, stop=stops).step(2).do("retract").drain()


@scenario("stop-of-before", set())
def _(d: Any) -> None:
    d.open("s", "t").submit("s", "r1", [5, 6], 2).drain().submit("s", "r2", [7], 4).drain()
    stops = answer(d, "r2")[1:2]
    d.submit("t", "r3", [5, 6], 2, stop=stops).drain().submit("t", "r4", [7], 4).drain()


@scenario("wake-at-finish", set(), total_tokens=20)
def _(d: Any) -> None:
    d.submit(None, "r1", [*range(1, 11)], 8).step().submit(None, "r2", [*range(21, 33)], 2).step()
    d.do("abort", rid="r1").step(4)


@scenario("session-refused-idle", set(), timeout=300, context_len=16)
def _(d: Any) -> None:
    d.open("s").step()
    d.tick(200)
    d.submit("s", "r1", [*range(1, 17)], 1).step(2)
    d.tick(200)


@scenario("session-reopened-idle", set(), timeout=300)
def _(d: Any) -> None:
    d.open("s").step()
    d.tick(200)
    d.do("close", session="s").open("s").step()
    d.tick(200)


@scenario("session-early-timeout", set(), timeout=300)
def _(d: Any) -> None:
    d.open("s").step()
    d.tick(60)


@scenario("session-late-timeout", set(), timeout=300)
def _(d: Any) -> None:
    turn1(d).tick(300)


REFUSED = {"INV-SUM-FULL", "INV-OWNER", "INV-ROWS", "INV-LOCK"}


@scenario("22753-sticky-active", REFUSED, 94, max_running=1)
@scenario("20476-restore-empties-slot", REFUSED, 94, max_running=1)
def refused(d: Any) -> None:
    turn1(d).submit(None, "busy", [9], 9).step()
    d.submit("s", "r2", [1, 2], 3).step()


@scenario("20070-unaligned-protected", {"INV-SUM-FULL", "INV-ALIGN"}, 94, page_size=4)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()


@scenario("20557-empty-key", {"INV-SUM-FULL", "INV-OWNER"}, 99)
@scenario("9173-empty-slot-crash", {"IndexError"})
def empty_key(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 0).step()
    d.submit("s", "r2", [], 1).step()


@scenario("22273-doomed-restores", {"INV-SUM-FULL", "INV-ORDER"}, 68)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", list(range(1, 17)), 17).step(17)
    assert d.figures() == (68, 0, 16, 16, 0)
    d.submit("s", "r2", [1] * 90, 1).step()
    assert d.answer("r2")["reason"] == "abort"


@scenario("22862-no-free-tail", {"INV-SUM-FULL", "INV-OWNER"}, 96, draft=4)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 90).step(2)
    [req] = d.engine.scheduler.running_reqs()
    while req.kv_allocated_len - req.kv_committed_len < 4:  # a round that accepted no draft
        d.step()
    d.do("retract").step()


@scenario("22862r-unaligned-free-tail", {"INV-SUM-FULL", "INV-OWNER"}, page_size=4, draft=4)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 90).step(2)
    [req] = d.engine.scheduler.running_reqs()
    while req.kv_committed_len % 4 == 0 or req.kv_allocated_len == req.kv_committed_len:
        d.step()
    d.do("retract").step()


@scenario("22897-no-trim", {"INV-COVER"}, draft=4)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 3).drain()


@scenario(
    "22900-trim-forgets-cursor", {"INV-CURSOR", "INV-SUM-SWA"}, draft=4, window=1, swa_tokens=100
)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 3).drain()


@scenario("32163-unaligned-reuse", set(), aligned_reuse=True, page_size=2)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 2).step(2)
    d.submit("s", "r2", [1], 2).step()


@scenario("26676-restore-does-nothing", {"INV-SUM-FULL", "INV-OWNER"}, 99)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 1).step()
    d.submit("s", "r2", [], 1).step()


@scenario("22790a-abort-drops-row", {"INV-SUM-FULL", "INV-ROWS", "INV-OWNER"}, 97)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()
    d.do("abort", rid="r2").step()
    d.do("close", session="s").step()


@scenario("22790b-first-turn-abort", {"INV-LOCK", "INV-ROWS"}, 100)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 3).step()
    d.do("abort", rid="r1").step()


@scenario("22790c-history-at-create", set())
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()
    d.do("abort", rid="r2").submit("s", "r3", [3], 3).step()


@scenario("22790d-two-in-flight", {"INV-SUM-FULL", "INV-OWNER"})
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).submit("s", "r3", [3], 3).step()


@scenario("21875a-close-releases-running", {"INV-SUM-FULL", "INV-OWNER"}, 109)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()
    d.do("close", session="s").step()


@scenario("42571-double-free", {"INV-SUM-FULL", "INV-OWNER"}, 101)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 0).step()
    d.do("close", session="s").step()


@scenario("2954-double-unpin", {"INV-LOCK"}, 100)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 2).step(2)
    d.do("close", session="s").step()


def one_free(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 1).step()
    d.do("close", session="s").step()


LOST = {"INV-SUM-FULL", "INV-OWNER"}
LOST_SWA = {"INV-SUM-SWA", "INV-OWNER"}
scenario("leak-full", LOST, 99)(one_free)
scenario("leak-full-off", {*LOST, "INV-CHECKER"})(one_free)
scenario("leak-full-blind", {*LOST, "INV-CHECKER"}, 99)(one_free)
scenario("leak-swa", LOST_SWA, 100, window=1, swa_tokens=100)(one_free)
scenario("leak-swa-blind", {*LOST_SWA, "INV-CHECKER"}, 100, window=1, swa_tokens=100)(one_free)


@scenario("check-off-between-chunks", {"INV-CHECKER"}, chunk=4)
def _(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4, 5, 6], 2).step()


@scenario("check-off-at-the-end", {"INV-CHECKER"})
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 1).step()


@scenario("27228a-check-off-with-drafts", {"INV-CHECKER"}, draft=1)
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 2).step()


@scenario("27228b-batch-equality", {"RuntimeError"})
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 9).step(2)
    d.submit(None, "r2", [6, 7], 9).step()


@scenario("37502-parked-not-counted", {"INV-CHECKER"}, 92, chunk=8)
def _(d: Any) -> None:
    d.submit(None, "r1", [5] * 9, 9).step()


@scenario("21499-one-pool-check", {"INV-CHECKER"}, 100, window=1, swa_tokens=100)
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 9).step()


@scenario("stale-first-position", {"INV-CONTENT"})
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2], 3).step()


@scenario("prefix-out-of-order", {"INV-CONTENT"}, 100)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7], 1).step().submit(None, "r2", [5, 6, 7, 8], 3).step()


@scenario("prefix-last-token-twice", set())
def matched(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7, 8], 1).step().submit(None, "r2", [5, 6, 7, 9], 3).step()


@scenario("prefix-prompt-private", set())
@scenario("prefix-answer-dropped", set())
def shared_prompt(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7, 8], 3).step(3)


@scenario("prefix-ends-of-pages", {"INV-CONTENT"}, 100, page_size=4)
@scenario("prefix-split-by-last-token", {"INV-OWNER"}, 100, page_size=4)
def middle_of_a_page(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4, 5], 9).step().submit(None, "r2", [1, 2, 9, 4, 5], 3).step()


@scenario("prefix-hash-without-order", {"INV-CONTENT"}, 100, page_size=4)
def _(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4, 5], 9).step().submit(None, "r2", [1, 3, 2, 4, 5], 3).step()


@scenario("prefix-hash-without-parent", {"INV-CONTENT", "INV-OWNER"}, 100)
def _(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4], 9).step().submit(None, "r2", [1, 9, 3, 4], 3).step()


@scenario("short-window", {"INV-CONTENT"}, 100, window=2, swa_tokens=100)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6, 7], 3).step()


@scenario("22862m-extra-minus-one", set(), 100)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [], 3).step()


@scenario("27228c-batch-twice", {"INV-CHECKER"}, 101)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 9).step(2)


@scenario("27228e-merges-into-itself", {"INV-CHECKER"}, 99)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 9).step(3)


@scenario("27228d-batch-by-size", set(), 100)
def _(d: Any) -> None:
    d.submit(None, "r1", [5, 6], 9).step().submit(None, "r2", [7, 8], 9).step()


@scenario("27238a-loud", set(), 100, checker_level=1)
@scenario("27238b-keeps-nothing", set(), 100, checker_level=1)
@scenario("27238c-silent", LOST, 99, checker_level=1)
def quiet(d: Any) -> None:
    one_free(d)


@scenario("overlap-retracted-result", {"INV-CONTENT"}, 100, overlap=True)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 9).step(3)
    d.do("retract").step(2)


@scenario("overlap-late-result", {"INV-SUM-FULL", "INV-OWNER", "INV-ROWS"}, 99, overlap=True)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 0).step(3)


@scenario("overlap-late-free", {"INV-SUM-FULL", "INV-OWNER"}, 101, overlap=True)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 1).step(2)


@scenario("overlap-no-trim", {"INV-COVER"}, 100, overlap=True)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5], 0).step(2)


@scenario("overlap-stale-input", {"INV-CONTENT"}, 100, overlap=True)
def _(d: Any) -> None:
    d.submit(None, "r1", [5], 3).step(2)


@scenario("lent-leaves-prefix", set(), page_size=4, loan_publishes=True)
@scenario("lent-keeps-lock", set(), page_size=4, loan_publishes=True)
def lends(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2, 3, 4], 3).step()


@scenario("last-token-kept", set(), drops_last=True)
def _(d: Any) -> None:
    turn1(d).submit("s", "r2", [1], 1).drain()


@scenario("slack-counts", set(), draft=2, keeps_slack=True)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 2).step().do("accept", rid="r1", tokens=3).drain()


@scenario("queue-rejects-third", set(), queues_turns=True)
@scenario("queue-loses-third", set(), queues_turns=True)
@scenario("queue-newest-first", set(), queues_turns=True)
@scenario("queue-close-aborts", set(), queues_turns=True)
def queued(d: Any) -> None:
    d.open("s").submit("s", "r1", [5, 6], 2).submit("s", "r2", [7], 2).submit("s", "r3", [8], 1)
    d.do("close", session="s").drain()


def outcome(d: Any, script: Script) -> set[str]:
    """The clauses broken at the end; the exception where the engine crashed."""
    try:
        script(d)
    except (RuntimeError, IndexError) as error:
        return {type(error).__name__}
    clauses: set[str] = d.broken()
    return clauses


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_wrong_where_the_reference_is_right(drive: Any, name: str) -> None:
    config, script, broken, reported = SCENARIOS[name]
    reference, mutant = drive(**config), drive(name, **config)
    assert outcome(reference, script) == set()
    assert reference.engine.checker.verdict == "ok"
    found = outcome(mutant, script)
    assert broken <= found
    if reported is not None:
        assert mutant.reported_sum() == reported
    if reported not in (None, 100) and "blind" not in name:
        assert mutant.engine.checker.verdict == "leak"


@pytest.mark.parametrize("name", [name for name in MUTANTS if "overlap" in MUTANTS[name].needs])
def test_without_overlap_nothing_is_wrong(drive: Any, name: str) -> None:
    for script in (SCENARIOS[name][1], turn1, one_free, refused):
        d = drive(name, max_running=1)
        assert outcome(d, script) == set()
        d.drain()
        assert d.broken() == set()


def test_every_mutant_has_its_scenario() -> None:
    assert set(SCENARIOS) == set(MUTANTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_scenarios_meet_what_the_mutant_needs(name: str) -> None:
    config = SCENARIOS[name][0]
    for field, value in MUTANTS[name].needs.items():
        assert config[field] >= value


def test_22273_holds_less_than_nothing(drive: Any) -> None:
    """INV-ORDER: held = 1 - 16."""
    config, script, *_ = SCENARIOS["22273-doomed-restores"]
    d = drive("22273-doomed-restores", **config)
    script(d)
    assert d.figures() == (67, 0, 16, -15, 0)
    assert len(d.engine.controller.sessions["s"].history) == 1


def test_22790c_forgets_the_history(drive: Any) -> None:
    """INV-HISTORY: turn 3 begins with history and new tokens."""
    lengths = []
    for mutant in (None, "22790c-history-at-create"):
        d = drive(mutant)
        SCENARIOS["22790c-history-at-create"][1](d)
        lengths.append(len(d.engine.scheduler.reqs["r3"].origin_input_ids))
    assert lengths == [12, 1]


def test_32163_reuses_part_of_a_page(drive: Any) -> None:
    matched = []
    for mutant in (None, "32163-unaligned-reuse"):
        config, script, *_ = SCENARIOS["32163-unaligned-reuse"]
        d = drive(mutant, **config)
        script(d)
        matched.append(d.last("T-RESTORE")["C"])
    assert matched == [2, 3]


def test_a_slot_is_discarded_for_nothing(drive: Any) -> None:
    """INV-PROGRESS: there is room enough, and it could be restored."""
    told = []
    for mutant in (None, "restore-all-or-nothing"):
        d = drive(mutant)
        SCENARIOS["restore-all-or-nothing"][1](d)
        told.append([event[0] for event in d.events if event[0].startswith(("T-R", "T-DISC"))])
    assert told == [["T-RESTORE"], ["T-DISCARD"]]


def test_a_match_finds_less_than_there_is(drive: Any) -> None:
    """INV-MATCH: three tokens of the prompt are in the tree."""
    found = []
    for mutant in (None, "prefix-last-token-twice"):
        d = drive(mutant)
        matched(d)
        found.append(d.last("T-MATCH")["m"])
    assert found == [3, 2]


def test_the_tree_gets_nothing_of_a_prompt(drive: Any) -> None:
    """INV-MATCH: the request decodes, and nobody else finds its prompt."""
    told = []
    for mutant in (None, "prefix-prompt-private"):
        d = drive(mutant)
        shared_prompt(d)
        told.append([event[0] for event in d.events if event[0] == "T-INSERT"])
    assert told == [["T-INSERT"], []]


def test_the_tree_gets_nothing_of_an_answer(drive: Any) -> None:
    """INV-MATCH: prompt and answer are seven tokens, the last of them without KV."""
    left = []
    for mutant in (None, "prefix-answer-dropped"):
        d = drive(mutant)
        shared_prompt(d)
        left.append(d.last("T-PLAIN-FINISH")["q"])
    assert left == [6, 4]


def test_20476_leaves_a_lock_behind(drive: Any) -> None:
    """INV-LOCK: restore, save, close: the lock of turn 1 is nobody's."""
    d = turn1(drive("20476-restore-empties-slot", max_running=1))
    d.submit(None, "busy", [9], 3).step()
    d.submit("s", "r2", [1, 2], 3).drain().do("close", session="s").step()
    assert d.figures()[2] == 4


def test_22862m_computes_a_token_again(drive: Any) -> None:
    matched = []
    for mutant in (None, "22862m-extra-minus-one"):
        d = drive(mutant)
        SCENARIOS["22862m-extra-minus-one"][1](d)
        matched.append(d.last("T-RESTORE")["C"])
    assert matched == [10, 9]


def test_27228d_counts_one_batch_twice(drive: Any) -> None:
    counted = []
    for mutant in (None, "27228d-batch-by-size"):
        d = drive(mutant)
        SCENARIOS["27228d-batch-by-size"][1](d)
        counted.append(d.engine.checker.counted)
    assert counted == [["r2", "r1"], ["r2", "r2"]]


@pytest.mark.parametrize(
    ("mutant", "logged", "kept"),
    [
        (None, False, True),
        ("27238a-loud", True, True),
        ("27238b-keeps-nothing", False, False),
        ("leak-full", True, False),
        ("27238c-silent", False, True),
    ],
)
def test_27238_level_1_keeps_and_shows(
    drive: Any, mutant: str | None, logged: bool, kept: bool
) -> None:
    d = drive(mutant, checker_level=1)
    one_free(d)
    assert (bool(d.log), bool(d.engine.checker.recent)) == (logged, kept)


def heard(d: Any) -> list[tuple[Any, ...]]:
    """What clients were told, in order."""
    fields = ("type", "session", "rid", "reason", "tokens")
    return [tuple(str(each.get(name)) for name in fields) for each in d.messages]


def test_mutants_of_answers_and_limits_are_heard_of(drive: Any) -> None:
    """Memory is in order; what clients are told, or when, is not what the reference says."""
    starves = MUTANTS["overlap-retracts-unheard"]
    told = [f"{each}-unheard" for each in ("retract", "accept", "pause", "evict", "flush")]
    told.append("evict-one-page")
    for mutant in (*answers.MUTANTS, starves):
        config, script, *_ = SCENARIOS[mutant.name]
        reference, wrong = drive(**config), drive(mutant.name, **config)
        script(reference)
        script(wrong)
        limits = mutant.breaks == ("INV-LIMIT",) or mutant.name in told
        assert limits or heard(reference) != heard(wrong), mutant.name
        assert not limits or reference.events != wrong.events, mutant.name


def test_mutants_of_choices_are_wrong_where_the_audit_does_not_look(drive: Any) -> None:
    """The slot's prefix and length, who locks what, the history, and what clients are told."""

    def seen(d: Any) -> dict[str, Any]:
        slots, sessions = d.engine.cache.slots.values(), d.engine.controller.sessions.values()
        return {
            "prefixes": [slot.cache_protected_len for slot in slots],
            "lengths": [slot.kv_committed_len for slot in slots],
            "protected": d.figures()[2],
            "histories": [len(session.history) for session in sessions],
            "told": heard(d),
        }

    shows = {
        "lent-leaves-prefix": "prefixes",
        "lent-keeps-lock": "protected",
        "slack-counts": "lengths",
    }
    for mutant in choices.MUTANTS:
        config, script, *_ = SCENARIOS[mutant.name]
        reference, wrong = drive(**config), drive(mutant.name, **config)
        script(reference)
        script(wrong)
        right, other = seen(reference), seen(wrong)
        told = shows.get(mutant.name, "told" if "queue" in mutant.name else "histories")
        assert right[told] != other[told], mutant.name
        without = drive(mutant.name, page_size=4)
        turn1(without).submit("s", "r2", [1, 2, 3, 4], 3).drain()
        assert without.broken() == set(), "where the choice is not made nothing is wrong"


def test_names_of_mutants_are_checked() -> None:
    with pytest.raises(ValueError, match="unknown mutant 'nope'; there are: 20070"):
        build(EngineConfig(), "nope")
    assert mutant_named("leak-full").pr == "a plain fault"
