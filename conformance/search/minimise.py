"""Shrinking: make a counterexample 1-minimal.

Works on the commands themselves, not on what Hypothesis drew (why: ADR 6). When
it is done, dropping any single command, or lowering any number in one by one,
makes the violation go away. Deterministic: it only ever replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.protocol.commands import Command

Replay = Callable[[list[Command]], tuple[list[Command], list[Violation]]]
"""Run commands on a fresh engine: those up to the first violation, and it. May raise
:class:`Spent`: then the best so far is what there is."""


HANG = 50
"""Replays that one which hangs counts for: each of them waits for the whole timeout."""


def minimise(
    commands: list[Command], violations: list[Violation], replay: Replay, budget: int = 2000
) -> tuple[list[Command], list[Violation], bool]:
    """Shorter commands that violate the same clause; whether they are 1-minimal.

    ``budget`` is a number of replays; when it runs out the best so far is returned.
    """
    lowering = _Lowering(commands, violations, replay, budget)
    done = lowering.go()
    best, found = lowering.best, lowering.found
    renamed = _renamed(best)
    with suppress(Spent):
        ran, broken = replay(renamed)
        if len(ran) == len(renamed) and lowering.wanted in map(signature, broken):
            best, found = renamed, broken
    return best, found, done


class Spent(Exception):
    """No replay is left, or no time for one."""


class _Lowering:
    """Passes over the commands, until a whole round of them changes nothing.

    A success does not start a pass again: it goes on where it was, in what is left. Trying
    the wide ones again after each costs several times the replays (ADR 6).
    """

    def __init__(
        self, commands: list[Command], violations: list[Violation], replay: Replay, budget: int
    ) -> None:
        self.best, self.found = commands, violations
        self.wanted = signature(violations[0])
        self.replay, self.budget = replay, budget
        self.failed: set[str] = set()
        """Never worth another replay: what is kept only gets smaller."""

    def go(self) -> bool:
        """Whether nothing is left to try."""
        try:
            before = None
            while before is not self.best:
                before = self.best
                self.names()
                self.runs()
                self.steps()
                self.fields()
        except Spent:
            return False
        return True

    def kept(self, candidate: list[Command]) -> bool:
        """Whether it breaks the same clause and is smaller; then it is the best so far."""
        key = repr(candidate)
        if key in self.failed:
            return False
        if self.budget <= 0:
            raise Spent
        done, broken = self.replay(candidate)
        hung = any(each.clause == "INV-ALIVE.hang" for each in broken)
        self.budget -= HANG if hung else 1
        if self.wanted in map(signature, broken) and _size(done) < _size(self.best):
            self.best, self.found = done, broken
            return True
        self.failed.add(key)
        return False

    def names(self) -> None:
        """Leave out all that names a session or a request; the last come first."""
        for field in ("session", "rid"):
            for name in reversed(dict.fromkeys(each.get(field) for each in self.best)):
                rest = [each for each in self.best if each.get(field) != name]
                if name is not None and len(rest) < len(self.best):
                    self.kept(rest)

    def runs(self) -> None:
        """Leave out runs of commands, long ones first, from the end to the start."""
        width = max(1, len(self.best) // 2)
        while width:
            start = len(self.best) - width
            while start >= 0:
                if self.kept(self.best[:start] + self.best[start + width :]):
                    start = min(start, len(self.best) - width)
                else:
                    start -= max(1, width // 4)
            width //= 2

    def steps(self) -> None:
        """Make one of two steps that follow each other."""
        index = 0
        while index + 1 < len(self.best):
            first, second = self.best[index : index + 2]
            merged = {"do": "step", "n": first.get("n", 0) + second.get("n", 0)}
            both = first["do"] == second["do"] == "step"
            if not (both and self.kept([*self.best[:index], merged, *self.best[index + 2 :]])):
                index += 1

    def fields(self) -> None:
        """Make numbers and lists smaller, one field of one command at a time."""
        index = 0
        while index < len(self.best):
            head, command, tail = self.best[:index], self.best[index], self.best[index + 1 :]
            if not any(self.kept([*head, simpler, *tail]) for simpler in _simpler(command)):
                index += 1


def _renamed(commands: list[Command]) -> list[Command]:
    """Sessions named s1, s2, … and requests r1, r2, … in the order in which they come."""
    names: dict[str, dict[str, str]] = {"session": {}, "rid": {}}
    for command in commands:
        for field, known in names.items():
            if command.get(field) is not None:
                known.setdefault(command[field], f"{field[0]}{len(known) + 1}")
    return [
        {
            **command,
            **{
                field: known[command[field]]
                for field, known in names.items()
                if command.get(field) is not None
            },
        }
        for command in commands
    ]


def signature(violation: Violation) -> tuple[str, str]:
    """What must stay the same while a trace shrinks: the clause, and of a crash its message, or
    of a driver that fails by itself how it does."""
    if violation.clause != "INV-ALIVE.crash":
        return violation.clause, ""
    return violation.clause, violation.fault or violation.detail


def _size(commands: list[Command]) -> tuple[int, int, int]:
    """Few commands, then few tokens and steps, then small tokens."""
    lists = [value for command in commands for value in command.values() if isinstance(value, list)]
    numbers = sum(value for c in commands for value in c.values() if isinstance(value, int))
    return len(commands), sum(map(len, lists)) + numbers, sum(map(sum, lists))


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
