"""Mutants in their museum scenarios: the reference is clean, the mutant is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slotproof_engine import EngineConfig, build
from slotproof_engine.mutants import MUTANTS, answers, mutant_named

Script = Callable[[Any], object]
SCENARIOS: dict[str, tuple[dict[str, Any], Script, set[str], int | None]] = {}


def scenario(
    name: str, broken: set[str], reported: int | None = None, **config: Any
) -> Callable[[Script], Script]:
    """``broken``: clauses violated by the audit. ``reported``: the engine's own sum."""

    def add(script: Script) -> Script:
        SCENARIOS[name] = config, script, broken, reported
        return script

    return add


def turn1(d: Any) -> Any:
    """The museum's turn 1: leaves Q = 4, C = A = 10, available = 90."""
    return d.open("s").submit("s", "r1", [5, 6, 7, 8], 7).step(7)


def again(d: Any) -> Any:
    """The session's second turn."""
    return turn1(d).submit("s", "r2", [1, 2], 3).step()


def first(d: Any, prompt: int, max_new: int = 9) -> Any:
    """A first turn, in a session."""
    return d.open("s").submit("s", "r1", list(range(5, 5 + prompt)), max_new)


def alone(d: Any, prompt: int, max_new: int = 9) -> Any:
    """A request without a session."""
    return d.submit(None, "r1", list(range(5, 5 + prompt)), max_new)


def closes(d: Any) -> Any:
    return d.do("close", session="s")


scenario("22213-double-count", {"INV-CHECKER"}, 106)(again)
scenario("22213b-rows-on-loan", {"INV-ROWS"}, 100)(again)
scenario("20070-unaligned-protected", {"INV-SUM-FULL", "INV-ALIGN"}, 94, page_size=4)(again)
scenario("stale-first-position", {"INV-CONTENT"})(again)
scenario("22790a-abort-drops-row", {"INV-SUM-FULL", "INV-ROWS", "INV-OWNER"}, 97)(
    lambda d: closes(again(d).do("abort", rid="r2").step()).step()
)
scenario("22790c-history-at-create", set())(
    lambda d: again(d).do("abort", rid="r2").submit("s", "r3", [3], 3).step()
)
scenario("21875a-close-releases-running", {"INV-SUM-FULL", "INV-OWNER"}, 109)(
    lambda d: closes(again(d)).step()
)
scenario("22790d-two-in-flight", {"INV-SUM-FULL", "INV-OWNER"})(
    lambda d: turn1(d).submit("s", "r2", [1, 2], 3).submit("s", "r3", [3], 3).step()
)
scenario("session-late-timeout", set(), timeout=300)(lambda d: turn1(d).tick(300))
scenario("22862m-extra-minus-one", set(), 100)(lambda d: turn1(d).submit("s", "r2", [], 3).step())
scenario("last-token-kept", set(), drops_last=True)(
    lambda d: turn1(d).submit("s", "r2", [1], 1).drain()
)
scenario("retract-unheard", set())(lambda d: alone(d, 2).step(3).do("retract").step())
scenario("restore-all-or-nothing", set())(
    lambda d: first(d, 2, 0).drain().submit("s", "r2", [], 3).step()
)
scenario("overlap-retracts-unheard", set(), overlap=True)(lambda d: alone(d, 2, 2).step(40))


@scenario("answer-overshoot", set(), draft=4)
@scenario("answer-last-token", set())
@scenario("answer-length-as-stop", set())
@scenario("answer-past-stop", set())
def stopped(d: Any) -> None:
    """Submit a request ended by length at any draft, and a request stopped by its first token."""
    d.submit(None, "r1", [5], 2).submit(None, "r2", [5, 6], 3).drain()
    [first, second] = (d.answer(rid)["tokens"] for rid in ("r1", "r2"))
    d.submit(None, "r3", [5], 8, stop=tuple(first[:1])).drain()
    d.submit(None, "r4", [5, 6], 8, stop=tuple(second[-1:])).drain()


scenario("answer-no-reason", set())(lambda d: alone(d, 1, 1).drain())


@scenario("abort-unasked", set(), max_running=1)
def _(d: Any) -> None:
    for number in range(5):
        d.submit(None, f"r{number}", [5, 6], 6)
    d.step(3)


scenario("abort-unheard", set())(lambda d: alone(d, 1).step(3).do("abort", rid="r1").step())


@scenario("limit-one-more", set(), max_running=1)
@scenario("limit-long-chunk", set(), chunk=4)
def two_at_once(d: Any) -> None:
    d.submit(None, "r1", [1, 2, 3, 4, 5, 6], 6).submit(None, "r2", [8, 9], 6).step(3)


@scenario("session-opened-twice", set())
@scenario("session-silent-close", set())
def opened_again(d: Any) -> None:
    closes(closes(d.open("s"))).open("s").step()


scenario("session-early-timeout", set(), timeout=300)(lambda d: d.open("s").step().tick(60))
REFUSED = {"INV-SUM-FULL", "INV-OWNER", "INV-ROWS", "INV-LOCK"}


@scenario("22753-sticky-active", REFUSED, 94, max_running=1)
@scenario("20476-restore-empties-slot", REFUSED, 94, max_running=1)
def refused(d: Any) -> None:
    turn1(d).submit(None, "busy", [9], 9).step()
    d.submit("s", "r2", [1, 2], 3).step()


@scenario("20557-empty-key", {"INV-SUM-FULL", "INV-OWNER"}, 99)
@scenario("9173-empty-slot-crash", {"IndexError"})
def empty_key(d: Any) -> None:
    first(d, 1, 0).step().submit("s", "r2", [], 1).step()


@scenario("22273-doomed-restores", {"INV-SUM-FULL", "INV-ORDER"}, 68)
def _(d: Any) -> None:
    d.open("s").submit("s", "r1", list(range(1, 17)), 17).step(17)
    assert d.figures() == (68, 0, 16, 16, 0)
    d.submit("s", "r2", [1] * 90, 1).step()
    assert d.answer("r2")["reason"] == "abort"


@scenario("22862-no-free-tail", {"INV-SUM-FULL", "INV-OWNER"}, 96, draft=4)
def _(d: Any) -> None:
    first(d, 1, 90).step(2)
    [req] = d.engine.scheduler.running_reqs()
    while req.kv_allocated_len - req.kv_committed_len < 4:  # a round without accepted drafts
        d.step()
    d.do("retract").step()


@scenario("22862r-unaligned-free-tail", {"INV-SUM-FULL", "INV-OWNER"}, page_size=4, draft=4)
def _(d: Any) -> None:
    first(d, 1, 90).step(2)
    [req] = d.engine.scheduler.running_reqs()
    while req.kv_committed_len % 4 == 0 or req.kv_allocated_len == req.kv_committed_len:
        d.step()
    d.do("retract").step()


@scenario("22897-no-trim", {"INV-COVER"}, draft=4)
@scenario(
    "22900-trim-forgets-cursor", {"INV-CURSOR", "INV-SUM-SWA"}, draft=4, window=1, swa_tokens=100
)
def trimmed(d: Any) -> None:
    first(d, 1, 3).drain()


scenario("32163-unaligned-reuse", set(), aligned_reuse=True, page_size=2)(
    lambda d: first(d, 2, 2).step(2).submit("s", "r2", [1], 2).step()
)
scenario("26676-restore-does-nothing", {"INV-SUM-FULL", "INV-OWNER"}, 99)(
    lambda d: first(d, 1, 1).step().submit("s", "r2", [], 1).step()
)
scenario("22790b-first-turn-abort", {"INV-LOCK", "INV-ROWS"}, 100)(
    lambda d: first(d, 1, 3).step().do("abort", rid="r1").step()
)
scenario("42571-double-free", {"INV-SUM-FULL", "INV-OWNER"}, 101)(
    lambda d: closes(first(d, 2, 0).step()).step()
)
scenario("2954-double-unpin", {"INV-LOCK"}, 100)(lambda d: closes(first(d, 1, 2).step(2)).step())


def one_free(d: Any) -> None:
    closes(first(d, 1, 1).step()).step()


LOST = {"INV-SUM-FULL", "INV-OWNER"}
LOST_SWA = {"INV-SUM-SWA", "INV-OWNER"}
scenario("leak-full", LOST, 99)(one_free)
scenario("leak-full-off", {*LOST, "INV-CHECKER"})(one_free)
scenario("leak-full-blind", {*LOST, "INV-CHECKER"}, 99)(one_free)
scenario("leak-swa", LOST_SWA, 100, window=1, swa_tokens=100)(one_free)
scenario("leak-swa-blind", {*LOST_SWA, "INV-CHECKER"}, 100, window=1, swa_tokens=100)(one_free)
scenario("27238a-loud", set(), 100, checker_level=1)(one_free)
scenario("27238b-keeps-nothing", set(), 100, checker_level=1)(one_free)
scenario("27238c-silent", LOST, 99, checker_level=1)(one_free)
scenario("27228a-check-off-with-drafts", {"INV-CHECKER"}, draft=1)(lambda d: alone(d, 1, 2).step())
scenario("27228b-batch-equality", {"RuntimeError"})(
    lambda d: alone(d, 1).step(2).submit(None, "r2", [6, 7], 9).step()
)
scenario("37502-parked-not-counted", {"INV-CHECKER"}, 92, chunk=8)(lambda d: alone(d, 9).step())
scenario("21499-one-pool-check", {"INV-CHECKER"}, 100, window=1, swa_tokens=100)(
    lambda d: alone(d, 1).step()
)
scenario("prefix-out-of-order", {"INV-CONTENT"}, 100)(
    lambda d: alone(d, 3, 1).step().submit(None, "r2", [5, 6, 7, 8], 3).step()
)
scenario("prefix-last-token-twice", set())(
    lambda d: alone(d, 4, 1).step().submit(None, "r2", [5, 6, 7, 9], 3).step()
)
scenario("prefix-prompt-private", set())(lambda d: alone(d, 4, 3).step(3))
scenario("prefix-answer-dropped", set())(lambda d: alone(d, 4, 3).step(3))
scenario("short-window", {"INV-CONTENT"}, 100, window=2, swa_tokens=100)(
    lambda d: alone(d, 3, 3).step()
)
scenario("27228c-batch-twice", {"INV-CHECKER"}, 101)(lambda d: alone(d, 2).step(2))
scenario("27228e-merges-into-itself", {"INV-CHECKER"}, 99)(lambda d: alone(d, 2).step(3))
scenario("27228d-batch-by-size", set(), 100)(
    lambda d: alone(d, 2).step().submit(None, "r2", [7, 8], 9).step()
)


@scenario("lent-leaves-prefix", set(), page_size=4, loan_publishes=True)
def lends(d: Any) -> None:
    turn1(d).submit("s", "r2", [1, 2, 3, 4], 3).step()


scenario("slack-counts", set(), draft=2, keeps_slack=True)(
    lambda d: first(d, 2, 2).step().do("accept", rid="r1", tokens=3).drain()
)
scenario("queue-newest-first", set(), queues_turns=True)(
    lambda d: closes(first(d, 2, 2).submit("s", "r2", [7], 2).submit("s", "r3", [8], 1)).drain()
)

scenario("result-twice", set(), 100, overlap=True, draft=1)(lambda d: alone(d, 1, 3).step(3))
scenario("result-outlives-retract", {"INV-CONTENT"}, 100, overlap=True)(
    lambda d: alone(d, 2).step(2).do("retract").step(2)
)
scenario("history-of-output", set(), 100, draft=1)(
    lambda d: first(d, 1, 2).do("accept", rid="r1", tokens=2).step(2)
)
scenario("retract-begins-again", set(), 100, retract="wipe")(
    lambda d: first(d, 2).step(3).do("retract").step()
)
scenario("round-allocates-more", set(), 100)(lambda d: alone(d, 1).step(2))
scenario("evicts-unasked", set(), 100)(
    lambda d: alone(d, 4, 1).step().submit(None, "r2", [1], 1).step()
)
scenario("cursor-stays", set(), 100, window=1, swa_tokens=100)(lambda d: alone(d, 2).step(4))
scenario("22790e-ephemeral-slot", LOST_SWA, 100, window=1, swa_tokens=100)(
    lambda d: first(d, 2).step(4).do("abort", rid="r1").step()
)


def outcome(d: Any, script: Script) -> set[str]:
    """Return the clauses violated at the end, or the exception of a crashed engine."""
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
    violated = outcome(mutant, script)
    assert broken <= violated
    if reported is not None:
        assert mutant.reported_sum() == reported
    if reported not in (None, 100) and "blind" not in name:
        assert mutant.engine.checker.verdict == "leak"


@pytest.mark.parametrize("name", [name for name in MUTANTS if 1 in MUTANTS[name].needs.values()])
def test_where_what_it_needs_is_off_nothing_is_wrong(drive: Any, name: str) -> None:
    """Choices, drafts, chunks, a window."""
    for script in (SCENARIOS[name][1], turn1, one_free, refused, lends):
        d = drive(name, max_running=1, page_size=4)
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


def test_20476_leaves_a_lock_behind(drive: Any) -> None:
    """INV-LOCK: restore, save, close: the lock of turn 1 is nobody's."""
    d = turn1(drive("20476-restore-empties-slot", max_running=1))
    d.submit(None, "busy", [9], 3).step()
    d.submit("s", "r2", [1, 2], 3).drain().do("close", session="s").step()
    assert d.figures()[2] == 4


def test_22790e_frees_window_kv_twice(drive: Any) -> None:
    """INV-SUM-SWA: Q = 2, E = 4. The slot without a cursor frees [2, 4) a second time."""
    config, script, *_ = SCENARIOS["22790e-ephemeral-slot"]
    d = drive("22790e-ephemeral-slot", **config)
    script(d)
    assert (d.reported_sum("swa"), d.engine.checker.verdict) == (102, "leak")


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
    """Return the messages to clients, in order."""
    fields = ("type", "session", "rid", "reason", "tokens")
    return [tuple(str(message.get(name)) for name in fields) for message in d.messages]


def happened(d: Any, *starts: str) -> list[str]:
    return [event[0] for event in d.events if event[0].startswith(starts)]


def positions(d: Any, transition: str) -> list[int]:
    """Return the position of the first reported token in each event of the transition."""
    return [event[3]["at"] for event in d.events if event[0] == transition]


SHOWN: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "22790c-history-at-create": (
        lambda d: len(d.engine.scheduler.reqs["r3"].origin_input_ids),
        *(12, 1),
    ),
    "32163-unaligned-reuse": (lambda d: d.last("T-RESTORE")["C"], 2, 3),
    "22862m-extra-minus-one": (lambda d: d.last("T-RESTORE")["C"], 10, 9),
    "27228d-batch-by-size": (lambda d: d.engine.checker.counted, ["r2", "r1"], ["r2", "r2"]),
    "restore-all-or-nothing": (
        lambda d: happened(d, "T-R", "T-DISC"),
        *(["T-RESTORE"], ["T-DISCARD"]),
    ),
    "prefix-last-token-twice": (lambda d: d.last("T-MATCH")["m"], 3, 2),
    "prefix-prompt-private": (lambda d: happened(d, "T-INSERT"), ["T-INSERT"], []),
    "prefix-answer-dropped": (lambda d: d.last("T-PLAIN-FINISH")["q"], 6, 4),
    "lent-leaves-prefix": (
        lambda d: [slot.cache_protected_len for slot in d.engine.cache.slots.values()],
        *([12], [4]),
    ),
    "slack-counts": (
        lambda d: [slot.kv_committed_len for slot in d.engine.cache.slots.values()],
        *([4], [5]),
    ),
    "last-token-kept": (
        lambda d: [len(session.history) for session in d.engine.controller.sessions.values()],
        *([11], [13]),
    ),
    "result-twice": (lambda d: positions(d, "T-RESULT"), *([1, 2], [1, 2, 2])),
    "result-outlives-retract": (lambda d: positions(d, "T-RESULT"), *([2, 3], [2, 3, 3])),
    "history-of-output": (
        lambda d: [len(session.history) for session in d.engine.controller.sessions.values()],
        *([3], [4]),
    ),
    "retract-begins-again": (
        lambda d: [len(req.output_ids) for req in d.engine.scheduler.reqs.values()],
        *([4], [1]),
    ),
    "round-allocates-more": (lambda d: d.last("T-DECODE")["d"], 1, 2),
    "evicts-unasked": (lambda d: happened(d, "T-EVICT"), [], ["T-EVICT"]),
    "cursor-stays": (lambda d: happened(d, "T-SWA-ADVANCE"), *(["T-SWA-ADVANCE"] * 2, [])),
}
"""By mutant, for bugs invisible to the audit: result on the reference, and on the mutant."""


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_differs(drive: Any, name: str) -> None:
    config, script, *_ = SCENARIOS[name]
    shown, right, wrong = SHOWN[name]
    for mutant, expected in ((None, right), (name, wrong)):
        d = drive(mutant, **config)
        script(d)
        assert shown(d) == expected


@pytest.mark.parametrize("name", [*(bug.name for bug in answers.MUTANTS), "queue-newest-first"])
def test_mutants_of_answers_and_limits_are_heard_of(drive: Any, name: str) -> None:
    """The memory is correct, but the content or time of messages differs from the reference."""
    config, script, *_ = SCENARIOS[name]
    reference, wrong = drive(**config), drive(name, **config)
    script(reference)
    script(wrong)
    if name.startswith("limit-") or name == "retract-unheard":
        assert reference.events != wrong.events
    else:
        assert heard(reference) != heard(wrong)


def test_names_of_mutants_are_checked() -> None:
    with pytest.raises(ValueError, match="unknown mutant 'nope'; there are: 20070"):
        build(EngineConfig(), "nope")
    assert mutant_named("leak-full").pr == "a plain fault"
