"""The explore reading: exact counts as an alarm, full reach, and the ability to fail.

A changed count means a changed spec. After an intended change, ``make explore`` prints the new
counts.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from slotproof_model.evaluation.evaluate import outcomes
from slotproof_model.evaluation.explore import REQUEST, SESSION, Bounds, CanonicalState, Explorer
from slotproof_model.evaluation.layout import EMPTY_ACTOR
from slotproof_model.evaluation.world import World
from slotproof_model.spec.expr import TRUE
from slotproof_model.spec.memory import EMPTY, Mem, Move
from slotproof_model.spec.state import ACTOR, NO_ROW
from slotproof_model.spec.transitions import TRANSITIONS
from tests.checks.__main__ import main
from tests.checks.explore import DEFAULT, Explored, default, explore, report, told
from tests.checks.pages import PAGED, count_pages

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

COUNTS = {
    "two-sessions": (31086, 398626, 31),
    "turn-by-turn": (79051, 847435, 35),
    "pages": (52163, 625673, 26),
    "drafts": (6511, 53627, 24),
    "window": (3618, 27152, 20),
    "window-pages": (6633, 61706, 21),
    "wipe": (12855, 159149, 22),
    "overlap": (2759, 20762, 21),
    "late": (934, 6783, 17),
    "publish": (993, 8674, 19),
    "lent": (643, 5234, 18),
}
"""States, edges, steps to the farthest state."""
EDGES = {
    "T-OPEN": 1910,
    "T-CLOSE": 12581,
    "T-CLOSE-DEFER": 139618,
    "T-REAP": 25162,
    "T-SUBMIT": 12664,
    "T-REJECT": 16223,
    "T-DOOM": 2098,
    "T-PLAIN-SUBMIT": 9945,
    "T-MATCH": 33873,
    "T-RESTORE": 35226,
    "T-DISCARD": 53150,
    "T-REFUSE": 60721,
    "T-EXTEND": 371242,
    "T-PARK": 92687,
    "T-INSERT": 192109,
    "T-DECODE": 40936,
    "T-LAUNCH": 2192,
    "T-RESULT": 1300,
    "T-LATE-RESULT": 24,
    "T-SWA-ADVANCE": 3004,
    "T-SAVE": 33906,
    "T-LATE-FINISH": 12,
    "T-ABORT": 229640,
    "T-ABORT-PUBLISH": 1608,
    "T-OOM": 143826,
    "T-ABORT-WAITING": 33954,
    "T-ABORT-PARTIAL": 11874,
    "T-RETRACT": 162656,
    "T-RETRACT-WIPE": 8554,
    "T-EVICT": 299504,
    "T-PLAIN-FINISH": 46092,
    "T-PLAIN-ABORT": 86159,
    "T-PLAIN-RETRACT": 50371,
}
"""Edges by transition, over all bound sets."""
SMALL = Bounds("small", sessions=1, requests=0, tree=1, width=2, history=1)


@pytest.fixture(scope="module")
def explored() -> dict[str, Explored]:
    return {bounds.name: explore(bounds) for bounds in DEFAULT}


def test_counts_are_pinned(explored: dict[str, Explored]) -> None:
    assert {n: (e.states, e.edges, e.depth) for n, e in explored.items()} == COUNTS


def test_edges_per_transition_are_pinned(explored: dict[str, Explored]) -> None:
    assert {
        id_: sum(graph.transitions[id_] for graph in explored.values()) for id_ in EDGES
    } == EDGES
    assert set(EDGES) == set(TRANSITIONS)


def test_every_invariant_holds_everywhere(explored: dict[str, Explored]) -> None:
    """Every state and step invariant holds, in every state and across every edge."""
    assert [graph.broken for graph in explored.values()] == [None] * len(DEFAULT)
    assert all(graph.complete for graph in explored.values())


def test_every_transition_is_reached(explored: dict[str, Explored]) -> None:
    reached = {id_ for graph in explored.values() for id_ in graph.transitions}
    assert reached == set(TRANSITIONS)


def test_every_guard_is_seen_both_ways(explored: dict[str, Explored]) -> None:
    holds = fails = 0
    for graph in explored.values():
        holds, fails = holds | graph.holds, fails | graph.fails
    everything = (1 << len(outcomes(1).names)) - 1
    assert (holds, fails) == (everything, everything)


def test_the_same_twice() -> None:
    first, second = explore(SMALL), explore(SMALL)
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_depth_cuts_off_and_says_so() -> None:
    whole = explore(SMALL)
    cut = explore(SMALL, depth=3)
    assert (cut.depth, cut.complete) == (3, False)
    assert cut.states < whole.states
    lines = list(report([cut]))
    assert lines[0].startswith(f"small: {cut.states} states, {cut.edges} edges, 3 deep, cut off")
    assert "T-RESTORE.holding never held" in lines and "T-LAUNCH: 0 edges" in lines
    assert explore(SMALL, depth=whole.depth).complete


def test_another_page_size_takes_the_lengths_along() -> None:
    first = default(page_size=4, sessions=None)[0]
    assert (first.page_size, first.width, first.tokens) == (4, 8, 24)


def as_world(bounds: Bounds, state: CanonicalState) -> World:
    """Return the same state in the evaluate reading, with a distinct number for every row."""
    world = World(bounds.constants, list(state.pools))
    names = [f"s{index}" for index in range(len(state.sessions))]
    names += [f"/r{index}" for index in range(len(state.requests))]
    for row, (name, values) in enumerate(
        zip(names, (*state.sessions, *state.requests), strict=True)
    ):
        if values != EMPTY_ACTOR:
            world.put(name, numbered(values, row))
    return world


def numbered(values: tuple[int, ...], row: int) -> list[int]:
    return [
        row if var.name.endswith(".row") and value != NO_ROW else value
        for var, value in zip(ACTOR, values, strict=True)
    ]


@pytest.mark.parametrize("bounds", [DEFAULT[0], DEFAULT[2], DEFAULT[5]], ids=lambda b: b.name)
def test_agrees_with_the_evaluate_reading(bounds: Bounds) -> None:
    """Random paths through the graph agree with ``World``, step by step."""
    explorer = Explorer(bounds)
    rng = random.Random(0)
    for _ in range(60):
        at = explorer.initial()
        for _ in range(25):
            steps = [
                (births, actor, move)
                for view, births, actor in explorer.views(at)
                for move in explorer.moves.of(view, births)
                if explorer.after(at, actor, births, move) is not None
            ]
            rare = rng.choice(sorted({move.transition for *_, move in steps}))
            births, actor, move = rng.choice([step for step in steps if step[2].transition == rare])
            world = as_world(bounds, at)
            sid = rid = None
            place = 0
            if births is SESSION:
                place = at.sessions.index(actor)
                sid, rid = f"s{place}", "new"
            elif births is REQUEST:
                place = at.requests.index(actor)
                rid = f"r{place}"
                place += len(at.sessions)
            params = explorer.stride(move, at).params
            if "row" in params:
                params["row"] = place
            assert world.apply(rare, sid, rid, params) == []
            target = explorer.after(at, actor, births, move)
            assert target is not None
            assert list(world.pools) == list(target.pools)
            ours = sorted(numbered(tuple(map(int, actor)), 0) for actor in world.actors.values())
            actors = (*target.sessions, *target.requests)
            assert ours == sorted(list(actor) for actor in actors if actor != EMPTY_ACTOR)
            at = target


def test_the_command_tells_what_it_saw(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--sessions", "1", "--pages", "2", "--page-size", "2", "--depth", "5"]
    assert main(["explore", *asked]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines[: len(DEFAULT)]] == [b.name for b in DEFAULT]
    assert all("5 deep, cut off there" in line for line in lines[: len(DEFAULT)])


# Failures --------------------------------------------------------------------------


def test_a_forgotten_release_is_found_with_the_shortest_path() -> None:
    close = replace(TRANSITIONS["T-CLOSE"], memory=())
    broken = explore(SMALL, {**TRANSITIONS, "T-CLOSE": close}).broken
    assert broken is not None
    assert (broken.invariant, broken.conjunct) == ("INV-SLACK-STEP", "together")
    assert [told(stride) for stride in broken.path] == [
        "T-OPEN",
        "T-SUBMIT new=1",
        "T-MATCH m=0 locked=0 swa_locked=0",
        "T-EXTEND t=1 ahead=0 sampled=0 told=0 row=0",
        "T-SAVE",
        "T-CLOSE u=0 swa_u=0",
    ]


def test_a_broken_step_invariant_ends_its_path() -> None:
    reject = replace(TRANSITIONS["T-REJECT"], effect=dict(TRANSITIONS["T-DOOM"].effect))
    open_again = replace(TRANSITIONS["T-OPEN"], guard={"any": TRUE})
    broken = explore(SMALL, {**TRANSITIONS, "T-REJECT": reject, "T-OPEN": open_again}).broken
    assert broken is not None
    assert broken.path[-1].transition == "T-OPEN"
    assert told(broken.path[0]) == "T-OPEN"


# Pages ------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", PAGED, ids=lambda bounds: bounds.name)
def test_counts_count_pages(bounds: Bounds) -> None:
    """INV-OWNER: pages by owner, times P, are the figures, in every state."""
    counted = count_pages(bounds)
    assert counted.mismatch is None
    assert (counted.states, counted.edges, counted.handed_over) == PAGES[bounds.name]


PAGES = {
    "8 pages": (3700, 39012, 15054),
    "8 pages of 2": (6511, 53627, 29863),
    "8 pages of 2, window": (2522, 19282, 18138),
    "3 pages, two sessions": (5800, 57076, 12147),
}
"""States, edges, pages that changed owner."""


def test_a_balanced_mistake_is_seen_by_the_pages_alone() -> None:
    """The right number of tokens is freed, but from the wrong positions."""
    whole = TRANSITIONS["T-ABORT"]
    first, *rest = whole.memory
    low, high = first.full.lo, first.full.hi
    shifted = Mem(Move.FREE, replace(first.full, lo=low + 1, hi=high + 1), EMPTY)
    mutant = {**TRANSITIONS, "T-ABORT": replace(whole, memory=(shifted, *rest))}
    bounds = replace(SMALL, width=3)
    assert explore(bounds, mutant).broken is None
    mismatch = count_pages(bounds, mutant).mismatch
    assert mismatch is not None
    assert "no page of its own at" in mismatch
