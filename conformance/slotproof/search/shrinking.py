"""Shrinking: make a finding's trace 1-minimal.

Works on the commands themselves, not on what Hypothesis drew (why: ADR 6). When
it is done, dropping any single command, or lowering any number in one by one,
makes the violation go away. Deterministic: it only ever replays.
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
from slotproof.traces.record import rows_of

HANG = 50
"""Replays that one which hangs counts for: each of them waits for the whole timeout."""

Log = list[Iteration]


class Spent(Exception):
    """No replay is left, or no time for one."""


@dataclass
class Shrunk:
    """The result of shrinking some findings."""

    smaller: list[Finding | None]
    """For each a shorter one, or none if it was left out."""
    replays: int = 0


@dataclass(frozen=True)
class Shrink:
    """A task: shrink findings of one clause, one after the other; what one explains is not shrunk.

    Of those that look the same only the first is: the others come again if they are
    something else.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    known: tuple[Mark, ...]

    @property
    def key(self) -> str:
        """A name that no other task of the same search has."""
        seen = (
            f"{each.trace.config_name} {each.first} {len(each.trace.rows)}"
            for each in self.findings
        )
        return f"{self.findings[0].mark.clause}, {self.plan.shrink}: {', '.join(seen)}"

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> Shrunk:
        """Shrink each as far as there is time. ``tell`` of each, and of replays as they are
        made."""
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
    """One finding: replays that show it and nothing that is known."""

    def __init__(
        self, plan: Plan, of: Finding, known: list[Mark], engine: Engine, tell: Tell, stop: Stop
    ) -> None:
        self.plan, self.of, self.known, self.engine, self.stop = plan, of, known, engine, stop
        self.tell = tell
        self.wanted = of.trace.violations[0]
        self.loose = False
        """Whether it may become one that is known."""
        self.left = plan.shrink
        self.ignored = tuple(each for each in of.trace.ignored if each != self.wanted.clause)

    def go(self) -> Finding:
        commands, log, minimal = minimise(self.of.trace.commands, self.shown)
        if not self.of.mark.certain and any(k.clause == self.of.mark.clause for k in self.known):
            # Perhaps it is a known one, and something beside it that is not needed?
            self.loose, self.left = True, self.plan.shrink
            plain, plain_log, plain_minimal = minimise(commands, self.shown)
            first = self.found(plain_log)
            if first is not None and explained(mark(plain_log[-1], first), self.known):
                commands, log, minimal = plain, plain_log, plain_minimal
            else:
                self.loose = False
        return self.result(commands, log, minimal)

    def result(self, commands: list[Command], log: Log, minimal: bool) -> Finding:
        """Return what is left, with plain names and as little ignored as it needs."""
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
        return self.of  # it does not happen every time

    def finding(self, log: Log, ignored: tuple[str, ...], minimal: bool) -> Finding:
        first = self.found(log)
        assert first is not None
        violations = [first, *(each for each in log[-1].violations if each is not first)]
        trace = replace(
            self.of.trace,
            rows=rows_of(log),
            states=True,
            violations=violations,
            minimal=minimal,
            ignored=ignored,
        )
        return replace(self.of, trace=trace, mark=mark(log[-1], first))

    def again(self, commands: list[Command], ignored: tuple[str, ...]) -> Referee:
        """What these commands lead to. Raises :class:`Spent` where there is no time to look, or
        an interrupt arrives: what it showed up to there says nothing."""
        self.tell(1)
        setup = replace(self.of.trace.setup, ignored=ignored, oracles=self.plan.oracles)
        try:
            return play(self.engine, setup, commands, stop=self.stop)
        except (OutOfTime, KeyboardInterrupt):
            raise Spent from None

    def shown(self, commands: list[Command]) -> Log | None:
        """As :data:`Shown`, up to so many replays."""
        if self.left <= 0:
            raise Spent
        log = self.again(commands, self.ignored).log
        hung = any(each.clause == "INV-ALIVE.hang" for each in log[-1].violations) if log else False
        cost = HANG if hung else 1
        self.left -= cost
        return log if self.found(log) is not None else None

    def found(self, log: Log) -> Violation | None:
        """The violation at the end of the log that is this finding and none that is known."""
        if not log or not log[-1].violations:
            return None
        broken = log[-1].violations
        if self.wanted.reporting and not all(each.reporting for each in broken):
            return None
        of = self.of.mark
        for each in broken:
            now = mark(log[-1], each)
            if (
                now.stop == of.stop
                and (not of.certain or now.transitions == of.transitions)
                and (self.loose or not explained(now, self.known))
            ):
                return each
        return None


Shown = Callable[[list[Command]], Log | None]
"""Run commands on a fresh engine: the log up to the violation, if it still is the finding. May
raise :class:`Spent`: then the best so far is what there is."""


def minimise(commands: list[Command], shown: Shown) -> tuple[list[Command], Log, bool]:
    """Fewer commands that show the same; the log of that (empty if there are none); whether they
    are 1-minimal."""
    lowering = _Lowering(commands, shown)
    done = lowering.go()
    return lowering.best, lowering.log, done


class _Lowering:
    """Passes over the commands, until a whole round of them changes nothing.

    A success does not start a pass again: it goes on where it was, in what is left. Trying
    the wide ones again after each costs several times the replays (ADR 6).
    """

    def __init__(self, commands: list[Command], shown: Shown) -> None:
        self.best, self.shown = commands, shown
        self.log: Log = []
        self.failed: set[str] = set()
        """Never worth another replay: what is kept only gets smaller."""

    def go(self) -> bool:
        """Whether nothing is left to try."""
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
        """Whether it shows the same and is smaller; then it is the best so far."""
        key = repr(candidate)
        if key in self.failed:
            return False
        if (log := self.shown(candidate)) is not None:
            done = [entry.command for entry in log]
            if _size(done) < _size(self.best):
                self.best, self.log = done, log
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


def renamed(commands: list[Command]) -> list[Command]:
    """Sessions named s1, s2, … and requests r1, r2, … in the order in which they come."""
    names: dict[str, dict[str, str]] = {"session": {}, "rid": {}}
    result = [dict(command) for command in commands]
    for command in result:
        for field, known in names.items():
            if (name := command.get(field)) is not None:
                command[field] = known.setdefault(name, f"{field[0]}{len(known) + 1}")
    return result


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
