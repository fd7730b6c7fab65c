"""Shrinking: make a finding's trace 1-minimal.

Shrinking works on the commands, not on Hypothesis's choices, for the reason given in ADR 6. In a
1-minimal trace, dropping any command or lowering any number by one removes the violation. Shrinking
only replays commands, so its result is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from slotproof.engines.base import Engine
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, OutOfTime, Referee, play
from slotproof.protocol.commands import Command
from slotproof.search.findings import Finding, Mark, explained, mark
from slotproof.search.plan import Plan, Stop, Tell

HANG = 50
"""Number of normal replays that a hanging replay costs. A hang lasts for the whole timeout."""

Log = list[Iteration]


class Spent(Exception):
    """End of the budget: no replay, or no time, is left."""


@dataclass
class Shrunk:
    """Result of shrinking some findings."""

    smaller: list[Finding | None]
    """Shrunk findings in the order of the task. None for a finding that was left out."""
    replays: int = 0


@dataclass(frozen=True)
class Shrink:
    """A task: shrink one clause's findings in order. Skip findings that a shrunk one explains.

    Of findings with the same identity, only the first is shrunk. If another finding with this
    identity has a different bug, a later round finds that bug again.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    known: tuple[Mark, ...]

    @property
    def key(self) -> str:
        """Name unique among the tasks of a search."""
        seen = (f"{of.trace.config_name} {of.first} {len(of.trace.rows)}" for of in self.findings)
        return f"{self.findings[0].mark.clause}, {self.plan.shrink}: {', '.join(seen)}"

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Shrunk:
        """Shrink each finding as far as time allows. ``tell`` receives each shrunk finding, and
        each number of replays made."""
        result = Shrunk([])

        def counted(what: Finding | int) -> None:
            result.replays += 0 if isinstance(what, Finding) else what
            tell(what)

        known = list(self.known)
        tried: set[str] = set()
        for finding in self.findings:
            if finding.id in tried or explained(finding.mark, known):
                result.smaller.append(None)
                continue
            small = _Shrinking(self.plan, finding, known, engine, counted, stop).go()
            tried.add(finding.id)
            known.append(small.mark)
            result.smaller.append(small)
            tell(small)
        return result


class _Shrinking:
    """Shrinking of one finding. A replay counts if it shows this finding and no earlier finding."""

    def __init__(
        self, plan: Plan, of: Finding, known: list[Mark], engine: Engine, tell: Tell, stop: Stop
    ) -> None:
        self.plan, self.of, self.known, self.engine, self.stop = plan, of, known, engine, stop
        self.tell = tell
        self.wanted = of.trace.violations[0]
        self.loose = False
        """True while the trace may turn into the trace of an earlier finding."""
        self.left = plan.shrink
        self.ignored = tuple(clause for clause in of.trace.ignored if clause != self.wanted.clause)

    def go(self) -> Finding:
        commands, log, minimal = minimise(self.of.trace.commands, self.shown)
        if not self.of.mark.certain and any(k.clause == self.of.mark.clause for k in self.known):
            # The trace may belong to an earlier finding, plus an irrelevant event.
            self.loose, self.left = True, self.plan.shrink
            plain, plain_log, plain_minimal = minimise(commands, self.shown)
            first = self.found(plain_log)
            if first is not None and explained(mark(plain_log[-1], first), self.known):
                commands, log, minimal = plain, plain_log, plain_minimal
            else:
                self.loose = False
        return self.result(commands, log, minimal)

    def result(self, commands: list[Command], log: Log, minimal: bool) -> Finding:
        """Return the shrunk finding, with plain names and as few ignored clauses as needed."""
        try:
            for named in (renamed(commands), commands):
                for ignored in (self.plan.ignored, self.ignored):
                    again = self.again(named, ignored)
                    if len(again.log) == len(named) and self.found(again.log) is not None:
                        small = self.finding(again.log, ignored, minimal)
                        long = self.again(self.of.trace.commands, self.ignored)
                        why = explain(again, long, most=None)
                        return replace(small, trace=small.trace.explained_by(why))
        except Spent:
            return self.finding(log, self.ignored, minimal) if log else self.of
        return self.of  # The violation does not occur in every replay.

    def finding(self, log: Log, ignored: tuple[str, ...], minimal: bool) -> Finding:
        first = self.found(log)
        assert first is not None
        trace = self.of.trace.played(log, first, minimal=minimal, ignored=ignored)
        return replace(self.of, trace=trace, mark=mark(log[-1], first))

    def again(self, commands: list[Command], ignored: tuple[str, ...]) -> Referee:
        """Replay commands. Raises :class:`Spent` at the end of the time or on an interrupt, since a
        partial replay proves nothing."""
        self.tell(1)
        setup = replace(self.of.trace.setup, ignored=ignored, oracles=self.plan.oracles)
        try:
            return play(self.engine, setup, commands, stop=self.stop)
        except (OutOfTime, KeyboardInterrupt):
            raise Spent from None

    def shown(self, commands: list[Command]) -> Log | None:
        """Return the log if the commands reproduce the finding. May raise :class:`Spent`."""
        if self.left <= 0:
            raise Spent
        log = self.again(commands, self.ignored).log
        broken = log[-1].violations if log else []
        cost = HANG if any(violation.clause == "INV-ALIVE.hang" for violation in broken) else 1
        self.left -= cost
        return log if self.found(log) is not None else None

    def found(self, log: Log) -> Violation | None:
        """Return the violation at the end of a log if it is this finding, not an earlier one."""
        if not log or not log[-1].violations:
            return None
        broken = log[-1].violations
        if self.wanted.reporting and not all(violation.reporting for violation in broken):
            return None
        of = self.of.mark
        for violation in broken:
            now = mark(log[-1], violation)
            if (
                now.stop == of.stop
                and (not of.certain or now.transitions == of.transitions)
                and (self.loose or not explained(now, self.known))
            ):
                return violation
        return None


Shown = Callable[[list[Command]], Log | None]
"""Function that runs commands on a fresh engine. Returns the log if the finding still occurs. May
raise :class:`Spent`, which ends shrinking with the smallest commands so far."""


def minimise(commands: list[Command], shown: Shown) -> tuple[list[Command], Log, bool]:
    """Return smaller commands with the same violation, their log, and True if they are 1-minimal.
    The log is empty if nothing smaller was found."""
    lowering = _Lowering(commands, shown)
    done = lowering.go()
    return lowering.best, lowering.log, done


class _Lowering:
    """Repeated passes over the commands, until no pass changes anything.

    After a success, a pass continues at the same place. Starting again with wide cuts would need
    several times as many replays (ADR 6).
    """

    def __init__(self, commands: list[Command], shown: Shown) -> None:
        self.best, self.shown = commands, shown
        self.log: Log = []
        self.failed: set[str] = set()
        """Failed candidates, which need no second replay, because the commands only get smaller."""

    def go(self) -> bool:
        """Return True if nothing is left to try."""
        with suppress(Spent):
            before = None
            while before is not self.best:
                before = self.best
                self.names()
                self.runs()
                self.steps()
                self.fields()
            return True
        return False

    def kept(self, candidate: list[Command]) -> bool:
        """Store a smaller candidate that shows the finding as the best so far, and return True."""
        if (key := repr(candidate)) in self.failed:
            return False
        if (log := self.shown(candidate)) is not None:
            done = [entry.command for entry in log]
            if _size(done) < _size(self.best):
                self.best, self.log = done, log
                return True
        self.failed.add(key)
        return False

    def names(self) -> None:
        """Drop all commands of one session or one request at a time, the last first."""
        for field in ("session", "rid"):
            for name in reversed(dict.fromkeys(command.get(field) for command in self.best)):
                rest = [command for command in self.best if command.get(field) != name]
                if name is not None and len(rest) < len(self.best):
                    self.kept(rest)

    def runs(self) -> None:
        """Drop sequences of adjacent commands, long ones first, from the end to the start."""
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
        """Merge two adjacent step commands into one."""
        index = 0
        while index + 1 < len(self.best):
            first, second = self.best[index : index + 2]
            merged = {"do": "step", "n": first.get("n", 0) + second.get("n", 0)}
            both = first["do"] == second["do"] == "step"
            if not (both and self.kept([*self.best[:index], merged, *self.best[index + 2 :]])):
                index += 1

    def fields(self) -> None:
        """Lower numbers and shorten lists, one field of one command at a time."""
        index = 0
        while index < len(self.best):
            head, command, tail = self.best[:index], self.best[index], self.best[index + 1 :]
            if not any(self.kept([*head, simpler, *tail]) for simpler in _simpler(command)):
                index += 1


def renamed(commands: list[Command]) -> list[Command]:
    """Return commands with sessions s1, s2, … and requests r1, r2, … in order of appearance."""
    names: dict[str, dict[str, str]] = {"session": {}, "rid": {}}
    result = [dict(command) for command in commands]
    for command in result:
        for field, known in names.items():
            if (name := command.get(field)) is not None:
                command[field] = known.setdefault(name, f"{field[0]}{len(known) + 1}")
    return result


def _size(commands: list[Command]) -> tuple[int, int, int]:
    """Return a sort key: number of commands, list lengths plus numbers, then sum of list values."""
    lists = [value for command in commands for value in command.values() if isinstance(value, list)]
    numbers = sum(value for c in commands for value in c.values() if isinstance(value, int))
    return len(commands), sum(map(len, lists)) + numbers, sum(map(sum, lists))


def _simpler(command: Command) -> Iterator[Command]:
    """Yield variants of the command, each with one field smaller."""
    for name, value in command.items():
        if isinstance(value, int) and not isinstance(value, bool):
            nearer = (value - (value >> bits) for bits in range(2, value.bit_length()))
            for lower in dict.fromkeys((0, 1, value // 2, *nearer, value - 1)):
                if 0 <= lower < value:
                    yield {**command, name: lower}
        elif isinstance(value, list) and value:
            least = 1 if name == "tokens" else 0  # A request without a token is a different case.
            for length in dict.fromkeys((least, 1, len(value) // 2, len(value) - 1)):
                if least <= length < len(value):
                    yield {**command, name: value[:length]}
            if name == "tokens" and (plain := list(range(1, len(value) + 1))) != value:
                yield {**command, name: plain}
