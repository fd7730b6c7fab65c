"""Minimising: what is left can't be made smaller, and breaks the same clause."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from slotproof.conformance.minimise import Replay, _size, _smaller, minimise
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command

BAD = [Violation("INV-ONCE", "reported", "x")]
OTHER = [Violation("INV-ROWS", "twice", "x")]


def toy(bad: Callable[[list[Command]], bool], other: int = 10**9) -> Replay:
    """Violated at the first prefix that is bad; otherwise something else when it is long."""

    def replay(commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        for end in range(1, len(commands) + 1):
            if bad(commands[:end]):
                return commands[:end], BAD
            if end >= other:
                return commands[:end], OTHER
        return commands, []

    return replay


def submit(session: str, tokens: list[int]) -> Command:
    fields = {"session": session, "rid": "r", "tokens": tokens, "max_new": 2, "stop": []}
    return {"do": "submit", **fields}


def steps(commands: list[Command]) -> int:
    return sum(command["n"] for command in commands if command["do"] == "step")


def tokens(commands: list[Command]) -> int:
    return sum(len(command["tokens"]) for command in commands if command["do"] == "submit")


def bad(commands: list[Command]) -> bool:
    """Needs an open, three steps after it, and five tokens."""
    names = [command["do"] for command in commands]
    if "open" not in names:
        return False
    return steps(commands[names.index("open") :]) >= 3 and tokens(commands) >= 5


sequences = st.lists(
    st.one_of(
        st.builds(lambda n: {"do": "step", "n": n}, st.integers(0, 5)),
        st.just({"do": "open", "session": "s1"}),
        st.just({"do": "flush"}),
        st.builds(submit, st.sampled_from(["s1", "s2"]), st.lists(st.integers(1, 9), max_size=6)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, database=None, derandomize=True)
@given(sequences)
def test_the_result_is_one_minimal(noise: list[Command]) -> None:
    """No candidate that is smaller breaks the clause; what came is as good as nothing lost."""
    start = [*noise, {"do": "open", "session": "s1"}, submit("s2", [7] * 5), {"do": "step", "n": 3}]
    replay = toy(bad)
    done, broken = replay(start)
    best, found, minimal = minimise(done, broken, replay)
    assert minimal and found == BAD and replay(best) == (best, BAD)
    assert steps(best) == 3 and tokens(best) == 5 and len(best) <= 2 + 5
    for candidate in _smaller(best):
        again, violations = replay(candidate)
        assert violations != BAD or not _size(again) < _size(best)
    for index in range(len(best)):
        assert replay(best[:index] + best[index + 1 :])[1] == []


def test_another_clause_is_not_taken_for_the_same() -> None:
    """A shorter sequence that breaks something else is another matter."""
    commands = [{"do": "flush"}] * 2 + [{"do": "step", "n": 3}]
    replay = toy(lambda each: steps(each) >= 3, other=3)
    best, found, _ = minimise(commands, BAD, replay)
    assert (best, found) == ([{"do": "step", "n": 3}], BAD)
    replay = toy(lambda _: False, other=1)
    assert minimise(commands, BAD, replay) == (commands, BAD, True)


def test_nothing_is_shrunk_without_a_budget() -> None:
    """The best so far is returned, and said not to be minimal."""
    commands: list[Command] = [{"do": "flush"}, {"do": "step", "n": 3}]
    replay = toy(lambda each: steps(each) >= 3)
    assert minimise(commands, BAD, replay, budget=0) == (commands, BAD, False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([{"do": "step", "n": 1}, {"do": "step", "n": 2}], [{"do": "step", "n": 3}]),
        ([submit("s1", [9, 9])], [submit("s1", [1, 2])]),
        ([submit("s2", [1])], [submit("s1", [1])]),
        ([{"do": "tick", "seconds": 60}], [{"do": "tick", "seconds": 1}]),
    ],
)
def test_candidates(first: list[Command], second: list[Command]) -> None:
    """Steps are merged, numbers lowered, tokens made plain, sessions renamed."""
    assert second in list(_smaller(first))
