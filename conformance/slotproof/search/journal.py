"""The journal of a long campaign: what it is of, then a line for each task that is done.

A campaign follows from its plan and the results of its tasks. So one that was killed goes on as it
began: its tasks have their results from the journal, up to the first that is not there. A report is
the same campaign, without anybody who runs the rest.

A line is on the disk before the next thing is done. One that was cut short is the last, and is
dropped. A file has campaigns one after the other, each with a head; one process at a time writes.
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

from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.shapes import misfit_of
from slotproof.search.campaign import Outcome, Subject, search
from slotproof.search.examples import Search, Searched
from slotproof.search.findings import Finding
from slotproof.search.plan import Clock, Plan, Stop
from slotproof.search.shrinking import Shrunk
from slotproof.search.workers import Done, Event, R, Task, Workers, no_matter
from slotproof.support import bounds, interrupts, sources
from slotproof_model.spec.profiles import profile_named

SUFFIX = ".journal.jsonl"


class BadJournal(ValueError):
    """No journal, or one of something else; one line that says why."""


@dataclass(frozen=True)
class Head:
    """Of which build, by which slotproof, with which plan."""

    subject: Subject
    where: str
    """What else the engine was started with."""
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
    """A digest of slotproof's own code: another one draws other examples."""
    format: Literal[3] = 3
    kind: Literal["head"] = "head"

    @classmethod
    def of(cls, subject: Subject, where: str, plan: Plan) -> Head:
        taken = {name: getattr(plan, name) for name in cls.__annotations__ if hasattr(plan, name)}
        return cls(subject, where, **taken)

    @property
    def plan(self) -> Plan:
        """Raises ``ValueError`` for a plan that there can't be."""
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
    """The result of a task."""

    key: str
    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Seconds of the campaign."""
    told: int
    """Examples, or replays."""
    result: Searched | Shrunk
    kind: Literal["task"] = "task"

    @property
    def is_idle(self) -> bool:
        """Whether there was no time for an example of the batch."""
        result = self.result
        return isinstance(result, Searched) and result.rest is not None and not result.examples

    @property
    def findings(self) -> list[Finding]:
        result = self.result
        found = result.smaller if isinstance(result, Shrunk) else result.findings
        return [each for each in found if each is not None]


@dataclass(frozen=True)
class EndLine:
    """The end of the campaign, with its findings as they were told."""

    at: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    findings: list[Finding]
    removed: dict[str, str]
    """By the identity of a finding, the patch that removes it."""
    kind: Literal["end"] = "end"


Line = Head | TaskLine | EndLine
LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


@dataclass
class Run:
    """A campaign as its lines tell it."""

    head: Head
    done: dict[str, TaskLine] = field(default_factory=dict)
    """The lines of tasks, by key."""
    end: EndLine | None = None
    taken: float = 0.0
    """Seconds up to the last line."""

    def read(self, line: TaskLine | EndLine) -> None:
        self.taken = line.at
        if isinstance(line, EndLine):
            self.end = line
        else:
            self.done[line.key] = line

    @property
    def examples(self) -> int:
        results = [each.result for each in self.done.values()]
        return sum(each.examples for each in results if isinstance(each, Searched))

    @property
    def removed(self) -> dict[str, str]:
        """By the identity of a finding, the patch that removes it; empty before the end."""
        return self.end.removed if self.end is not None else {}

    def outcome(self) -> Outcome:
        """Return the campaign as far as it is here. Raises ``ValueError`` for what there can't
        be."""
        if problem := self.head.subject.capabilities.senseless():
            raise ValueError(problem)
        memory = Remembering(self)
        found = search(self.head.subject, self.head.plan, memory, clock=_Told(memory))
        found.seconds, found.interrupted, found.out_of_time = self.taken, self.end is None, False
        if self.end is not None:
            found.findings = self.end.findings
        return found


class Remembering:
    """Takes the results of tasks from a journal; ``workers`` run the others, if there are any."""

    def __init__(
        self, run: Run, workers: Workers | None = None, journal: Journal | None = None
    ) -> None:
        self.run, self.workers, self.journal = run, workers, journal
        self.jobs = workers.jobs if workers is not None else 1
        self.done = {**run.done}
        self.memory, self.over = bool(run.done), False
        self.at = 0.0
        """Seconds of the campaign at the last line that was asked for."""

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks."""
        results: dict[int, Any] = {}
        for number, task in enumerate(tasks):
            if (line := self.done.get(task.key)) is not None:
                results[number], self.at = _result_of(line, task), max(self.at, line.at)
                if line.is_idle:
                    del self.done[task.key]  # the rest has the same key, and somebody has to run it
                told: list[Finding | int] = [*line.findings, line.told]
                for what in told:
                    event(number, what)
                done(number, results[number])
        due = {number: task for number, task in enumerate(tasks) if number not in results}
        if due:
            self.memory = False
            new = self._run(due, event, stop, done)
            results |= dict(zip(due, new, strict=True))
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

    def close(self) -> None:
        """The workers are their owner's."""


def _result_of(line: TaskLine, task: Any) -> Any:
    if isinstance(task, Search) != isinstance(line.result, Searched):
        raise ValueError(f"{line.key}: the result of another task")
    return line.result


def _nothing(task: Any) -> Any:
    """Return the result of a task that nobody ran."""
    if isinstance(task, Search):
        return Searched(rest=task.batch)
    return Shrunk([None] * len(task.findings))


class _Told(Clock):
    """The clock of a campaign that is read."""

    def __init__(self, memory: Remembering) -> None:
        super().__init__(None)
        self._memory = memory

    def taken(self) -> float:
        return self._memory.at


class Journal:
    """A journal that is written to. Raises :class:`BadJournal` where it can't be."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path, self._begun = path, time.monotonic()
        self.problem = ""
        """Why lines are missing. That ends no search."""
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
        """The campaign that this one goes on with; empty where there is none."""
        if not begun:
            self._write(head)

    def add(self, key: str, told: int, result: Any) -> None:
        """Write the result of a task."""
        self._write(TaskLine(key, self._at, told, result))

    def end(self, findings: Sequence[Finding], removed: Mapping[str, str]) -> None:
        """Write that the campaign came to its end."""
        self._write(EndLine(self._at, [*findings], dict(removed)))

    @property
    def _at(self) -> float:
        return round(self.run.taken + time.monotonic() - self._begun, 2)

    def _write(self, line: Line) -> None:
        if self.problem:
            return  # a line is of use only after those before it
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
                f"{self.path} can't be written to: {error.strerror}; what is in it is whole, and "
                "the same command goes on from there"
            )
        else:
            self._end += len(text)

    def close(self) -> None:
        """Let another process write."""
        os.close(self._file)


def _dumped(line: Line) -> bytes:
    """Return the JSON of a line; a lone surrogate, which has no UTF-8, is spelt out in it."""
    try:
        return LINE.dump_json(line)
    except PydanticSerializationError:
        text = json.dumps(LINE.dump_python(line, mode="json"), ensure_ascii=False)
        return re.sub("[\ud800-\udfff]", lambda lone: f"\\\\u{ord(lone[0]):04x}", text).encode()


def read(path: Path) -> tuple[list[Run], int]:
    """Return the campaigns of a journal, while another process may write to it, and the bytes of
    its whole lines. Raises :class:`BadJournal`."""
    runs: list[Run] = []
    end = 0
    for upto, line in _lines(path):
        end = upto
        if isinstance(line, Head):
            runs.append(Run(line))
        elif runs:
            runs[-1].read(line)
        else:
            raise BadJournal(f"{path}, line 1: no head of a campaign")
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
                        return  # it was being written when the process or the machine stopped
                    why = str(error)
                    if isinstance(error, ValidationError):
                        why = misfit_of(error).at("line")
                    raise BadJournal(f"{path}, line {number}: {why}") from None
                yield end, line
    except OSError as error:
        raise BadJournal(f"{path}: {error.strerror}") from None
