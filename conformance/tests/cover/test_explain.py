"""The search that explains two snapshots of an engine without events.

The events of the reference engine are hidden, and what the search finds is
compared with them.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.lockstep.abstraction import abstract
from slotproof.conformance.lockstep.explain import explain
from slotproof.conformance.lockstep.oracles import steps
from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search.machine import prompt

RUNS = 120
Pair = tuple[Counter[str], list[Counter[str]] | None]
"""What the engine did, and how the search explains it."""


def command(rng: random.Random, number: int) -> Command:
    sid = rng.choice(["s1", "s2"])
    submit = {
        "do": "submit",
        "session": rng.choice([sid, sid, sid, None]),
        "rid": f"r{number}",
        "tokens": prompt(rng.randrange(2), rng.randint(1, 7)),
        "max_new": rng.randint(1, 5),
        "stop": [],
    }
    return rng.choice(
        [
            submit,
            submit,
            submit,
            {"do": "open", "session": sid},
            {"do": "abort", "rid": f"r{number - rng.randint(1, 3)}"},
            {"do": "close", "session": sid},
            {"do": "retract"},
            {"do": "evict", "tokens": rng.randint(1, 9)},
        ]
    )


def run(seed: int) -> list[Pair]:
    rng = random.Random(seed)
    referee = Referee(InProcessEngine(), CONFIGS[rng.choice(list(CONFIGS))])
    referee.do({"do": "open", "session": "s1"})
    referee.do({"do": "step", "n": 1})
    pairs = []
    for number in range(20):
        assert referee.do(command(rng, number)) == []
        for _ in range(rng.choice([0, 1, 1, 2])):
            was, before = referee.snapshot, abstract(referee.snapshot, referee.constants)
            assert referee.do({"do": "step", "n": 1}) == []
            after = abstract(referee.snapshot, referee.constants)
            real = Counter(event[0] for event in referee.snapshot["events"])
            pairs.append((real, explain(before, after, was, referee.snapshot)))
    return pairs


def pairs(runs: int) -> list[Pair]:
    return [pair for seed in range(runs) for pair in run(seed)]


def test_most_iterations_are_explained_and_most_of_it_is_true() -> None:
    """INV-STEP without events: a floor under what the search is worth, and no crash."""
    seen = pairs(RUNS)
    assert len(seen) > 1000
    credited: Counter[str] = Counter()
    invented: Counter[str] = Counter()
    unique = right = 0
    for real, found in seen:
        if found is not None:
            different = {frozenset(each.items()) for each in found}
            assert len(found) == len(different) > 0, "ambiguous means several explanations"
        if found is not None and len(found) == 1:
            unique += 1
            right += found == [real]
            credited += found[0]
            invented += found[0] - real
    assert right / len(seen) > 0.7
    assert right / unique > 0.95
    assert invented.total() / credited.total() < 0.02


def test_nothing_happened_is_explained_by_nothing() -> None:
    referee = Referee(InProcessEngine(), CONFIGS["p1"])
    world = abstract(referee.snapshot, referee.constants)
    assert explain(world, world) == [Counter()]


@pytest.mark.parametrize(
    ("found", "unexplained", "ambiguous", "credited"),
    [
        (None, 1, 0, {}),
        ([Counter({"T-OPEN": 1})], 0, 0, {"T-OPEN": 1}),
        ([Counter({"T-OPEN": 1}), Counter({"T-CLOSE": 1})], 0, 1, {}),
    ],
)
def test_what_is_ambiguous_earns_nothing_and_is_no_finding(
    found: list[Counter[str]] | None,
    unexplained: int,
    ambiguous: int,
    credited: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lockstep oracle on an engine without events."""
    monkeypatch.setattr(steps, "explain", lambda *_: found)
    referee = Referee(InProcessEngine(), CONFIGS["p1"])
    (snapshot,) = referee.engine.do({"do": "step", "n": 1})
    del snapshot["events"]
    assert referee.judge(snapshot) == []
    assert referee.coverage.unexplained == unexplained
    assert referee.coverage.ambiguous == ambiguous
    assert referee.coverage.transitions == credited
