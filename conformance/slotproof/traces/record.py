"""What a trace keeps: commands, what each showed, what was violated. :class:`Trace` shows it."""

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
    """One command of a trace and the figures after it. Tokens."""

    command: Command
    transitions: list[str] = field(default_factory=list)
    pools: dict[str, dict[str, int]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    slots: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    """One per iteration; the figures above are those of the last."""


@dataclass(frozen=True)
class Later:
    """What was found later in a log than what its trace shows."""

    file: int
    line: int
    clause: str
    words: str
    times: int
    """Iterations in which it was found, this one included."""

    def __str__(self) -> str:
        again = f", {self.times} times in all" if self.times > 1 else ""
        return f"{place(self.file, self.line)}: {self.words}{again}"


@dataclass(frozen=True)
class Recorded:
    """That a trace is the end of a log: nothing that can be run again."""

    file: int
    """Of its recording, from 1 on."""
    line: int
    before: int
    """Commands and iterations before these rows, since the engine's start."""
    later: tuple[Later, ...] = ()
    """What may follow from what the trace shows: the spec went on from the engine's own state."""
    not_judged: dict[str, str] = field(default_factory=dict)
    """What, and why not."""

    @property
    def where(self) -> str:
        """The line, in words."""
        return place(self.file, self.line)


def place(file: int, line: int) -> str:
    """A line of a log.

    >>> place(1, 8), place(3, 8)
    ('line 8', 'line 8 of file 3')
    """
    return f"line {line}" + (f" of file {file}" if file > 1 else "")


@dataclass(frozen=True)
class Record:
    """Everything that is needed to run it again, and what was seen the first time."""

    engine: str
    """The name and version that the engine gave."""
    spec: str
    """The ``--engine`` argument it was found with."""
    profile: str
    config: EngineConfig
    seed: int
    rows: list[Row] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    minimal: bool = False
    """No single command can be dropped, no single number lowered."""
    config_name: str = ""
    chosen_profile: str | None = None
    """The profile that was named instead of the engine's own."""
    ignored: tuple[str, ...] = ()
    """Clauses that were passed over."""
    explained: tuple[Explanation, ...] | None = None
    """What single changes of the spec explain it, the plainest first; ``None``: not asked, or
    the spec agrees with the engine's state and only what it says of it is wrong."""
    patches: tuple[str, ...] = ()
    """Known bugs of the engine that were repaired when it was found."""
    states: bool = True
    """It says what was seen, not only what was sent."""
    recorded: Recorded | None = None
    """It is of a log, and what is known of that."""
    needs: int | None = None
    """It does not show in a fresh process: the earlier example of its configuration that it needs
    there, 0 if that does not help. ``None``: it shows, or it was not tried."""
    changes: frozenset[str] = field(default=frozenset(), compare=False)
    """All changes of the spec that explain it and contradict nothing else of it; of a file, those
    that it keeps."""
    build: Build | None = None
    """The build that it was found on; ``None`` in a file of an older slotproof, and for a log."""

    @property
    def not_afresh(self) -> str:
        """Words where it does not show in a fresh process; empty otherwise."""
        after = f"; shows after example {self.needs} of its configuration" if self.needs else ""
        return "" if self.needs is None else f"does not show again in a fresh process{after}"

    def explained_by(self, every: tuple[Explanation, ...] | None) -> Self:
        """The trace with what explains it; the plainest are kept on disk."""
        return replace(self, explained=every and every[:MOST], changes=lasting(every))

    @property
    def commands(self) -> list[Command]:
        return [row.command for row in self.rows]

    def without_states(self) -> Self:
        """The commands and what was found; a replay makes the states again."""
        return replace(self, rows=[Row(row.command) for row in self.rows], states=False)

    def last(self, count: int) -> Self:
        """So many rows of what was recorded."""
        assert self.recorded is not None
        gone = max(0, len(self.rows) - count)
        before = self.recorded.before + gone
        recorded = replace(self.recorded, before=before)
        return replace(self, rows=self.rows[gone:], recorded=recorded)

    @property
    def setup(self) -> Setup:
        """What its commands ran under."""
        return Setup(self.config, self.seed, self.chosen_profile, self.ignored)

    def passes(self, entry: Iteration) -> bool:
        """Whether a replay goes on: a client is told what it should not be, and the trace was found
        for something else. It may be older than such a clause."""
        named = {each.clause for each in self.violations}
        return bool(named) and all(each.clause in CONTRACT - named for each in entry.violations)

    def again(self, engine: Engine, spec: str, chosen: str | None) -> Self:
        """Return the trace that its commands make on an engine, with its states, judged and
        explained by the code of today. ``chosen`` is the profile to judge by, if it is not the
        engine's own. Raises ``EngineUnusable`` where the engine lacks what the trace needs."""
        demand(engine, self.config, self.commands)
        setup = replace(self.setup, profile=chosen)
        referee = play(engine, setup, self.commands, self.passes)
        played = referee.log
        was = [each.clause for each in self.violations]
        violations = sorted(played[-1].violations, key=lambda each: [each.clause] != was[:1])
        same = {each.clause for each in violations} & set(was)
        new = replace(
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
        )
        return new.explained_by(explain(referee) if violations else None)

    @property
    def identity(self) -> Build:
        """The build that it was found on. An older file has its name: a release, if that was asked
        for, or none that anybody compared."""
        if self.build is not None:
            return self.build
        name, _, version = self.engine.partition(" ")
        released = version if self.spec == f"{name}=={version}" else ""
        return Build(self.spec, name, version, released if name in FAMILIES else None)

    @property
    def found_on(self) -> str:
        """The ``--engine`` argument that opens the build."""
        return self.identity.argument or self.spec


def row_of(entry: Iteration, last: Row) -> Row:
    """A command and what it led to; ``last`` is the row before it."""
    frames = [frame_of(seen) for seen in entry.observations]
    transitions = [event["transition"] for frame in frames for event in frame.events]
    shown = frames[-1] if frames else last
    return Row(
        entry.command, transitions, shown.pools, shown.sessions, shown.slots, shown.requests, frames
    )


def rows_of(log: Iterable[Iteration]) -> list[Row]:
    """The rows of what a referee logged."""
    result: list[Row] = []
    for entry in log:
        result.append(row_of(entry, result[-1] if result else Row(entry.command)))
    return result
