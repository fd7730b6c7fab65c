"""Contents of a trace: commands, results and violations. :class:`Trace` adds the rendered forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from slotproof.engines.base import Engine, built, demand, versioned
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.explanations import MOST, Explanation, explain, lasting
from slotproof.lockstep.observation import CONTRACT, Violation
from slotproof.lockstep.referee import Iteration, Setup, play
from slotproof.protocol.build import Build
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.traces.frames import Frame, frame_of


@dataclass(frozen=True)
class Row:
    """A command of a trace and the engine's state after the command. Counts are in tokens."""

    command: Command
    transitions: list[str] = field(default_factory=list)
    pools: dict[str, dict[str, int]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    slots: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    """Data of each iteration. The row's tables are from the last iteration."""


@dataclass(frozen=True)
class Later:
    """A kind of finding that first occurs in a log after the end of the trace."""

    file: int
    line: int
    clause: str
    words: str
    times: int
    """Number of iterations with this finding."""

    def __str__(self) -> str:
        again = f", {self.times} times in all" if self.times > 1 else ""
        return f"{place(self.file, self.line)}: {self.words}{again}"


@dataclass(frozen=True)
class Recorded:
    """Place of a trace within a log. A trace from a log can't be run again."""

    file: int
    """Number of the log's file, from 1."""
    line: int
    before: int
    """Number of commands and iterations between the engine's start and the first row."""
    later: tuple[Later, ...] = ()
    """Later findings, maybe caused by the first one: the spec continued from the engine's state."""
    not_judged: dict[str, str] = field(default_factory=dict)
    """Clauses that can't be judged on the log, each with the reason."""

    @property
    def where(self) -> str:
        """Place of the trace's last line in the log, in words."""
        return place(self.file, self.line)


def place(file: int, line: int) -> str:
    """Return the place of a line in a log.

    >>> place(1, 8), place(3, 8)
    ('line 8', 'line 8 of file 3')
    """
    return f"line {line}" + (f" of file {file}" if file > 1 else "")


@dataclass(frozen=True)
class Record:
    """Everything that a replay needs, and the results of the first run."""

    engine: str
    """Engine name and version, as reported by the engine."""
    spec: str
    """``--engine`` argument of the first run."""
    profile: str
    config: EngineConfig
    seed: int
    rows: list[Row] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    minimal: bool = False
    """True if the finding needs every command, and no number can be lowered by one."""
    config_name: str = ""
    chosen_profile: str | None = None
    """Profile chosen by the user, or None for the engine's own profile."""
    ignored: tuple[str, ...] = ()
    """Clauses that the run ignored."""
    explained: tuple[Explanation, ...] | None = None
    """Single changes of the spec that explain the violation, plainest first. None if no change was
    tried, or if only the engine's reporting is wrong."""
    patches: tuple[str, ...] = ()
    """Known bugs of the engine that were patched for the run."""
    states: bool = True
    """False if the trace has only commands."""
    recorded: Recorded | None = None
    """Place of the trace in a log, or None if the trace is not from a log."""
    needs: int | None = None
    """Number of the earlier example that must run first to reproduce the finding in a fresh
    process. 0 if no example helps. None if no example was needed or tried."""
    changes: frozenset[str] = field(default=frozenset(), compare=False)
    """All changes of the spec that explain the violation and fit the trace. A file stores only the
    lasting changes."""
    build: Build | None = None
    """Build of the run. None for a log, and for a file of an older slotproof."""

    @property
    def not_afresh(self) -> str:
        """Words after "The finding" if a fresh process does not reproduce the finding, else ""."""
        after = f"; reproduces after example {self.needs} of its configuration" * bool(self.needs)
        return "" if self.needs is None else f"does not reproduce in a fresh process{after}"

    def explained_by(self, every: tuple[Explanation, ...] | None) -> Self:
        """Return the trace with the explanations. A file stores only the plainest explanations."""
        return replace(self, explained=every and every[:MOST], changes=lasting(every))

    @property
    def commands(self) -> list[Command]:
        return [row.command for row in self.rows]

    def without_states(self) -> Self:
        """Return the trace with commands and violations only. A replay restores the states."""
        return replace(self, rows=[Row(row.command) for row in self.rows], states=False)

    def last(self, count: int) -> Self:
        """Return the last ``count`` rows of a trace from a log."""
        assert self.recorded is not None
        gone = max(0, len(self.rows) - count)
        recorded = replace(self.recorded, before=self.recorded.before + gone)
        return replace(self, rows=self.rows[gone:], recorded=recorded)

    def played(self, log: list[Iteration], first: Violation, **other: Any) -> Self:
        """Return the trace of a log. ``first`` comes before the other violations at its end."""
        rest = [violation for violation in log[-1].violations if violation is not first]
        return replace(self, rows=rows_of(log), violations=[first, *rest], states=True, **other)

    @property
    def setup(self) -> Setup:
        """Setup of a replay: configuration, seed, profile and ignored clauses."""
        return Setup(self.config, self.seed, self.chosen_profile, self.ignored)

    def passes(self, entry: Iteration) -> bool:
        """Return True if a replay continues after the entry: all violated clauses belong to the
        client contract, but the trace violates none of them. A trace may be older than a clause."""
        named = {violation.clause for violation in self.violations}
        return bool(named) and all(bad.clause in CONTRACT - named for bad in entry.violations)

    def again(self, engine: Engine, spec: str, chosen: str | None) -> Self:
        """Return the trace of a replay on ``engine``, judged and explained by today's slotproof.
        ``chosen`` is the profile, None for the engine's own. Raises ``EngineUnusable`` if the
        engine lacks a feature that the trace needs."""
        demand(engine, self.config, self.commands)
        referee = play(engine, replace(self.setup, profile=chosen), self.commands, self.passes)
        played = referee.log
        was = [violation.clause for violation in self.violations]
        violations = sorted(played[-1].violations, key=lambda bad: [bad.clause] != was[:1])
        same = {violation.clause for violation in violations} & set(was)
        return replace(
            self,
            engine=versioned(engine),
            spec=spec,
            profile=chosen or engine.capabilities.profile,
            rows=rows_of(played),
            states=True,
            violations=violations,
            minimal=self.minimal and bool(same) and len(played) == len(self.rows),
            chosen_profile=chosen,
            ignored=tuple(sorted(referee.ignored)),
            patches=engine.capabilities.patches,
            build=built(engine),
        ).explained_by(explain(referee) if violations else None)

    @property
    def identity(self) -> Build:
        """Build of the run. For an older file, the engine's reported name and version. Its release
        is known only if the ``--engine`` argument names the release."""
        if self.build is not None:
            return self.build
        name, _, version = self.engine.partition(" ")
        released = version if self.spec == f"{name}=={version}" else ""
        return Build(self.spec, name, version, released if name in FAMILIES else None)

    @property
    def found_on(self) -> str:
        """``--engine`` argument that starts the build."""
        return self.identity.argument or self.spec


def row_of(entry: Iteration, last: Row) -> Row:
    """Return the row of a log entry. ``last`` is the row of the previous command."""
    frames = [frame_of(seen) for seen in entry.observations]
    transitions = [event["transition"] for frame in frames for event in frame.events]
    shown = frames[-1] if frames else last
    return Row(
        entry.command, transitions, shown.pools, shown.sessions, shown.slots, shown.requests, frames
    )


def rows_of(log: Iterable[Iteration]) -> list[Row]:
    """Return a row for each command of a referee's log."""
    result: list[Row] = []
    for entry in log:
        result.append(row_of(entry, result[-1] if result else Row(entry.command)))
    return result
