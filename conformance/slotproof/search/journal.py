"""Journal of a long campaign: a head line, then a line for each finished task.

The plan and the results of tasks determine a campaign. So a killed campaign restarts from its first
task: tasks take their results from the journal, up to the first task without a result. A report
also runs the campaign from the journal, but without workers for missing tasks.

Each line is on disk before the campaign continues. An incomplete last line is dropped. A file may
hold several campaigns in order, each with a head line. Only one process at a time writes to a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from slotproof.engines.base import Subject
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.shapes import misfit_of
from slotproof.search.campaign import Campaign, Outcome
from slotproof.search.examples import Search, Searched
from slotproof.search.findings import Finding
from slotproof.search.plan import Clock, Plan, Stop
from slotproof.search.shrinking import Shrunk
from slotproof.search.workers import Done, Event, R, Task, Workers
from slotproof.support import bounds, interrupts, sources
from slotproof_model.spec.profiles import profile_named

SUFFIX = ".journal.jsonl"


class BadJournal(ValueError):
    """Error for a file that is no journal of the same search. The message is one line."""


@dataclass(frozen=True)
class Head:
    """Head of a campaign: the build under test, the version of slotproof and the plan."""

    subject: Subject
    where: str
    """Options for starting the engine that are missing in the ``spec`` of the subject."""
    configs: dict[str, EngineConfig]
    strength: int
    steps: int
    seed: int
    shrink: int
    examples: int | None
    profile: str | None
    ignored: tuple[str, ...]
    slotproof: str = field(default_factory=sources.release)
    sources: str = field(default_factory=sources.digest)
    """Digest of slotproof's own code. Different code draws different examples."""
    format: Literal[3] = 3
    kind: Literal["head"] = "head"

    @classmethod
    def of(cls, subject: Subject, where: str, plan: Plan) -> Head:
        taken = {name: getattr(plan, name) for name in cls.__annotations__ if hasattr(plan, name)}
        return cls(subject, where, **taken)

    @property
    def plan(self) -> Plan:
        """Plan of the campaign. Raises ``ValueError`` for an impossible plan."""
        if self.profile is not None:
            profile_named(self.profile)
        taken = {name: value for name, value in vars(self).items() if name in Plan.__annotations__}
        plan = Plan(**taken, seconds=None if self.examples else math.inf, distinct=None)
        with contextlib.suppress(BadConfig):
            made = replace(plan, configs={}).of(self.subject.capabilities)
            return replace(plan, array=made.array if made.configs == self.configs else None)
        return plan


@dataclass(frozen=True)
class TaskLine:
    """Result of a task."""

    key: str
    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Seconds since the start of the campaign."""
    told: int
    """Number of examples run, or of replays made."""
    result: Searched | Shrunk
    kind: Literal["task"] = "task"

    @property
    def findings(self) -> list[Finding]:
        result = self.result
        findings = result.smaller if isinstance(result, Shrunk) else result.findings
        return [finding for finding in findings if finding is not None]


@dataclass(frozen=True)
class EndLine:
    """End of the campaign, with the findings as reported."""

    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    findings: list[Finding]
    removed: dict[str, str]
    """Patch that removes each finding, by the finding's identity."""
    kind: Literal["end"] = "end"


Line = Head | TaskLine | EndLine
LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


@dataclass
class Run:
    """A campaign, as read from the lines of a journal."""

    head: Head
    done: dict[str, TaskLine] = field(default_factory=dict)
    """Lines of finished tasks, by the key of the task."""
    end: EndLine | None = None
    taken: float = 0.0
    """Seconds from the start of the campaign to its last line."""

    def read(self, line: TaskLine | EndLine) -> None:
        self.taken = line.at
        if isinstance(line, EndLine):
            self.end = line
        else:
            self.done[line.key] = line

    @property
    def examples(self) -> int:
        results = [line.result for line in self.done.values()]
        return sum(result.examples for result in results if isinstance(result, Searched))

    @property
    def removed(self) -> dict[str, str]:
        """Patch that removes each finding, by the finding's identity. Empty before the end."""
        return self.end.removed if self.end is not None else {}

    def outcome(self) -> Outcome:
        """Return the campaign's outcome so far. Raises ``ValueError`` for impossible content."""
        if problem := self.head.subject.capabilities.senseless():
            raise ValueError(problem)
        memory = Remembering(self)
        outcome = Campaign(self.head.subject, self.head.plan, memory, clock=_Told(memory)).run()
        outcome.seconds, outcome.out_of_time = self.taken, False
        outcome.interrupted = self.end is None
        if self.end is not None:
            outcome.findings = self.end.findings
        return outcome


class Remembering:
    """Workers that take results from a journal. ``workers``, if given, run the remaining tasks."""

    def __init__(
        self, run: Run, workers: Workers | None = None, journal: Journal | None = None
    ) -> None:
        self.run, self.workers, self.journal = run, workers, journal
        self.jobs = workers.jobs if workers is not None else 1
        self.done = {**run.done}
        self.memory, self.over = bool(run.done), False
        self.at = 0.0
        """Campaign time of the last journal line used, in seconds."""

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = lambda *_: None
    ) -> list[R]:
        """Return results in the order of the tasks."""
        results: dict[int, Any] = {}
        for number, task in enumerate(tasks):
            if (line := self.done.get(task.key)) is not None:
                if isinstance(task, Search) != isinstance(line.result, Searched):
                    text = f"the line {line.key} has the result of a different kind of task"
                    raise ValueError(text)
                results[number], self.at = line.result, max(self.at, line.at)
                seen = line.result
                if isinstance(seen, Searched) and seen.rest is not None and not seen.examples:
                    del self.done[task.key]  # No example was run: the batch must still be run.
                told: list[Finding | int] = [*line.findings, line.told]
                for what in told:
                    event(number, what)
                done(number, results[number])
        if due := {number: task for number, task in enumerate(tasks) if number not in results}:
            self.memory = False
            results |= dict(zip(due, self._run(due, event, stop, done), strict=True))
        return [results[number] for number in range(len(tasks))]

    def _run(self, due: dict[int, Task[R]], event: Event, stop: Stop, done: Done) -> list[Any]:
        numbers, tasks = [*due], [*due.values()]
        if self.workers is None:
            self.over = True
            return list(map(_nothing, tasks))
        told = Counter[int]()

        def tell(index: int, what: Finding | int) -> None:
            told[index] += what if isinstance(what, int) else 0
            event(numbers[index], what)

        def finished(index: int, result: Any) -> None:
            if self.journal is not None and not interrupts.arrived():
                self.journal.add(tasks[index].key, told[index], result)
            done(numbers[index], result)

        return self.workers.map(tasks, tell, stop, finished)


def _nothing(task: Any) -> Any:
    """Return the result of a task that was not run."""
    if isinstance(task, Search):
        return Searched(rest=task.batch)
    return Shrunk([None] * len(task.findings))


class _Told(Clock):
    """Clock that takes a campaign's time from its journal."""

    def __init__(self, memory: Remembering) -> None:
        super().__init__(None)
        self._memory = memory

    def taken(self) -> float:
        return self._memory.at


class Journal:
    """A journal open for writing. Raises :class:`BadJournal` if the file can't be used."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path, self._begun = path, time.monotonic()
        self.problem = ""
        """Reason why no further line is written, or empty. The search continues."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._begin(head)
        except BlockingIOError:
            self.close()
            raise BadJournal(f"{path}: another run writes to this journal") from None
        except BaseException:
            self.close()
            raise

    def _begin(self, head: Head) -> None:
        every, self._end = read(self.path)
        os.ftruncate(self._file, self._end)
        os.lseek(self._file, self._end, os.SEEK_SET)
        begun = [run for run in every[-1:] if run.end is None and run.head == head]
        self.run = begun[0] if begun else Run(head)
        """Campaign to resume, or an empty new campaign."""
        if not begun:
            self._write(head)

    def add(self, key: str, told: int, result: Any) -> None:
        """Write the result of a task."""
        self._write(TaskLine(key, self._at, told, result))

    def end(self, findings: Sequence[Finding], removed: Mapping[str, str]) -> None:
        """Write the end of the campaign."""
        self._write(EndLine(self._at, [*findings], dict(removed)))

    @property
    def _at(self) -> float:
        return round(self.run.taken + time.monotonic() - self._begun, 2)

    def _write(self, line: Line) -> None:
        if self.problem:
            return  # A line is useful only after all earlier lines.
        text = _dumped(line) + b"\n"
        left = memoryview(text)
        try:
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            self.problem = (
                f"{self.path} can't be written to: {error.strerror}; all lines so far are "
                "complete, and the same command resumes after them"
            )
        else:
            self._end += len(text)

    def close(self) -> None:
        """Close the file and release its lock."""
        os.close(self._file)


def _dumped(line: Line) -> bytes:
    """Return a line's JSON. A lone surrogate has no UTF-8 form, and is written as an escape."""
    try:
        return LINE.dump_json(line)
    except PydanticSerializationError:
        text = json.dumps(LINE.dump_python(line, mode="json"), ensure_ascii=False)
        return re.sub("[\ud800-\udfff]", lambda lone: f"\\\\u{ord(lone[0]):04x}", text).encode()


def read(path: Path) -> tuple[list[Run], int]:
    """Return the campaigns of a journal, and the total length of complete lines in bytes. Another
    process may write to the file meanwhile. Raises :class:`BadJournal`."""
    runs: list[Run] = []
    end = 0
    for upto, line in _lines(path):
        end = upto
        if isinstance(line, Head):
            runs.append(Run(line))
        elif runs:
            runs[-1].read(line)
        else:
            raise BadJournal(f"{path}, line 1: the line is not the head of a campaign")
    return runs, end


def _lines(path: Path) -> Iterator[tuple[int, Line]]:
    end = number = 0
    try:
        with path.open("rb") as file:
            while text := file.readline(bounds.JOURNAL_LINE_BYTES + 1):
                end, number = end + len(text), number + 1
                try:
                    if not text.endswith(b"\n"):
                        raise ValueError("the line is cut short, or too long")
                    line = LINE.validate_json(text)
                except ValueError as error:
                    if not text.endswith(b"\n") and not file.read(1):
                        return  # The process or the machine stopped during the write.
                    why = str(error)
                    if isinstance(error, ValidationError):
                        why = misfit_of(error).at("line")
                    raise BadJournal(f"{path}, line {number}: {why}") from None
                yield end, line
    except OSError as error:
        raise BadJournal(f"{path}: {error.strerror}") from None
