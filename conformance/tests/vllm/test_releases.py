"""Every vLLM release served by the driver, in short. `make test` runs one of them."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.drivers.vllm.slotproof_vllm import content
from slotproof.engines.methods import methods_of
from slotproof.engines.process import ProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof.search.symptoms import AcceptedFindings
from tests.arrays import covers_its_tuples
from tests.turns import CLOSE, OPEN, STEP, steps, turn

pytestmark = pytest.mark.vllm

RELEASES = ("0.15.0", "0.33.0")
NEW = RELEASES[-1]
DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "vllm"
BROKEN = Path(__file__).parent / "broken.py"
(DROPPED,) = content.follows([1], 1)
"""Answer to the prompt [1]. The next turn writes another token over it."""
MOST = ("INV-ANSWER.most", "INV-ANSWER.length")
"""Violated by 0.15.0: every turn of a session gets the length of the first (README)."""


@pytest.fixture(scope="module", params=RELEASES)
def build(
    request: pytest.FixtureRequest, python_of: Callable[[str], Path]
) -> Iterator[ProcessEngine]:
    engine = EngineSpec("vllm", python_of(request.param), step_timeout=60).open()
    assert isinstance(engine, ProcessEngine)
    with closing(engine):
        yield engine


@pytest.fixture(scope="module")
def broken(python_of: Callable[[str], Path]) -> Iterator[ProcessEngine]:
    """The newest release. The seed of a reset chooses the fault."""
    with closing(broken_build(python_of)) as engine:
        yield engine


def broken_build(python_of: Callable[[str], Path], *words: str) -> ProcessEngine:
    env = {**os.environ, "PYTHONPATH": str(DRIVER)}
    return ProcessEngine([str(python_of(NEW)), str(BROKEN), *words], 60, env)


def test_a_search_has_each_pair_and_each_triple_of_what_it_offers(build: ProcessEngine) -> None:
    covers_its_tuples(build.capabilities)


def tokens(first: int, count: int) -> list[int]:
    return list(range(first + 1, first + count + 1))


def plain(rid: str, length: int, max_new: int) -> Command:
    return turn(rid, length, max_new, None)


def accept(rid: str, count: int) -> Command:
    return {"do": "accept", "rid": rid, "tokens": count}


FLUSH: Command = {"do": "flush_all"}
STOPS = content.follows([1, 2, 3, 4, 5, 6], 2)[1:]
"""Stop tokens that end a turn at its second token, while a third is in flight."""
AGAIN = [turn("r2", 2, 6), steps(8)]

LIVES: dict[str, tuple[str, list[Command], str]] = {
    "two turns": ("p1", [OPEN, turn("r1", 6, 4), steps(6), turn("r2", 3, 3), steps(6)], "RESTORE"),
    "pages of 4": ("p4", [OPEN, turn("r1", 6, 4), steps(6), turn("r2", 3, 3), steps(6)], "INSERT"),
    "pages of 16": ("p16", [OPEN, turn("r1", 20, 4), steps(8), turn("r2", 3, 3), steps(6)], "SAVE"),
    "chunks": ("p1-chunk", [OPEN, turn("r1", 11, 4), steps(9), turn("r2", 9, 3), steps(9)], "PARK"),
    "a prefix is shared": (
        "p4",
        [plain("r1", 9, 2), steps(3), plain("r2", 9, 2), steps(3)],
        "MATCH",
    ),
    "turns wait": (
        "p4",
        [OPEN, turn("r1", 5, 4), turn("r2", 3, 2), turn("r3", 1, 2), steps(2), CLOSE, steps(12)],
        "CLOSE-DEFER",
    ),
    "an abort ends the session": (
        "p4",
        [OPEN, turn("r1", 5, 4), turn("r2", 3, 2), STEP, {"do": "abort", "rid": "r1"}, STEP, OPEN],
        "ABORT",
    ),
    "a waiting turn is aborted": (
        "p1",
        [OPEN, turn("r1", 5, 2), steps(3), turn("r2", 2, 2), {"do": "abort", "rid": "r2"}, STEP],
        "ABORT-WAITING",
    ),
    "a turn is preempted": (
        "p4-tight",
        [OPEN, turn("r1", 13, 12), plain("r2", 14, 14), steps(45)],
        "PLAIN-RETRACT",
    ),
    "a turn is wiped": (
        "p4-tight",
        [plain("r2", 14, 14), STEP, OPEN, turn("r1", 13, 12), steps(45)],
        "RETRACT-WIPE",
    ),
    "a full cache": (
        "p4-tight",
        [*({**plain(f"r{n}", 0, 2), "tokens": tokens(30 * n, 24)} for n in range(4)), steps(30)],
        "EVICT",
    ),
    "flush": (
        "p4",
        [plain("r1", 9, 2), steps(3), {"do": "flush"}, plain("r2", 9, 2), steps(3)],
        "EVICT",
    ),
    "a forced flush": (
        "p4",
        [OPEN, turn("r1", 9, 6), plain("r2", 5, 6), steps(3), FLUSH, steps(12)],
        "RETRACT-WIPE",
    ),
    "a forced flush ahead": (
        "p1-overlap",
        [OPEN, turn("r1", 9, 6), plain("r2", 5, 6), steps(3), FLUSH, steps(12)],
        "PLAIN-RETRACT",
    ),
    "a forced flush before an abort": (
        "p1-overlap",
        [plain("r1", 1, 1), STEP, FLUSH, {"do": "abort_all"}, steps(3)],
        "PLAIN-RETRACT",
    ),
    "a pool below the context": (
        "p1-tight",
        [plain("r1", 9, 4), {**plain("r2", 0, 4), "tokens": tokens(30, 9)}, steps(30)],
        "PLAIN-RETRACT",
    ),
    "stop token": (
        "p1",
        [OPEN, {**turn("r1", 3, 6), "stop": list(range(1, 200))}, steps(8)],
        "SAVE",
    ),
    "a token is dropped": (
        "p1",
        [
            OPEN,
            turn("r1", 1, 1),
            STEP,
            {**turn("r2", 0, 1), "tokens": [9]},
            STEP,
            {**plain("r3", 0, 2), "tokens": [1, DROPPED, 3]},
            STEP,
        ],
        "RESTORE",
    ),
    "rounds": (
        "p1-draft",
        [OPEN, turn("r1", 3, 9), STEP, accept("r1", 4), STEP, accept("r1", 1), steps(6), *AGAIN],
        "DECODE",
    ),
    "rounds and pages": (
        "p4-draft",
        [OPEN, turn("r1", 6, 9), STEP, accept("r1", 5), STEP, accept("r1", 2), steps(6), *AGAIN],
        "INSERT",
    ),
    "rounds and chunks": (
        "p4-rounds",
        [OPEN, turn("r1", 13, 9), plain("r3", 15, 9), steps(3), accept("r1", 3), steps(9), *AGAIN],
        "PARK",
    ),
    "a turn ends inside a round": (
        "p4-draft",
        [OPEN, turn("r1", 2, 2), STEP, accept("r1", 5), STEP, turn("r2", 1, 2), steps(3)],
        "SAVE",
    ),
    "a batch ahead": (
        "p1-overlap",
        [OPEN, {**turn("r1", 6, 4), "stop": STOPS}, steps(9), *AGAIN],
        "RESULT",
    ),
    "chunks ahead": (
        "p1-chunk-overlap",
        [OPEN, turn("r1", 11, 4), plain("r3", 9, 5), steps(12), *AGAIN],
        "LAUNCH",
    ),
    "rounds ahead": (
        "p1-draft-overlap",
        [OPEN, turn("r1", 3, 9), STEP, accept("r1", 4), STEP, accept("r1", 1), steps(8), *AGAIN],
        "RESULT",
    ),
    "preempted ahead": (
        "p16-overlap",
        [plain("r1", 30, 18), OPEN, turn("r2", 30, 18), plain("r3", 31, 17), steps(50)],
        "LAUNCH",
    ),
    "refused": (
        "p1",
        [OPEN, turn("r1", 3, 0), turn("r2", 0, 2), turn("r3", 48, 1), steps(2)],
        "OPEN",
    ),
}
"""Lives handled right by every release: configuration, commands, an expected transition."""


HASH = "INV-LOOKUP.holds"
FIXED = {
    "turns wait": "INV-ANSWER.most",
    "two turns": HASH,
    "chunks": HASH,
    "a token is dropped": HASH,
    "a turn ends inside a round": "INV-COVER.idle",
    "rounds": HASH,
    "a batch ahead": "INV-COVER.idle",
    "chunks ahead": HASH,
    "rounds ahead": HASH,
    "rounds and chunks": "INV-COVER.idle",
}
"""Clauses violated by 0.15.0 (README), by life."""


@pytest.mark.parametrize("life", LIVES)
def test_what_every_release_does_right(build: ProcessEngine, life: str) -> None:
    """INV-STEP, INV-CONTENT: in lockstep with the spec, and at the end all memory is freed."""
    config, commands, told = LIVES[life]
    if build.version != NEW and life in FIXED:
        log = play(build, Setup(CONFIGS[config]), commands).log
        clauses = {violation.clause for entry in log for violation in entry.violations}
        assert FIXED[life] in clauses
        return
    referee = lived(build, config, [*commands, CLOSE, steps(20)])
    assert f"T-{told}" in {
        event[0] for entry in referee.log for seen in entry.snapshots for event in seen["events"]
    }
    pool = referee.log[-1].snapshots[-1]["pools"]["full"]
    assert pool["available"] + pool["evictable"] == pool["total"], "INV-DRAIN"


def lived(build: ProcessEngine, config: str, commands: list[Command]) -> Referee:
    aside = () if build.version == NEW else MOST
    referee = play(build, Setup(CONFIGS[config], ignored=aside), commands)
    assert [str(violation) for violation in referee.log[-1].violations] == []
    return referee


def test_without_a_prefix_cache_nothing_is_shared(build: ProcessEngine) -> None:
    setup = Setup(replace(CONFIGS["p4"], no_tree=True))
    log = play(build, setup, LIVES["a prefix is shared"][1]).log
    assert log[-1].violations == []
    seen = [snapshot for entry in log for snapshot in entry.snapshots]
    assert {event[0] for snapshot in seen for event in snapshot["events"]}.isdisjoint({"T-INSERT"})
    assert [snapshot["options"] for snapshot in seen][:1] == [["no_tree"]]


def test_a_paused_engine_admits_nothing(build: ProcessEngine) -> None:
    if "pause" not in build.capabilities.commands:
        pytest.skip("this build's scheduler can't be paused")
    commands = [OPEN, turn("r1", 3, 3), STEP, {"do": "pause"}, plain("r2", 2, 2), steps(2)]
    paused = lived(build, "p1", commands)
    assert [snapshot["events"] for snapshot in paused.log[-1].snapshots][1:] == [[]]
    lived(build, "p1", [*commands, {"do": "continue"}, steps(4), CLOSE, STEP])


def test_a_small_campaign_finds_only_what_has_a_page(build: ProcessEngine) -> None:
    """Every configuration accepted by the build, for some seconds."""
    if build.version != NEW:
        pytest.skip("its bugs are fixed in newer releases")
    plainly = ("p1", "p1-one", "p1-chunk", "p4", "p4-tight", "p16")
    modes = ("p1-draft", "p4-rounds", "p1-overlap", "p1-draft-overlap", "p4-rounds-overlap")
    configs = {name: CONFIGS[name] for name in (*plainly, *modes)}
    waits = "INV-PROGRESS.stalled@step:full-waiting"  # resumed-sessions-deadlock.md
    crash = (
        "RuntimeError-Failed-to-reset-KV-cache-even-when-all-the-runn"  # flush-paused-session.md
    )
    accepted = AcceptedFindings(frozenset({waits, f"INV-ALIVE.crash@step:{crash}"}))
    outcome = campaign.run(build, "vllm", Plan(configs, examples=88), accepted=accepted)
    assert outcome.trace is None, outcome.trace and outcome.trace.violations
    offered = build.capabilities.transitions
    assert offered - outcome.coverage.transitions.keys() <= {"T-LATE-FINISH"}, "that one is rare"


def test_only_a_batch_ahead_shows_what_is_wrong_with_placeholders(broken: ProcessEngine) -> None:
    seed, config, commands, _ = FAULTS["placeholder kept"]
    setup = Setup(replace(CONFIGS[config], overlap=False), seed)
    assert play(broken, setup, commands).log[-1].violations == []


def test_with_priorities_a_block_is_found_that_was_never_filled(
    python_of: Callable[[str], Path],
) -> None:
    """r1 preempts r2 in the batch that schedules a round of r2. The round has shared its last whole
    block but never runs. r5, with the tokens of r2, reads the block (README)."""
    seen = tokens(0, 26)
    copied = [*seen, *content.follows(seen, 18), 240]
    commands = [
        plain("r2", 26, 22),
        steps(2),
        {**plain("r1", 0, 27), "tokens": tokens(100, 21)},
        steps(4),
        {"do": "abort", "rid": "r1"},
        {**plain("r5", 0, 3), "tokens": copied},
        steps(3),
    ]
    publishes = ("INV-STEP.guard", "INV-PUBLISH-STEP.committed", HASH)
    with closing(ProcessEngine([str(python_of(NEW)), str(DRIVER)], 60)) as engine:
        for priority, aside, expected in (
            (True, (), set(publishes)),
            (True, publishes, {"INV-CONTENT.stamp"}),
            (False, (), set[str]()),
        ):
            setup = Setup(replace(CONFIGS["p4-draft"], priority=priority), ignored=aside)
            log = play(engine, setup, commands).log
            assert {violation.clause for violation in log[-1].violations} == expected


def test_with_priorities_a_block_that_was_filled_stays_shared(
    python_of: Callable[[str], Path],
) -> None:
    """r2 is preempted in the batch after its blocks were filled, before the batch schedules it."""
    commands = [plain("r2", 2, 10), STEP, {**plain("r1", 0, 10), "tokens": tokens(100, 3)}]
    for _ in range(9):
        commands += [accept("r1", 2), accept("r2", 2), STEP]
    small = replace(CONFIGS["p1-draft"], total_tokens=20, context_len=20, draft=1, topk=1)
    with closing(ProcessEngine([str(python_of(NEW)), str(DRIVER)], 60)) as engine:
        setup = Setup(replace(small, max_running=2, rows=2, priority=True))
        log = play(engine, setup, commands).log
    assert log[-1].violations == [] and len(log) == len(commands)
    told = {event[0] for entry in log for seen in entry.snapshots for event in seen["events"]}
    assert "T-PLAIN-RETRACT" in told


def test_with_priorities_a_block_is_evicted_for_who_gives_way(
    python_of: Callable[[str], Path],
) -> None:
    """r2 gets the last block of the tree. r3 preempts it in the same batch and gets the block."""
    commands = [
        OPEN,
        {"do": "open", "session": "s2"},
        turn("r1", 1, 8, "s2"),
        steps(5),
        turn("r2", 24, 8),
        turn("r3", 24, 5, "s2"),
        plain("r4", 1, 1),
        steps(8),
    ]
    with closing(ProcessEngine([str(python_of(NEW)), str(DRIVER)], 60)) as engine:
        log = play(engine, Setup(replace(CONFIGS["p1"], priority=True)), commands).log
    assert log[-1].violations == [] and len(log) == len(commands)
    told = [[event[0] for event in seen["events"]] for seen in log[-1].snapshots][-1]
    assert told[:4] == ["T-EVICT", "T-DECODE", "T-RETRACT-WIPE", "T-DECODE"]


@pytest.mark.parametrize("fault", ["round swapped", "rejected kept", "trimmed kept"])
def test_only_rounds_show_what_is_wrong_with_rounds(broken: ProcessEngine, fault: str) -> None:
    """The same commands without drafts find nothing."""
    seed, config, commands, _ = FAULTS[fault]
    plainly = [command for command in commands if command["do"] != "accept"]
    setup = Setup(replace(CONFIGS[config], draft=0), seed)
    assert play(broken, setup, plainly).log[-1].violations == []


def test_the_content_shows_a_rejected_token_that_counts(
    python_of: Callable[[str], Path], broken: ProcessEngine
) -> None:
    """The KV at its position belongs to another token. Later sampled tokens are wrong, too. The
    real worker does not run the batch, because it has no token before the drafts."""
    seed, config, commands, _ = FAULTS["rejected kept"]
    others = (*(f"INV-STEP.{clause}" for clause in ("state", "guard", "event")), "INV-COVER.req")
    aside = (*others, "INV-PUBLISH-STEP.committed", "INV-COVER-STEP.rounds", HASH)
    setup = Setup(CONFIGS[config], seed, ignored=aside)
    with closing(broken_build(python_of, "unchecked")) as unchecked:
        log = play(unchecked, setup, commands).log
    assert "INV-CONTENT" in {violation.clause.partition(".")[0] for violation in log[-1].violations}
    (crash,) = play(broken, setup, commands).log[-1].violations
    assert "gpu/model_runner.py: prepare_inputs: s1#1: 3 drafts among 3 tokens" in str(crash)


def one_by_one(commands: list[Command]) -> list[Command]:
    """Return the commands with each step alone. A crash hides the earlier steps of its command."""
    return [one for command in commands for one in [STEP] * command.get("n", 0) or [command]]


TWO_TURNS = [OPEN, turn("r1", 9, 4), steps(6), turn("r2", 3, 3), steps(6)]
FAULTS: dict[str, tuple[int, str, list[Command], set[str]]] = {
    "blocks swapped": (1, "p4", TWO_TURNS, {"INV-CONTENT.stamp"}),
    "freed early": (2, "p4", TWO_TURNS, {"INV-OWNER.shared", "INV-LOCK.count"}),
    "found wrongly": (
        3,
        "p4",
        [plain("r1", 9, 2), steps(3), {**plain("r2", 0, 2), "tokens": tokens(30, 9)}, steps(3)],
        {"INV-CONTENT.stamp"},
    ),
    "preempted whole": (4, *LIVES["a turn is preempted"][:2], {"INV-ALIVE.crash"}),
    "token kept": (5, "p1", TWO_TURNS, {"INV-HISTORY.prompt"}),
    "round swapped": (6, *LIVES["rounds"][:2], {"INV-CONTENT.stamp"}),
    "rejected kept": (7, "p1-draft", one_by_one(LIVES["rounds"][1]), {"INV-STEP.state"}),
    "placeholder kept": (9, *LIVES["a batch ahead"][:2], {"INV-COVER.idle"}),
    "trimmed kept": (8, *LIVES["a turn ends inside a round"][:2], {"INV-COVER.idle"}),
    "newest first": (18, "p4", [*LIVES["turns wait"][1][:4], steps(12)], {"INV-SESSION.order"}),
}


SHARED = LIVES["a prefix is shared"][1]
LAWS: dict[str, tuple[int, str, list[Command], str]] = {
    "block lost": (10, "p4", SHARED, "INV-REUSE.all"),
    "block queued in use": (11, "p4", SHARED, "INV-REUSE.unused"),
    "hash not filed": (12, "p4", SHARED[:2], "INV-LOOKUP.found"),
    "hash stays filed": (
        13,
        "p4-tight",
        [plain("r1", 24, 2), steps(4), {**plain("r2", 0, 1), "tokens": tokens(30, 9)}, steps(2)],
        "INV-LOOKUP.there",
    ),
    "hash of dropped": (14, *LIVES["a token is dropped"][:2], "INV-LOOKUP.holds"),
    "entry stays": (15, "p4", SHARED, "INV-TABLES.ended"),
    "end not told": (16, "p4", SHARED, "INV-TABLES.ended"),
    "preempted forgotten": (17, *LIVES["a turn is preempted"][:2], "INV-TABLES.queued"),
}
"""Faults caught by no other clause, or only later by their harm."""


@pytest.mark.parametrize("fault", LAWS)
def test_laws_of_the_block_pool_and_the_queues(broken: ProcessEngine, fault: str) -> None:
    """INV-REUSE, INV-LOOKUP and INV-TABLES alone are violated, in the iteration of the fault."""
    seed, config, commands, wanted = LAWS[fault]
    log = play(broken, Setup(CONFIGS[config], seed), commands).log
    assert {violation.clause for violation in log[-1].violations} == {wanted}


def test_the_changed_driver_is_sound_without_a_fault(broken: ProcessEngine) -> None:
    for _, config, commands, _ in (*FAULTS.values(), *LAWS.values()):
        lived(broken, config, commands)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_build_is_seen(broken: ProcessEngine, fault: str) -> None:
    """The driver shows the build's real state, right or wrong."""
    seed, config, commands, wanted = FAULTS[fault]
    log = play(broken, Setup(CONFIGS[config], seed), commands).log
    assert wanted & {violation.clause for violation in log[-1].violations}


def test_methods_that_make_transitions_are_there(
    build: ProcessEngine, python_of: Callable[[str], Path]
) -> None:
    """Readers of a trace search the sources for these names."""
    python = python_of(build.version)
    (folder,) = python.parents[1].glob("lib/python3.*/site-packages/vllm/v1")
    defined = set()
    for path in (path for part in ("core", "engine") for path in (folder / part).rglob("*.py")):
        for definition in ast.parse(path.read_text()).body:
            if isinstance(definition, ast.ClassDef):
                kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
                members = [node for node in definition.body if isinstance(node, kinds)]
                defined |= {f"{definition.name}.{member.name}" for member in members}
    named = methods_of(f"vllm {build.version}")
    assert set(named) - {"T-DISCARD"} == build.capabilities.transitions, "of a patched build alone"
    assert {name for methods in named.values() for name in methods} - defined == set()
