"""Shrinking: the result can't be made smaller, and breaks the same clause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Iteration, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search.findings import Finding, mark
from slotproof.search.plan import Plan
from slotproof.search.shrinking import Log, Shown, Shrink, Spent, _simpler, _size, minimise, renamed
from slotproof.traces.record import rows_of


def toy(bad: Callable[[list[Command]], bool], other: int = 10**9) -> Shown:
    """Return a replay that ends at the first bad prefix, or fails after ``other`` commands."""

    def shown(commands: list[Command]) -> Log | None:
        for end in range(1, len(commands) + 1):
            if bad(commands[:end]):
                return [Iteration(command) for command in commands[:end]]
            if end >= other:
                return None
        return None

    return shown


def played(log: Log | None) -> list[Command]:
    """The commands of a log."""
    return [entry.command for entry in log or ()]


def submit(session: str, tokens: list[int]) -> Command:
    fields = {"session": session, "rid": "r", "tokens": tokens, "max_new": 2, "stop": []}
    return {"do": "submit", **fields}


def steps(commands: list[Command]) -> int:
    return sum(command["n"] for command in commands if command["do"] == "step")


def tokens(commands: list[Command]) -> int:
    return sum(len(command["tokens"]) for command in commands if command["do"] == "submit")


def bad(commands: list[Command]) -> bool:
    """Return True after an open, three later steps, and five tokens."""
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
    """Yield copies without a run of commands, with two steps merged, or with a lower field."""
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
    """No smaller candidate breaks the clause, and no single command can be left out."""
    start = [*noise, {"do": "open", "session": "s1"}, submit("s2", [7] * 5), {"do": "step", "n": 3}]
    shown = toy(bad)
    best, _, minimal = minimise(played(shown(start)), shown)
    assert minimal and played(shown(best)) == best
    assert steps(best) == 3 and tokens(best) == 5 and len(best) <= 2 + 5
    for candidate in smaller(best):
        again = shown(candidate)
        assert again is None or not _size(played(again)) < _size(best)
    for index in range(len(best)):
        assert shown(best[:index] + best[index + 1 :]) is None


def test_another_clause_is_not_taken_for_the_same() -> None:
    """A shorter sequence that breaks another clause does not count."""
    commands = [{"do": "flush"}] * 2 + [{"do": "step", "n": 3}]
    best, log, _ = minimise(commands, toy(lambda candidate: steps(candidate) >= 3, other=3))
    assert best == played(log) == [{"do": "step", "n": 3}]
    assert minimise(commands, toy(lambda _: False, other=1)) == (commands, [], True)


def test_the_best_so_far_is_returned_where_no_replay_is_left() -> None:
    """The result is not called minimal."""
    left = 2

    def shown(commands: list[Command]) -> Log | None:
        nonlocal left
        if not left:
            raise Spent
        left -= 1
        return [Iteration(command) for command in commands] if commands else None

    steps_ = [{"do": "step", "n": 3} for _ in range(8)]
    best, log, minimal = minimise(steps_, shown)
    assert best == played(log) and len(best) == 4 and not minimal


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
    best, _, _ = minimise(first, toy(lambda candidate: candidate in (first, second)))
    assert best == second


def test_names_are_in_order() -> None:
    """Sessions and requests are numbered in order, unless the violation depends on a name."""
    start = [submit("s3", [1]), submit("s2", [1]), submit("s3", [1])]
    for command, rid in zip(start, ("r7", "r2", "r9"), strict=True):
        command["rid"] = rid
    assert [(turn["session"], turn["rid"]) for turn in renamed(start)] == [
        ("s1", "r1"),
        ("s2", "r2"),
        ("s1", "r3"),
    ]


class Picky(InProcessEngine):
    """Dies of a certain name."""

    name_of_death = "s3"

    def do(self, command: Command) -> list[Snapshot]:
        if command.get("session") == self.name_of_death:
            raise EngineFailed("crash", "not that one")
        return super().do(command)


def shrunk(engine: InProcessEngine, commands: list[Command], plan: Plan) -> Trace:
    """Return the shrunk trace of commands whose last iteration has a violation."""
    log = play(engine, Setup(CONFIGS["p1"]), commands).log
    rows, violations = rows_of(log), log[-1].violations
    trace = Trace("x", "x", "reference", CONFIGS["p1"], 0, rows, violations, minimal=False)
    finding = Finding(mark(log[-1], violations[0]), trace, 1)
    (small,) = Shrink(plan, (finding,), ()).run(engine, lambda _: None, lambda: False).smaller
    assert small is not None
    return small.trace


def test_a_name_stays_where_the_violation_needs_it() -> None:
    """A shrunk trace still replays. Names become plain if the violation allows it."""
    start: list[Command] = [{"do": "open", "session": name} for name in ("s2", "s1", "s3")]
    trace = shrunk(Picky(), start, Plan({}))
    assert trace.minimal and trace.commands == [{"do": "open", "session": "s3"}]
    leak = [start[0], submit("s2", [1]), {"do": "step", "n": 9}, {"do": "close", "session": "s2"}]
    trace = shrunk(InProcessEngine("leak-full"), [*leak, {"do": "step", "n": 1}], Plan({}))
    assert {command.get("session") for command in trace.commands} <= {"s1", None}


def test_nothing_is_shrunk_without_a_budget() -> None:
    """``Plan.shrink``: without replays the trace stays as long, and is not called minimal."""
    start: list[Command] = [{"do": "open", "session": "s3"}] * 2
    assert not shrunk(Picky(), start, Plan({}, shrink=0)).minimal


def test_a_name_is_left_out_as_a_whole() -> None:
    """One replay removes an unneeded session with its requests, wherever they are."""
    needed = [{"do": "open", "session": "s1"}, submit("s1", [1]), {"do": "step", "n": 1}]
    other = [{"do": "open", "session": "s2"}, submit("s2", [1]), {"do": "close", "session": "s2"}]
    mixed = [command for pair in zip(needed, other, strict=True) for command in pair]
    tried: list[list[Command]] = []

    def shown(commands: list[Command]) -> Log | None:
        tried.append(commands)
        complete = all(command in commands for command in needed)
        return [Iteration(command) for command in commands] if complete else None

    minimise(mixed, shown)
    assert tried[0] == needed


def test_nothing_is_replayed_twice() -> None:
    """A failed candidate is not tried again, so a long trace costs a few replays per command."""
    tried: list[str] = []
    whole = toy(bad)

    def shown(commands: list[Command]) -> Log | None:
        tried.append(repr(commands))
        return whole(commands)

    noise: list[Command] = [{"do": "abort", "rid": f"r{number}"} for number in range(90)]
    needed = [{"do": "open", "session": "s1"}, submit("s1", [1] * 5), {"do": "step", "n": 3}]
    start = [*noise[:30], needed[0], *noise[30:60], needed[1], *noise[60:], needed[2]]
    best, _, minimal = minimise(start, shown)
    assert minimal and len(best) == 3
    assert len(tried) == len(set(tried))
    assert len(tried) < 250
