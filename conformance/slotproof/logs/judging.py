"""Checks a log against the spec, without the engine: ``slotproof validate``."""

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
from slotproof.protocol.commands import Command
from slotproof.protocol.snapshot import Hashed, Snapshot
from slotproof.search.findings import Mark, mark
from slotproof.traces.frames import Frame, said_in
from slotproof.traces.itf import FIGURES
from slotproof.traces.record import Row, rows_of

CONTEXT = 24
"""Commands and iterations up to a bad line that are kept to be shown."""
ACTORS = 40_000
"""Sessions, slots and requests in all their figures: of more, fewer lines are kept."""
KINDS = 100
"""Different violations of a log that are told apart."""
ENDS = 16
"""Reasons why a recorder stopped that are kept."""
STATE: Command = {"do": "tick", "seconds": 0}
"""What a state is taken for that is no iteration: with it a file begins that goes on."""


@dataclass(frozen=True)
class LogFinding:
    """A log line that the spec can't explain."""

    file: str
    line: int
    header: Header
    violations: list[Violation]
    rows: list[Row]
    """The last commands and iterations up to that line, with their figures."""
    commands: int
    """Commands and iterations of this engine's life up to there."""
    part: int
    """Which file of its recording it is, from 1 on."""
    at: int
    """The line in that, also where the files are read as one."""


@dataclass
class Seen:
    """Violations that are one, as far as a log tells: where the first is, and how many."""

    file: str
    line: int
    part: int
    at: int
    violation: Violation
    times: int = 0


@dataclass
class Verdict:
    """What a log comes to."""

    log: str
    headers: list[Header] = field(default_factory=list)
    """Of each kind of engine that was recorded one; the last is of the one it ended in."""
    lives: int = 0
    """Engines from their start, or from where the log has them."""
    coverage: Coverage = field(default_factory=Coverage)
    seen: Counter[str] = field(default_factory=Counter)
    commands: int = 0
    """Commands of clients and of the scheduler that the log names."""
    lines: int = 0
    """Lines that were judged, or left out up to the next state."""
    cut: int | None = None
    """The number of the last line, if it breaks off in the middle."""
    interrupted: bool = False
    """The rest of the log was not read."""
    ends: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=ENDS))
    """Lines in which the recorder said why it stopped."""
    found: LogFinding | None = None
    """The first line that can't be explained."""
    kinds: dict[str, Seen] = field(default_factory=dict)
    """By what makes them the same, in order: see :func:`kind_of`."""
    times: Counter[str] = field(default_factory=Counter)
    """How often each clause was violated."""
    broken: str = ""
    """Why the rest of the log, after a violation, could not be read."""
    unseen: list[int] = field(default_factory=lambda: [0, 0])
    """Lines that are in files which are gone; the iteration up to which they were."""
    skipped: int = 0
    """Lines after a violation that could not be judged: up to the next state."""

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
        """What was found after the first line, each kind once. It may follow from that line: the
        spec goes on from the engine's own state."""
        first = self.found and (self.found.file, self.found.line)
        return [each for each in self.kinds.values() if (each.file, each.line) != first]


def validate(
    log: str | Path | list[Path], profile: str | None = None, ignore: Collection[str] = ()
) -> Verdict:
    """Judge a log to its end; violations of the clauses to ignore are counted only.

    Raises :class:`~slotproof.logs.format.BadLog` with one line.

    >>> from tempfile import TemporaryDirectory
    >>> lines = (
    ...     '{"slotproof-log":3,"engine":{"name":"mine","version":"0"},"profile":null,"config":{}}',
    ...     '{"snapshot":{"iter":1,"events":[["T-SAVE","s1","r1",{"F":1}]]}}',
    ... )
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.jsonl"
    ...     _ = path.write_text("\\n".join(lines) + "\\n")
    ...     verdict = validate(path)
    >>> verdict.line, [violation.clause for violation in verdict.violations]
    (2, ['INV-STEP.unknown'])
    """
    return judged(log if isinstance(log, list) else [Path(log)], profile, ignore).verdict


def judged(log: list[Path], profile: str | None = None, ignored: Collection[str] = ()) -> Judge:
    """Return the judge of a log that has read all of it. Raises as :func:`validate` does."""
    judge = Judge(log, profile, ignored)
    for _ in judge.findings():
        pass
    return judge


def kind_of(found: Mark) -> str:
    """What makes two violations of a log the same.

    A clause of states that is broken stays broken, whatever happens next: later iterations say
    nothing new. Where lockstep knows the transition, the two states around it were compared, and
    another transition is another violation; so are a crash and a stall of another kind.
    """
    return found.id if found.certain or found.what else found.clause


class Judge:
    """Judges lines as they come, and what follows a violation where it can.

    It keeps nothing of a line but what the next ones need: a log may be as long as a server lives.
    """

    def __init__(self, log: list[Path], profile: str | None, ignored: Collection[str]) -> None:
        self.log = Log(log)
        self.verdict = Verdict(str(self.log))
        self.choices = profile, tuple(ignored)
        self.recording: Recording | None = None

    def findings(self) -> Iterator[LogFinding]:
        """Judge to the end of the log; yield each line that can't be explained when it is read.

        Raises :class:`~slotproof.logs.format.BadLog` where nothing was found before.
        """
        try:
            for kind, value in self.log:
                found = self._read(kind, value)
                self.verdict.lines += 1
                if found is not None:
                    yield found
        except BadLog as bad:
            if self.verdict.found is None:
                raise
            self.verdict.broken = str(bad).removeprefix(f"{shown(self.log.file)}: ")
        self.verdict.cut = self.log.cut

    @property
    def shown(self) -> LogFinding:
        """The first line that can't be explained; where all can, the last one."""
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
        """Judge the next line; return what can't be explained of it."""
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
        found = self._found(recording, violations)
        verdict.found = verdict.found or found
        verdict.times.update(each.clause for each in violations)
        here = {kind_of(mark(recording.last, each)): each for each in reversed(violations)}
        for same, violation in reversed(here.items()):
            if same not in verdict.kinds and len(verdict.kinds) < KINDS:
                verdict.kinds[same] = Seen(found.file, line, found.part, found.at, violation)
            if same in verdict.kinds:
                verdict.kinds[same].times += 1
        return found

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
        verdict.headers = [each for each in verdict.headers if each != kind] + [kind]


class Recording:
    """The recording of one engine: its lines, judged in order."""

    def __init__(self, verdict: Verdict, referee: LogReferee) -> None:
        self.verdict, self.referee = verdict, referee
        self.rows: deque[Row] = deque(maxlen=CONTEXT)
        self.last = Iteration({})
        """What was judged last."""
        self.commands = 0
        self.pending: list[Command] = []
        """Announced iterations that are not there yet."""
        self.announced = 0
        self.iteration = 0
        self.ended = False
        self.file, self.position = 1, 1
        """Which file of its recording this is, and how many lines of all of them were read."""
        self.before = 0
        """Lines of other files of it that are in this one, where they are read as one."""
        self.start: dict[str, Any] | None = None
        """The state that comes next is where judging begins, and this is what went before it."""
        self.lost = False
        """Judging begins again at the next state: events led the spec to no state of the engine."""

    def goes_on(self, went_before: dict[str, Any]) -> bool:
        """Whether the file that begins goes on where the one before ended; then it is its state."""
        follows = (went_before["file"], went_before["lines"]) == (self.file + 1, self.position)
        if self.ended or self.start or not follows or went_before["iter"] < self.iteration:
            return False
        self.file += 1
        self.position += 1
        self.pending = [STATE]
        return True

    def read(self, number: int, kind: str, value: Any) -> list[Violation]:
        """Judge one line after the header. Raises :class:`Senseless`."""
        if self.ended:
            raise Senseless("a line after the end of the recording")
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
        """The next iteration, whether it was announced or not."""
        return self.pending.pop(0) if self.pending else {"do": "step", "n": 1}

    def nothing_pending(self) -> None:
        """Raise :class:`Senseless` where an iteration was announced that is not there."""
        if self.pending:
            text = f"line {self.announced} announced an iteration that is not there"
            raise Senseless(f"out of order: {text}")

    def _command(self, number: int, command: Command) -> list[Violation]:
        self.nothing_pending()
        if command["do"] not in ("step", "tick"):
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
            text = f"iteration {snapshot['iter']} after iteration {self.iteration}"
            raise Senseless(f"out of order: {text}")
        self.iteration = snapshot["iter"]
        if self.start is not None or self.lost:
            if "pools" not in snapshot:
                if self.start is not None:
                    raise Senseless("a file that goes on begins with a state")
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
        self.last = self.referee.log.pop()  # a log may be as long as a server lives
        if command is STATE and self.rows and not violations:
            return violations  # the same state once more, in another file
        self.commands += 1
        self.rows.append(_row(self.last, snapshot, self.rows[-1] if self.rows else Row({})))
        while len(self.rows) > 1 and sum(map(_actors, self.rows)) > ACTORS:
            self.rows.popleft()
        if violations:
            self.lost = snapshot is None or "pools" not in snapshot
        return violations


def _row(entry: Iteration, line: Snapshot | None, last: Row) -> Row:
    """What to show of the line; figures stay as they were where none were recorded."""
    command = entry.command
    if "tokens" in command and command["do"] == "submit":  # a client's words are nobody's business
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
