"""Rounds of scripts on a front end, judged by what clients heard and by the scheduler's log.

An engine lives as long as its time allows and nothing new is found; the next one has the next
configuration. What is found is kept with the scripts of its round and the recorder's files of it,
and the same scripts are played again, to tell how often it comes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from slotproof.engines.base import EngineFailed
from slotproof.frontend import oracle
from slotproof.frontend.program import Build, Program
from slotproof.frontend.scripts import Script, drawn, renamed
from slotproof.logs.files import files_of, number
from slotproof.logs.format import BadLog, Log
from slotproof.logs.judging import Judge, kind_of
from slotproof.protocol.config import EngineConfig
from slotproof.search.findings import mark
from slotproof.support import interrupts

MAX_SECONDS = 300.0
"""Seconds that an engine is played on at most: a start takes half a minute."""
ALIVE = "CLIENT-ALIVE"
"""The clause of a front end that ends by itself."""
_SETTLED = 0.3
"""Seconds after which an idle scheduler has written what it did."""

BaselinePredicate = Callable[[str], bool]
"""A predicate: the baseline has a finding of this identity."""


@dataclass(frozen=True)
class Plan:
    """What is to be played."""

    build: Build
    configs: dict[str, EngineConfig]
    clients: int
    seconds: float
    seed: int
    in_baseline: BaselinePredicate = lambda _: False
    """A finding of the baseline is counted, and the engine is played on."""
    replays: int = 10
    rounds: int = sys.maxsize
    """At most."""


@dataclass
class Round:
    """A round that was played, and what both judges say."""

    number: int
    config: str
    scripts: list[Script]
    noted: list[dict[str, Any]] = field(default_factory=list)
    seen: dict[str, str] = field(default_factory=dict)
    """What is wrong: identity and sentence."""


@dataclass
class FrontEndFinding:
    """A new finding: the round that showed it first, and how often its scripts show it again."""

    id: str
    sentence: str
    round: Round
    log: Path
    """A folder with the recorder's files of that round."""
    replayed: int = 0
    again: int = 0
    also: list[str] = field(default_factory=list)
    """What else was wrong in that round."""


@dataclass
class Outcome:
    """Everything that a run saw."""

    version: str = ""
    rounds: int = 0
    lives: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """What clients did and heard."""
    lines: int = 0
    iterations: int = 0
    transitions: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    """How many rounds showed what is known, or was found before."""
    found: list[FrontEndFinding] = field(default_factory=list)
    seconds: float = 0.0
    """For which rounds were played and judged; starts of engines come on top."""
    interrupted: bool = False


class FrontEndInstance:
    """A front end from its start to its end, in a folder that is deleted with it."""

    def __init__(self, build: Build, name: str, config: EngineConfig, folder: Path) -> None:
        self.name = name
        self.program = Program(build, config.to_json(), folder)
        self.log = Log([self.program.log])
        self.judge = Judge(self.log, None, ())
        self.broke = False
        """It can't go on."""

    def play(self, number: int, scripts: list[Script]) -> Round:
        """Play a round, and have it judged twice."""
        played = Round(number, self.name, scripts)
        try:
            played.noted = self.program.play(scripts)
            for wrong in oracle.judge(scripts, played.noted, self.program.alone):
                played.seen.setdefault(wrong.clause, str(wrong))
        except EngineFailed as failure:
            self.broke = True
            played.seen[ALIVE] = f"{ALIVE}: {failure}: {_last(failure)}"
        with interrupts.released():
            time.sleep(_SETTLED)
        seen = self._judged()
        if self.broke and seen:  # the log says why
            del played.seen[ALIVE]
        played.seen = {**seen, **played.seen}
        return played

    def _judged(self) -> dict[str, str]:
        """What the log judge says of the lines since it was asked last."""
        seen: dict[str, str] = {}
        self.log.start = self.log.place
        try:
            for line in self.log:
                interrupts.check()
                found = self.judge.read(line)
                if found is None or self.judge.recording is None:
                    continue
                for each in found.violations:
                    kind = kind_of(mark(self.judge.recording.last, each))
                    seen.setdefault(kind, f"line {found.at} of file {found.part}: {each}")
        except BadLog as bad:
            seen.setdefault("LOG", str(bad))
        self.judge.done()
        return seen

    @property
    def files(self) -> list[Path]:
        """The recorder's, in order."""
        return [each for each in files_of([self.program.log]) if number(each)]


def _last(failure: EngineFailed) -> str:
    """The last line of what it wrote on standard error."""
    lines = [line.strip() for line in failure.trace.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing on standard error"


@contextmanager
def front_end(plan: Plan, name: str) -> Iterator[FrontEndInstance]:
    """A front end of a configuration; nothing of it is there afterwards.

    Its sockets lie in its folder, and their names must be short.
    """
    with tempfile.TemporaryDirectory(prefix="slotproof-", ignore_cleanup_errors=True) as folder:
        instance = None
        try:
            instance = FrontEndInstance(plan.build, name, plan.configs[name], Path(folder))
            yield instance
        finally:
            if instance is not None:
                instance.program.end()


def run(plan: Plan, keep: Path, tell: Callable[[Outcome], None]) -> Outcome:
    """Play until the time is over; findings' logs are in ``keep``. An interrupt ends it."""
    outcome = Outcome()
    with interrupts.held():
        try:
            for name in cycle(plan.configs):
                _play_instance(plan, name, outcome, keep, tell)
                if outcome.seconds >= plan.seconds or outcome.rounds >= plan.rounds:
                    break
        except KeyboardInterrupt:
            outcome.interrupted = True
    return outcome


def _play_instance(
    plan: Plan, name: str, outcome: Outcome, keep: Path, tell: Callable[[Outcome], None]
) -> None:
    """Play on one engine until its time is over, it breaks or something new is found."""
    until = min(plan.seconds, outcome.seconds + min(MAX_SECONDS, plan.seconds / len(plan.configs)))
    most = min(plan.rounds, outcome.rounds + -(-plan.rounds // len(plan.configs)))
    with front_end(plan, name) as instance, _counted(outcome, instance):
        new = None
        while not (new or instance.broke or outcome.seconds >= until or outcome.rounds >= most):
            began, before = time.monotonic(), len(instance.files)
            scripts = drawn(plan.seed, outcome.rounds, plan.clients, plan.configs[name].context_len)
            played = instance.play(outcome.rounds, scripts)
            new = _found(plan, outcome, played, keep)
            outcome.rounds += 1
            outcome.seconds += time.monotonic() - began
            if new:
                _keep(instance.files[max(0, before - 1) :], new.log)
            tell(outcome)
    if new is not None:
        for seen in replayed(plan, name, new.round.scripts):
            new.replayed += 1
            new.again += new.id in seen
            tell(outcome)


@contextmanager
def _counted(outcome: Outcome, instance: FrontEndInstance) -> Iterator[None]:
    """What is seen of an engine, however it ends."""
    outcome.version = instance.program.version
    outcome.lives += 1
    try:
        yield
    finally:
        verdict = instance.judge.verdict
        outcome.lines += verdict.lines
        outcome.iterations += verdict.coverage.iterations
        outcome.transitions.update(verdict.coverage.transitions)


def _found(plan: Plan, outcome: Outcome, played: Round, keep: Path) -> FrontEndFinding | None:
    """What is new of a round, the log's word first; all that it shows is counted."""
    before = {each.id for each in outcome.found}
    outcome.known.update(each for each in played.seen if plan.in_baseline(each) or each in before)
    _count(outcome.counts, played)
    for each, sentence in played.seen.items():
        if not plan.in_baseline(each) and each not in before:
            also = [other for other in played.seen if other != each]
            log = keep / f"round{played.number:05}"
            found = FrontEndFinding(each, sentence, played, log, also=also)
            outcome.found.append(found)
            return found
    return None


def replayed(plan: Plan, name: str, scripts: list[Script]) -> Iterator[dict[str, str]]:
    """What both judges say of each replay; after one with findings the next engine is fresh."""
    left = plan.replays
    while left:
        with front_end(plan, name) as instance:
            while left:
                number = plan.replays - left
                played = instance.play(number, renamed(scripts, number))
                left -= 1
                yield played.seen
                if played.seen:
                    break


def _keep(files: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for each in files:
        shutil.copy(each, folder / each.name)


def _count(counts: Counter[str], played: Round) -> None:
    for note in played.noted:
        what = str(note["what"])
        if what in ("final", "raised"):
            words = str(note.get("error") or note.get("message") or "")
            what = "refused" if oracle.BUSY in words else str(note.get("reason", what))
        counts[what] += 1
