"""The journal of a long campaign: what it is of, then a line for each task that is done.

A campaign follows from its plan and the results of its tasks. So one that was killed goes on as it
began: its tasks have their results from the journal, up to the first that is not there. A report is
the same campaign, without anybody who runs the rest.

A line is on the disk before the next thing is done. One that was cut short is the last, and is
dropped. A file has campaigns one after the other, each with a head; one process at a time writes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from filelock import FileLock, Timeout
from pydantic import Field
from typing_extensions import TypedDict

from slotproof.engines.base import Capabilities
from slotproof.lockstep.coverage import Coverage
from slotproof.protocol.build import Build
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.messages import Offered
from slotproof.protocol.shapes import Count, Name, Shape, Text, shape
from slotproof.reports.trace import from_itf
from slotproof.search.campaign import Outcome, Subject, search
from slotproof.search.examples import Search, Searched
from slotproof.search.findings import Finding, Mark
from slotproof.search.plan import Plan
from slotproof.search.schedule import Clock, ExampleBatch, Stop
from slotproof.search.workers import Done, Event, R, Task, Workers, no_matter
from slotproof.support import bounds, interrupts, jsontext, sources
from slotproof.support.jsontext import BadJson
from slotproof.traces import itf
from slotproof.traces.document import BuildFound
from slotproof_model.spec.profiles import profile_named

SUFFIX = ".journal.jsonl"
FORMAT = 2
STATES_BYTES = 1 << 20
"""A trace that is longer is kept without its states: a replay makes them again."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Counts = dict[Name, Count]
Bits = Annotated[str, Field(pattern="^[0-9a-f]{1,1000}$")]
Commands = list[dict[str, Any]]


class BadJournal(ValueError):
    """No journal, or one of something else; one line that says why."""


@shape
class MarkLine(TypedDict):
    clause: Name
    transitions: list[Name]
    command: Name
    what: Text
    certain: bool


@shape
class FindingLine(TypedDict):
    mark: MarkLine
    trace: dict[str, Any]
    first: Count
    before: Commands


@shape
class CoverageLine(TypedDict):
    transitions: Counts
    decoding: Counts
    checked: Counts
    set_aside: Counts
    by_choice: Counts
    holds: Bits
    fails: Bits
    commands: Count
    iterations: Count
    reached: dict[Name, Counts]


@shape
class HeadLine(TypedDict):
    """Of which build, by which slotproof, with which plan."""

    kind: Literal["head"]
    format: Literal[2]
    slotproof: Name
    sources: Name
    engine: Name
    build: BuildFound
    spec: Text
    where: Text
    offers: Offered
    configs: dict[Name, dict[str, Any]]
    strength: Count
    steps: Count
    seed: Count
    shrink: Count
    profile: NotRequired[Name]
    set_aside: list[Name]
    examples: NotRequired[Count]


@shape
class RestLine(TypedDict):
    done: Count
    place: list[Count]
    before: Commands


@shape
class SearchLine(TypedDict):
    kind: Literal["search"]
    key: Text
    at: Seconds
    examples: Count
    coverage: CoverageLine
    findings: list[FindingLine]
    accepted: list[Name]
    shown: Counts
    seconds: Seconds
    rest: NotRequired[RestLine]


@shape
class ShrinkLine(TypedDict):
    kind: Literal["shrink"]
    key: Text
    at: Seconds
    replays: Count
    results: list[FindingLine | None]


@shape
class EndLine(TypedDict):
    """The campaign came to its end; of each finding its trace, and the patch that removes it."""

    kind: Literal["end"]
    at: Seconds
    findings: list[FindingLine]
    removed: dict[Name, Name]


HEAD = Shape("head", HeadLine)
LINE = Shape(
    "line", Annotated[HeadLine | SearchLine | ShrinkLine | EndLine, Field(discriminator="kind")]
)


@dataclass
class Run:
    """A campaign as its lines tell it."""

    head: dict[str, Any]
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The lines of tasks, by key."""
    end: dict[str, Any] | None = None
    taken: float = 0.0
    """Seconds up to the last line."""

    def read(self, line: dict[str, Any]) -> None:
        self.taken = line["at"]
        if line["kind"] == "end":
            self.end = line
        else:
            self.done[line["key"]] = line

    @property
    def examples(self) -> int:
        return sum(line.get("examples", 0) for line in self.done.values())

    @property
    def removed(self) -> dict[str, str]:
        """By the identity of a finding the patch that removes it; empty before the end."""
        return self.end["removed"] if self.end is not None else {}

    @property
    def subject(self) -> Subject:
        """Raises ``ValueError`` for a build that there can't be."""
        head = self.head
        offered = Capabilities.from_json(head["offers"])
        if problem := offered.senseless():
            raise ValueError(problem)
        return Subject(head["engine"], head["spec"], Build(**head["build"]), offered)

    @property
    def plan(self) -> Plan:
        """Raises ``ValueError`` for a plan that there can't be."""
        head = self.head
        configs = {name: EngineConfig.from_json(each) for name, each in head["configs"].items()}
        if (profile := head.get("profile")) is not None:
            profile_named(profile)
        plan = Plan(
            configs,
            head.get("examples"),
            head["steps"],
            head["seed"],
            profile,
            tuple(head["set_aside"]),
            head["shrink"],
            None if "examples" in head else math.inf,
            distinct=None,
            strength=head["strength"],
        )
        with contextlib.suppress(BadConfig):
            made = replace(plan, configs={}).of(self.subject.capabilities)
            return replace(plan, array=made.array if made.configs == configs else None)
        return plan

    def outcome(self) -> Outcome:
        """Return the campaign as far as it is here."""
        memory = Remembering(self)
        found = search(self.subject, self.plan, memory, clock=_Told(memory))
        found.seconds, found.interrupted, found.out_of_time = self.taken, self.end is None, False
        if self.end is not None:
            found.findings = list(map(_finding_of, self.end["findings"]))
        return found


class Remembering:
    """Takes the results of tasks from a journal; ``workers`` run the others, if there are any."""

    def __init__(
        self, run: Run, workers: Workers | None = None, journal: Journal | None = None
    ) -> None:
        self.run, self.workers, self.journal = run, workers, journal
        self.jobs = workers.jobs if workers is not None else 1
        self.memory, self.over = bool(run.done), False
        self.at = 0.0
        """Seconds of the campaign at the last line that was asked for."""

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks."""
        results: dict[int, R] = {}
        for number, task in enumerate(tasks):
            if (line := self.run.done.get(task.key)) is not None:
                results[number], told = _result_of(line, task)
                self.at = max(self.at, line["at"])
                for what in told:
                    event(number, what)
                done(number, results[number])
        due = [number for number in range(len(tasks)) if number not in results]
        if not due:
            return [results[number] for number in range(len(tasks))]
        self.memory = False
        if self.workers is None:
            self.over = True
            results |= {number: _nothing(tasks[number]) for number in due}
            return [results[number] for number in range(len(tasks))]
        replays = Counter[int]()

        def tell(index: int, what: Finding | int) -> None:
            if isinstance(what, int):
                replays[index] += what
            event(due[index], what)

        def finished(index: int, result: Any) -> None:
            if self.journal is not None and not interrupts.arrived():
                self.journal.add(_line(tasks[due[index]].key, result, replays[index]))
            done(due[index], result)

        new = self.workers.map([tasks[number] for number in due], tell, stop, finished)
        results |= dict(zip(due, new, strict=True))
        return [results[number] for number in range(len(tasks))]

    def close(self) -> None:
        """The workers are their owner's."""


class _Told(Clock):
    """The clock of a campaign that is read."""

    def __init__(self, memory: Remembering) -> None:
        super().__init__(None)
        self._memory = memory

    def taken(self) -> float:
        return self._memory.at


class Journal:
    """A journal that is written to. Raises :class:`BadJournal` where it can't be."""

    def __init__(self, path: Path, subject: Subject, plan: Plan, options: str) -> None:
        self.path, self._begun = path, time.monotonic()
        self.problem = ""
        """Why lines are missing. That ends no search."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BadJournal(f"{path}: another run writes to this journal") from None
        self._file = -1
        try:
            self._open(_head(subject, plan, options))
        except BaseException:
            self.close()
            raise

    def _open(self, head: dict[str, Any]) -> None:
        end, last = 0, None
        for upto, line in lines(self.path) if self.path.exists() else ():
            end = upto
            if line["kind"] == "head":
                last = Run(line)
            elif last is not None:
                last.read(line)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._file, self._end = os.open(self.path, flags, 0o666), end
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)
        same = last is not None and last.end is None and last.head == head
        self.run = last if same and last is not None else Run(head)
        """The campaign that this one goes on with; empty where there is none."""
        if self.run is not last:
            self._write(head)

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, with the seconds of the campaign."""
        taken = self.run.taken + time.monotonic() - self._begun
        self._write({**line, "at": round(taken, 2)})

    def end(self, findings: Sequence[Finding], removed: Mapping[str, str]) -> None:
        """Write that the campaign came to its end, and its findings as they are told."""
        told = list(map(_finding_line, findings))
        self.add({"kind": "end", "findings": told, "removed": dict(removed)})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self.problem:
            return  # a line is of use only after those before it
        text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        left = memoryview(text.encode("utf-8", "replace") + b"\n")
        whole = self._end + len(left)
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
            self._end = whole

    def close(self) -> None:
        """Let another process write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()


def read(path: Path) -> list[Run]:
    """Return the campaigns of a journal, while another process may write to it. Raises
    :class:`BadJournal`."""
    runs: list[Run] = []
    for _, line in lines(path):
        if line["kind"] == "head":
            runs.append(Run(line))
        elif runs:
            runs[-1].read(line)
    return runs


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the whole lines of a journal, each with the bytes up to its end; the last one is left
    out if it was cut short. Raises :class:`BadJournal`."""
    end = 0
    try:
        with path.open("rb") as file:
            number, text = 1, file.readline(bounds.LINE_BYTES + 1)
            while text:
                following = file.readline(bounds.LINE_BYTES + 1)
                end += len(text)
                try:
                    if not text.endswith(b"\n"):
                        raise BadJson("the line is cut short, or too long")
                    line = jsontext.parse(text)
                    if (wrong := (HEAD if number == 1 else LINE).misfit(line)) is not None:
                        raise BadJson(wrong.at("line"))
                except BadJson as bad:
                    if following or (number == 1 and text.endswith(b"\n")):
                        raise BadJournal(f"{path}, line {number}: {bad}") from None
                    return  # it was being written when the process or the machine stopped
                yield end, line
                number, text = number + 1, following
    except OSError as error:
        raise BadJournal(f"{path}: {error.strerror}") from None


def _head(subject: Subject, plan: Plan, where: str) -> dict[str, Any]:
    given = {"profile": plan.profile, "examples": plan.examples}
    return {
        "kind": "head",
        "format": FORMAT,
        "slotproof": sources.release(),
        "sources": sources.digest(),
        "engine": subject.engine,
        "build": subject.build.to_json(),
        "spec": subject.spec,
        "where": where,
        "offers": subject.capabilities.to_json(),
        "configs": {name: each.to_json() for name, each in plan.configs.items()},
        "strength": plan.strength,
        "steps": plan.steps,
        "seed": plan.seed,
        "shrink": plan.shrink,
        "set_aside": list(plan.set_aside),
        **{name: value for name, value in given.items() if value is not None},
    }


def _line(key: str, result: Searched | list[Finding | None], told: int) -> dict[str, Any]:
    """Return the line of a task; the time is added where it is written."""
    if isinstance(result, list):
        smaller = [None if each is None else _finding_line(each) for each in result]
        return {"kind": "shrink", "key": key, "replays": told, "results": smaller}
    line: dict[str, Any] = {
        "kind": "search",
        "key": key,
        "examples": result.examples,
        "coverage": result.coverage.to_json(),
        "findings": list(map(_finding_line, result.findings)),
        "accepted": sorted(result.accepted),
        "shown": dict(result.shown),
        "seconds": round(result.seconds, 3),
    }
    if (rest := result.rest) is not None:
        line["rest"] = {"done": rest.done, "place": [*rest.place], "before": [*rest.before]}
    return line


def _result_of(line: Mapping[str, Any], task: Any) -> tuple[Any, list[Finding | int]]:
    """Return the result of a task, and all that the task told."""
    if line["kind"] == "shrink":
        smaller = [None if each is None else _finding_of(each) for each in line["results"]]
        return smaller, [line["replays"], *filter(None, smaller)]
    rest: ExampleBatch | None = None
    if (left := line.get("rest")) is not None:
        place, before = (left["place"][0], left["place"][1]), tuple(left["before"])
        rest = replace(task.batch, done=left["done"], place=place, before=before)
    result = Searched(
        line["examples"],
        Coverage.from_json(line["coverage"]),
        list(map(_finding_of, line["findings"])),
        set(line["accepted"]),
        Counter(line["shown"]),
        rest,
        line["seconds"],
    )
    return result, [*result.findings, result.examples]


def _nothing(task: Any) -> Any:
    """Return the result of a task that nobody ran."""
    return Searched(rest=task.batch) if isinstance(task, Search) else [None] * len(task.findings)


def _finding_line(finding: Finding) -> dict[str, Any]:
    document = itf.to_itf(finding.trace)
    if finding.trace.states and len(json.dumps(document)) > STATES_BYTES:
        document = itf.to_itf(finding.trace.without_states())
    mark, before = finding.mark.to_json(), [*finding.before]
    return {"mark": mark, "trace": document, "first": finding.first, "before": before}


def _finding_of(line: Mapping[str, Any]) -> Finding:
    """Raises ``ValueError``."""
    trace = from_itf(line["trace"])
    if not trace.violations:
        raise ValueError("a finding without a violation")
    return Finding(Mark.from_json(line["mark"]), trace, line["first"], tuple(line["before"]))
