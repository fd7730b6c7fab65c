"""Judge of recorded logs, working with the spec and without an engine: ``slotproof validate``."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slotproof.engines.base import EngineFailed
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Iteration, Setup
from slotproof.logs.format import BadLog, Header, Log, shown
from slotproof.logs.recorded import LogReferee, Senseless, parts_of
from slotproof.protocol.commands import AT_ONCE, Command
from slotproof.protocol.snapshot import Hashed, Snapshot
from slotproof.search.findings import Mark, mark
from slotproof.traces.frames import Frame, said_in
from slotproof.traces.itf import FIGURES
from slotproof.traces.record import Row, rows_of

CONTEXT = 24
"""Number of commands and iterations shown before a finding."""
ACTORS = 40_000
"""Largest number of sessions, slots and requests in a finding's trace. Old rows are dropped."""
KINDS = 100
"""Largest number of different violations stored for a log."""
ENDS = 16
"""Largest number of recorder stops whose reasons are stored."""
STATE: Command = {"do": "tick", "seconds": 0}
"""Command that stands for the first state in a file that continues another file."""


@dataclass(frozen=True)
class LogFinding:
    """Line of a log that the spec does not explain."""

    file: str
    line: int
    header: Header
    violations: list[Violation]
    rows: list[Row]
    """Last commands and iterations up to the line, with their states."""
    commands: int
    """Number of commands and iterations of this engine up to the line."""
    part: int
    """Position of the file in its recording, from 1."""
    at: int
    """Number of the line within its own file, even if several files are read as one."""


@dataclass
class Seen:
    """Violations with one identity in a log: their number, and the place of the first."""

    file: str
    line: int
    part: int
    at: int
    violation: Violation
    times: int = 0


@dataclass
class Verdict:
    """Result of judging a log."""

    log: str
    headers: list[Header] = field(default_factory=list)
    """Different headers of the recorded engines. The last engine's header comes last."""
    lives: int = 0
    """Number of recorded engines. An engine may have started before the log."""
    coverage: Coverage = field(default_factory=Coverage)
    seen: Counter[str] = field(default_factory=Counter)
    commands: int = 0
    """Number of commands in the log, including the commands to the scheduler."""
    lines: int = 0
    """Number of lines read, including lines that could not be judged."""
    cut: int | None = None
    """Number of the last line if the line is incomplete. Otherwise None."""
    interrupted: bool = False
    """True if an interrupt stopped the reading of the log."""
    ends: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=ENDS))
    """Lines at which the recorder stopped, each with the recorder's reason."""
    found: LogFinding | None = None
    """First line that the spec does not explain."""
    kinds: dict[str, Seen] = field(default_factory=dict)
    """Different violations by identity, in order of appearance: see :func:`kind_of`."""
    times: Counter[str] = field(default_factory=Counter)
    """Number of violations, by clause."""
    broken: str = ""
    """Reason why the log could not be read beyond a violation."""
    unseen: list[int] = field(default_factory=lambda: [0, 0])
    """Number of lines in missing files, and the last iteration in the missing files."""
    skipped: int = 0
    """Number of lines that were not judged because a violation left no state to continue from."""

    @property
    def header(self) -> Header:
        return self.headers[-1]

    @property
    def line(self) -> int | None:
        return self.found.line if self.found else None

    @property
    def violations(self) -> list[Violation]:
        return self.found.violations if self.found else []

    @property
    def later(self) -> list[Seen]:
        """Different violations at later lines. The first violation may have caused them, because
        judging continued from the engine's own state."""
        first = self.found and (self.found.file, self.found.line)
        return [kind for kind in self.kinds.values() if (kind.file, kind.line) != first]


def validate(
    log: str | Path | list[Path], profile: str | None = None, ignore: Collection[str] = ()
) -> Verdict:
    r"""Judge a log to its end. Violations of clauses in ``ignore`` are only counted.

    Raises :class:`~slotproof.logs.format.BadLog` with one line.

    >>> from tempfile import TemporaryDirectory
    >>> lines = (
    ...     '{"slotproof-log":3,"engine":{"name":"mine","version":"0"},"profile":null,"config":{}}',
    ...     '{"snapshot":{"iter":1,"events":[["T-SAVE","s1","r1",{}]]}}',
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.jsonl"
    ...     _ = path.write_text("\n".join(lines) + "\n")
    ...     verdict = validate(path)
    >>> verdict.line, [violation.clause for violation in verdict.violations]
    (2, ['INV-STEP.unknown'])
    """
    return judged(log if isinstance(log, list) else [Path(log)], profile, ignore).verdict


def judged(log: list[Path], profile: str | None = None, ignored: Collection[str] = ()) -> Judge:
    """Judge a log to its end and return the judge. Raises like :func:`validate`."""
    judge = Judge(log, profile, ignored)
    for _ in judge.findings():
        pass
    return judge


def kind_of(identity: Mark) -> str:
    """Return the identity of a violation within one log.

    A clause about states stays violated in later states, so later violations are not new. If the
    lockstep oracle names the transition, the identity includes the transition, because the states
    before and after were compared. Crashes and stalls are distinguished by their kind.
    """
    return identity.id if identity.certain or identity.what else identity.clause


class Judge:
    """Judge of a log's lines in order. Continues after violations where possible.

    The judge stores only what later lines need, because a log may record a server for months.
    """

    def __init__(self, log: list[Path], profile: str | None, ignored: Collection[str]) -> None:
        self.log = Log(log)
        self.verdict = Verdict(str(self.log))
        self.choices = profile, tuple(ignored)
        self.recording: Recording | None = None

    def findings(self) -> Iterator[LogFinding]:
        """Judge the log to its end. Yield each unexplained line as soon as it is read.

        A bad line raises :class:`~slotproof.logs.format.BadLog`, unless a violation came before it.
        """
        try:
            for kind, value in self.log:
                finding = self._read(kind, value)
                self.verdict.lines += 1
                if finding is not None:
                    yield finding
        except BadLog as bad:
            if self.verdict.found is None:
                raise
            self.verdict.broken = str(bad).removeprefix(f"{shown(self.log.file)}: ")
        self.verdict.cut = self.log.cut

    @property
    def shown(self) -> LogFinding:
        """First line that the spec does not explain, or else the last line."""
        if self.verdict.found is not None:
            return self.verdict.found
        assert self.recording is not None
        return self._found(self.recording, [])

    def _found(self, recording: Recording, violations: list[Violation]) -> LogFinding:
        return LogFinding(
            file=str(self.log.file),
            line=self.log.number,
            header=self.verdict.header,
            violations=violations,
            rows=list(recording.rows),
            commands=recording.commands,
            part=recording.file,
            at=self.log.number - recording.before,
        )

    def _read(self, kind: str, value: Any) -> LogFinding | None:
        """Judge the next line. Return a finding if the spec does not explain the line."""
        recording, verdict, line = self.recording, self.verdict, self.log.number
        try:
            if kind == "header":
                self._header(value)
                return None
            if recording is None:
                raise Senseless("the log has no header")
            violations = recording.read(line, kind, value)
        except Senseless as error:
            raise self.log.bad(line, str(error)) from None
        if not violations:
            return None
        finding = self._found(recording, violations)
        verdict.found = verdict.found or finding
        verdict.times.update(violation.clause for violation in violations)
        by_kind = {kind_of(mark(recording.last, one)): one for one in reversed(violations)}
        for same, violation in reversed(by_kind.items()):
            if same not in verdict.kinds and len(verdict.kinds) < KINDS:
                verdict.kinds[same] = Seen(finding.file, line, finding.part, finding.at, violation)
            if same in verdict.kinds:
                verdict.kinds[same].times += 1
        return finding

    def _header(self, header: Header) -> None:
        verdict, before, went_before = self.verdict, self.log.number - 1, header.continues
        if self.recording is not None:
            self.recording.nothing_pending()
            if went_before is not None and self.recording.goes_on(went_before):
                self.recording.before = before
                return
        if went_before is not None:
            known = self.recording.position if self.recording is not None else 0
            verdict.unseen[0] += max(0, went_before["lines"] - known)
            verdict.unseen[1] = went_before["iter"]
        setup = Setup(header.config, header.seed, *self.choices)
        referee = LogReferee(header, setup, verdict.coverage, verdict.seen)
        self.recording = Recording(verdict, referee)
        if went_before is not None:
            self.recording.start, self.recording.before = went_before, before
            self.recording.file = went_before["file"]
            self.recording.position = went_before["lines"] + 1
        verdict.lives += 1
        kind = replace(header, seed=0, continues=None)
        verdict.headers = [header for header in verdict.headers if header != kind] + [kind]


class Recording:
    """Recording of one engine, judged line by line."""

    def __init__(self, verdict: Verdict, referee: LogReferee) -> None:
        self.verdict, self.referee = verdict, referee
        self.rows: deque[Row] = deque(maxlen=CONTEXT)
        self.last = Iteration({})
        """Last judged iteration."""
        self.commands = 0
        self.pending: list[Command] = []
        """Commands of iterations that were announced and are not recorded yet."""
        self.announced = 0
        self.iteration = 0
        self.ended = False
        self.file, self.position = 1, 1
        """Number of the current file in the recording, and number of lines read so far."""
        self.before = 0
        """Number of lines before the current file, if several files are read as one."""
        self.start: dict[str, Any] | None = None
        """State before the next line, if judging starts with that line. Otherwise None."""
        self.lost = False
        """True if a violation left no state to continue from. Judging resumes at the next state."""

    def goes_on(self, went_before: dict[str, Any]) -> bool:
        """Return True if a new file continues the current file. Such a file begins with a state."""
        follows = (went_before["file"], went_before["lines"]) == (self.file + 1, self.position)
        if self.ended or self.start or not follows or went_before["iter"] < self.iteration:
            return False
        self.file += 1
        self.position += 1
        self.pending = [STATE]
        return True

    def read(self, number: int, kind: str, value: Any) -> list[Violation]:
        """Judge a line after the header. Raises :class:`Senseless` if the line is out of place."""
        if self.ended:
            raise Senseless("the line comes after the end of the recording")
        self.position += 1
        if kind == "command":
            self.verdict.commands += 1
            return self._command(number, value)
        if kind == "snapshot":
            return self._snapshot(value)
        self.ended = True
        if kind == "end":
            self.verdict.ends.append((number, value))
            return []
        self.referee.recorded.next = EngineFailed(value["how"], value["error"])
        command = self._announced()
        self.pending.clear()
        return self._do(command, None)

    def _announced(self) -> Command:
        """Return the command of the next iteration. An iteration need not be announced."""
        return self.pending.pop(0) if self.pending else {"do": "step", "n": 1}

    def nothing_pending(self) -> None:
        """Raise :class:`Senseless` if an announced iteration is missing."""
        if self.pending:
            text = f"line {self.announced} announced an iteration that is missing"
            raise Senseless(f"out of order: {text}")

    def _command(self, number: int, command: Command) -> list[Violation]:
        self.nothing_pending()
        if command["do"] not in AT_ONCE:
            return self._do(command, None)
        self.announced = number
        steps: list[Command] = [{"do": "step", "n": 1}]
        self.pending = steps * command["n"] if command["do"] == "step" else [command]
        return []

    def _snapshot(self, snapshot: Any) -> list[Violation]:
        if self.start is not None:
            self.pending, self.iteration = [STATE], self.start["iter"]
        command = self._announced()
        if snapshot["iter"] < self.iteration + (command["do"] == "step"):
            text = f"iteration {snapshot['iter']} comes after iteration {self.iteration}"
            raise Senseless(f"out of order: {text}")
        self.iteration = snapshot["iter"]
        if self.start is not None or self.lost:
            if "pools" not in snapshot:
                if self.start is not None:
                    raise Senseless("a continuing file must begin with a state")
                self.referee.hear(snapshot)
                self.verdict.skipped += 1
                return []
            snapshot = {**snapshot, "events": []}
            self.referee.begin(snapshot, self.start and self.start["clients"])
            self.start, self.lost = None, False
        self.referee.recorded.next = snapshot
        return self._do(command, snapshot)

    def _do(self, command: Command, snapshot: Snapshot | None) -> list[Violation]:
        violations = self.referee.do(command)
        self.last = self.referee.log.pop()  # else the referee's own log grows without limit
        if command is STATE and self.rows and not violations:
            return violations  # The file begins with the state that ended the previous file.
        self.commands += 1
        self.rows.append(_row(self.last, snapshot, self.rows[-1] if self.rows else Row({})))
        while len(self.rows) > 1 and sum(map(_actors, self.rows)) > ACTORS:
            self.rows.popleft()
        if violations:
            self.lost = snapshot is None or "pools" not in snapshot
        return violations


def _row(entry: Iteration, line: Snapshot | None, last: Row) -> Row:
    """Return the trace row of a line. Parts missing from the line come from the previous row."""
    command = entry.command
    if "tokens" in command and command["do"] == "submit":  # A client's prompt is private.
        command = {**command, "tokens": Hashed(len(command["tokens"]), None)}
    if line is None or not entry.judged:
        return Row(command, [], last.pools, last.sessions, last.slots, last.requests)
    (row,) = rows_of([replace(entry, command=command)])
    if not row.frames:
        shown = {name: getattr(last, name) for name in FIGURES}
        frame = Frame(**said_in(line), **shown, carried=True)
        transitions = [event["transition"] for event in frame.events]
        return Row(command, transitions, **shown, frames=[frame])
    (frame,) = row.frames
    parts = parts_of(line)
    check = frame.check if "checker" in parts else {}
    pages = frame.pages if "pages" in parts else {}
    return replace(row, frames=[replace(frame, check=check, pages=pages)])


def _actors(row: Row) -> int:
    return len(row.sessions) + len(row.slots) + len(row.requests)
