"""Shrinking: make a counterexample 1-minimal.

Works on the commands themselves, not on what Hypothesis drew (why: ADR 6). When
it is done, dropping any single command, or lowering any number in one by one,
makes the violation go away. Deterministic: it only ever replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command

Replay = Callable[[list[Command]], tuple[list[Command], list[Violation]]]
"""Run commands on a fresh engine: those up to the first violation, and it."""


HANG = 50
"""Replays that one which hangs counts for: each of them waits for the whole timeout."""


def minimise(
    commands: list[Command], violations: list[Violation], replay: Replay, budget: int = 2000
) -> tuple[list[Command], list[Violation], bool]:
    """Shorter commands that violate the same clause; whether they are 1-minimal.

    ``budget`` is a number of replays; when it runs out the best so far is returned.
    """
    wanted = signature(violations[0])
    best, found, done = _lower(commands, violations, wanted, replay, budget)
    renamed = _renamed(best)
    ran, broken = replay(renamed)
    if len(ran) == len(renamed) and wanted in map(signature, broken):
        best, found = renamed, broken
    return best, found, done


def _lower(
    commands: list[Command],
    violations: list[Violation],
    wanted: tuple[str, str],
    replay: Replay,
    budget: int,
) -> tuple[list[Command], list[Violation], bool]:
    best, found = commands, violations
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(best):
            if budget <= 0:
                return best, found, False
            done, broken = replay(candidate)
            hung = any(each.clause == "INV-ALIVE.hang" for each in broken)
            budget -= HANG if hung else 1
            same = wanted in map(signature, broken)
            if same and _size(done) < _size(best):
                best, found, improved = done, broken, True
                break
    return best, found, True


def _renamed(commands: list[Command]) -> list[Command]:
    """Requests named r1, r2, … in the order in which they are submitted."""
    names: dict[str, str] = {}
    for command in commands:
        if command["do"] == "submit":
            names.setdefault(command["rid"], f"r{len(names) + 1}")
    return [
        {**command, "rid": names.get(command["rid"], command["rid"])}
        if "rid" in command
        else command
        for command in commands
    ]


def signature(violation: Violation) -> tuple[str, str]:
    """What must stay the same while a trace shrinks: the clause, and of a crash its message."""
    return violation.clause, violation.detail if violation.clause == "INV-ALIVE.crash" else ""


def _size(commands: list[Command]) -> tuple[int, int, int]:
    """Few commands, then few tokens and steps, then small tokens."""
    lists = [value for command in commands for value in command.values() if isinstance(value, list)]
    numbers = sum(value for c in commands for value in c.values() if isinstance(value, int))
    return len(commands), sum(map(len, lists)) + numbers, sum(map(sum, lists))


def _smaller(commands: list[Command]) -> Iterator[list[Command]]:
    """Candidates, the boldest first."""
    count = len(commands)
    width = count // 2
    while width >= 1:
        for start in range(count - width, -1, -1):
            yield commands[:start] + commands[start + width :]
        width //= 2
    for index in range(count - 1):
        first, second = commands[index : index + 2]
        if first["do"] == second["do"] == "step":
            merged = {"do": "step", "n": first["n"] + second["n"]}
            yield [*commands[:index], merged, *commands[index + 2 :]]
    for index, command in enumerate(commands):
        for simpler in _simpler(command):
            yield [*commands[:index], simpler, *commands[index + 1 :]]


def _simpler(command: Command) -> Iterator[Command]:
    """The same command with one field smaller."""
    for name, value in command.items():
        if isinstance(value, int) and not isinstance(value, bool):
            nearer = (value - (value >> bits) for bits in range(2, value.bit_length()))
            for lower in dict.fromkeys((0, 1, value // 2, *nearer, value - 1)):
                if 0 <= lower < value:
                    yield {**command, name: lower}
        elif isinstance(value, list) and value:
            least = 1 if name == "tokens" else 0  # a request without any token is another matter
            for length in dict.fromkeys((least, 1, len(value) // 2, len(value) - 1)):
                if least <= length < len(value):
                    yield {**command, name: value[:length]}
            if name == "tokens":
                plain = list(range(1, len(value) + 1))
                if plain != value:
                    yield {**command, name: plain}
    if command.get("session") not in (None, "s1") and "session" in command:
        yield {**command, "session": "s1"}
