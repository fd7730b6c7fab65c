"""Checks a log against the spec, without the engine: ``slotproof validate``."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotproof.conformance.engines.base import EngineFailed
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.logs.format import Header, Line, Log
from slotproof.conformance.logs.recorded import LogReferee, Senseless
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.traces.frames import figures
from slotproof.conformance.traces.itf import FIGURES
from slotproof.conformance.traces.trace import Row

CONTEXT = 12
"""Commands before the first bad line that are kept to be shown."""


@dataclass
class Verdict:
    """What a log comes to."""

    path: Path
    headers: list[Header] = field(default_factory=list)
    """One per engine life that was recorded; the last one is the one it ended in."""
    coverage: Coverage = field(default_factory=Coverage)
    seen: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    cut: int | None = None
    ends: list[tuple[int, str]] = field(default_factory=list)
    """Lines in which the recorder said why it stopped."""
    line: int | None = None
    """The first line that can't be explained."""
    violations: list[Violation] = field(default_factory=list)
    rows: deque[Row] = field(default_factory=lambda: deque(maxlen=CONTEXT + 1))
    """The last commands up to that line, with their figures."""
    commands: int = 0
    """Commands of this engine's life up to there."""

    @property
    def header(self) -> Header:
        return self.headers[-1]


def validate(path: Path, profile: str | None = None, set_aside: Collection[str] = ()) -> Verdict:
    """Judge a log up to its first violation or its end.

    Raises :class:`~slotproof.conformance.logs.format.BadLog` with one line.

    >>> from tempfile import TemporaryDirectory
    >>> lines = (
    ...     '{"slotproof-log":2,"engine":{"name":"mine","version":"0"},"profile":null,"config":{}}',
    ...     '{"snapshot":{"iter":1,"events":[["T-SAVE","s1","r1",{"F":1}]]}}',
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.jsonl"
    ...     _ = path.write_text("\\n".join(lines) + "\\n")
    ...     verdict = validate(path)
    >>> verdict.line, [violation.clause for violation in verdict.violations]
    (2, ['INV-STEP.unknown'])
    """
    log = Log(path)
    verdict = Verdict(path)
    life: _Life | None = None
    for line in log:
        if line.kind == "header":
            if life is not None:
                life.over(line)
            verdict.headers.append(line.value)
            life = _Life(log, verdict, LogReferee(line.value, Coverage(), profile, set_aside))
        elif life is None:
            raise log.bad(line.number, "the log has no header")
        else:
            life.read(line)
        if verdict.violations:
            break
    if life is not None:
        life.settle()
    verdict.lines, verdict.cut = log.lines, log.cut
    return verdict


class _Life:
    """The lines of one engine, in order."""

    def __init__(self, log: Log, verdict: Verdict, referee: LogReferee) -> None:
        self.log, self.verdict, self.referee = log, verdict, referee
        self.pending: list[Command] = []
        """Announced iterations that are not there yet."""
        self.announced = 0
        self.iteration = 0
        self.ended = False
        verdict.rows.clear()
        verdict.commands = 0

    def read(self, line: Line) -> None:
        """One line after the header."""
        if self.ended:
            raise self.log.bad(line.number, "a line after the end of the recording")
        if line.kind == "command":
            self._command(line)
        elif line.kind == "snapshot":
            self._snapshot(line, line.value)
        elif line.kind == "failed":
            self.referee.recorded.next = EngineFailed(line.value["how"], line.value["error"])
            self._do(line, self.pending.pop(0) if self.pending else {"do": "step", "n": 1}, None)
            self.pending.clear()
            self.ended = True
        else:
            self.verdict.ends.append((line.number, line.value))
            self.ended = True

    def over(self, line: Line) -> None:
        """Another engine's life begins."""
        self._nothing_pending(line)
        self.settle()

    def settle(self) -> None:
        """Add up what this life has shown; once."""
        self.verdict.coverage.add(self.referee.coverage)
        self.verdict.seen.update(self.referee.seen)

    def _nothing_pending(self, line: Line) -> None:
        if self.pending:
            text = f"out of order: line {self.announced} announced an iteration that is not there"
            raise self.log.bad(line.number, text)

    def _command(self, line: Line) -> None:
        self._nothing_pending(line)
        command = line.value
        if command["do"] == "step":
            self.pending = [{"do": "step", "n": 1}] * command["n"]
            self.announced = line.number
        elif command["do"] == "tick":
            self.pending, self.announced = [command], line.number
        else:
            self._do(line, command, None)

    def _snapshot(self, line: Line, snapshot: Any) -> None:
        command = self.pending.pop(0) if self.pending else {"do": "step", "n": 1}
        least = self.iteration + (command["do"] == "step")
        if snapshot["iter"] < least:
            text = f"out of order: iteration {snapshot['iter']} after iteration {self.iteration}"
            raise self.log.bad(line.number, text)
        self.iteration = snapshot["iter"]
        self.referee.recorded.next = snapshot
        self._do(line, command, snapshot)

    def _do(self, line: Line, command: Command, snapshot: Snapshot | None) -> None:
        verdict = self.verdict
        try:
            violations = self.referee.do(command)
        except Senseless as error:
            raise self.log.bad(line.number, str(error)) from None
        row = _row(command, snapshot, verdict.rows[-1] if verdict.rows else Row({}))
        self.referee.log.clear()  # a log may be as long as a server lives
        verdict.commands += 1
        verdict.rows.append(row)
        if violations:
            verdict.line, verdict.violations = line.number, violations


def _row(command: Command, snapshot: Snapshot | None, last: Row) -> Row:
    """What to show of the line; figures stay as they were where none were recorded."""
    transitions = [event[0] for event in snapshot.get("events", [])] if snapshot else []
    if snapshot is None or "pools" not in snapshot:
        return Row(command, transitions, last.pools, last.sessions, last.slots, last.requests)
    whole: Any = {"checker": {"pools": {}}, **snapshot}
    shown = figures(whole)
    pools, sessions, slots, requests = (shown[name] for name in FIGURES)
    return Row(command, transitions, pools, sessions, slots, requests)
