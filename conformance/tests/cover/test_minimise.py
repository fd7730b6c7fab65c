"""Minimising: what is left can't be made smaller, and breaks the same clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.search.minimise import Replay, _simpler, _size, minimise

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


def smaller(commands: list[Command]) -> Iterator[list[Command]]:
    """Any run of commands left out, two steps merged, one field of one command lowered."""
    count = len(commands)
    for start in range(count):
        for end in range(start + 1, count + 1):
            yield commands[:start] + commands[end:]
    for index, (first, second) in enumerate(pairwise(commands)):
        if first["do"] == second["do"] == "step":
            merged = {"do": "step", "n": first["n"] + second["n"]}
            yield [*commands[:index], merged, *commands[index + 2 :]]
    for index, command in enumerate(commands):
        for simpler in _simpler(command):
            yield [*commands[:index], simpler, *commands[index + 1 :]]


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
    for candidate in smaller(best):
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
        ([{"do": "tick", "seconds": 60}], [{"do": "tick", "seconds": 1}]),
    ],
)
def test_candidates(first: list[Command], second: list[Command]) -> None:
    """Steps are merged, numbers lowered, tokens made plain."""
    best, _, _ = minimise(first, BAD, toy(lambda each: each in (first, second)))
    assert best == second


def test_names_are_in_order() -> None:
    """Sessions and requests are numbered as they come; not where the violation needs its name."""
    start = [submit("s3", [1]), submit("s2", [1]), submit("s3", [1])]
    for command, rid in zip(start, ("r7", "r2", "r9"), strict=True):
        command["rid"] = rid
    best, _, _ = minimise(start, BAD, toy(lambda each: len(each) == 3))
    assert [(each["session"], each["rid"]) for each in best] == [
        ("s1", "r1"),
        ("s2", "r2"),
        ("s1", "r3"),
    ]
    needs = toy(lambda each: len(each) == 3 and each[0]["session"] == "s3")
    assert [each["session"] for each in minimise(start, BAD, needs)[0]] == ["s3", "s2", "s3"]


def test_a_name_is_left_out_as_a_whole() -> None:
    """A session that is not needed, with its requests among those of others: one replay."""
    needed = [{"do": "open", "session": "s1"}, submit("s1", [1]), {"do": "step", "n": 1}]
    other = [{"do": "open", "session": "s2"}, submit("s2", [1]), {"do": "close", "session": "s2"}]
    mixed = [command for pair in zip(needed, other, strict=True) for command in pair]
    tried: list[list[Command]] = []

    def replay(commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        tried.append(commands)
        return commands, BAD if all(each in commands for each in needed) else []

    minimise(mixed, BAD, replay, budget=1)
    assert tried[0] == needed


def test_nothing_is_replayed_twice() -> None:
    """What failed once fails again: a long trace costs some replays for each command it loses."""
    tried: list[str] = []
    whole = toy(bad)

    def replay(commands: list[Command]) -> tuple[list[Command], list[Violation]]:
        tried.append(repr(commands))
        return whole(commands)

    noise: list[Command] = [{"do": "abort", "rid": f"r{number}"} for number in range(90)]
    needed = [{"do": "open", "session": "s1"}, submit("s1", [1] * 5), {"do": "step", "n": 3}]
    start = [*noise[:30], needed[0], *noise[30:60], needed[1], *noise[60:], needed[2]]
    best, _, minimal = minimise(start, BAD, replay)
    assert minimal and len(best) == 3
    assert len(tried) - len(set(tried)) <= 1  # the last one: with requests renamed
    assert len(tried) < 250
