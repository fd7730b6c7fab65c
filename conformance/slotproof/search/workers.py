"""Where the tasks of a campaign run: here, or in processes with an engine each."""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.synchronize
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, Protocol, TypeVar

from slotproof.engines.base import Engine, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.search.findings import Finding
from slotproof.search.schedule import Stop, Tell
from slotproof.support import bounds, interrupts
from slotproof_model.proofs.pool import Pool

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Event = Callable[[int, Finding | int], None]
"""Told, with the number of the task, what the task tells."""
Done = Callable[[int, Any], None]
"""Told, with its number, the result of a task as soon as there is one."""


class Task(Protocol[R_co]):
    """Data with a method; the same data gives the same result."""

    @property
    def key(self) -> str:
        """A name that no other task of the same search has."""

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> R_co: ...


def no_matter(number: int, result: Any) -> None:
    """Whoever waits for all results."""


class Workers(Protocol):
    """What runs tasks, ``jobs`` of them at once."""

    jobs: int
    memory: bool
    """Whether the next task may be one that was done before: no time is needed for it."""
    over: bool
    """Whether no task is run any more."""

    def map(self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = ...) -> list[R]:
        """Results in the order of the tasks; a task's own failure is raised."""

    def close(self) -> None:
        """End what was started for it."""


class Here:
    """One task after the other, on the engine that is there."""

    jobs, memory, over = 1, False, False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks."""
        results: list[R] = []
        for number, task in enumerate(tasks):
            results.append(task.run(self.engine, partial(event, number), stop))
            done(number, results[-1])
        return results

    def close(self) -> None:
        """The engine is its owner's."""


class Processes:
    """Several processes, each with an engine of its own.

    Ctrl-C is this process's business: the others are asked to stop and give back
    what they have; those that don't within some seconds are killed.
    """

    memory = over = False

    def __init__(self, spec: EngineSpec, jobs: int) -> None:
        self.jobs = jobs
        context = multiprocessing.get_context("spawn")  # fork and torch do not go together
        self._told: Any = context.Queue()
        self._stop = context.Event()
        self._pool = Pool(jobs, context, _begin, (spec, self._told, self._stop))
        self._call = 0

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks; a task's own failure is raised."""
        self._call += 1
        if not stop():
            self._stop.clear()  # what ended the tasks before need not end these
        futures: list[Future[R]] = [
            self._pool.submit(_work, self._call, number, task) for number, task in enumerate(tasks)
        ]
        numbers = {future: number for number, future in enumerate(futures)}
        open_: set[Future[R]] = set(futures)
        patience = math.inf
        while open_:
            if stop():
                self._stop.set()
            if interrupts.arrived():
                patience = min(patience, time.monotonic() + bounds.PARTING_SECONDS)
            ended, open_ = wait(open_, 0.1, FIRST_COMPLETED)
            self._drain(event)
            for future in sorted(ended, key=numbers.__getitem__):
                if not future.exception():
                    done(numbers[future], future.result())
            if time.monotonic() > patience:  # what was told is kept
                raise KeyboardInterrupt
        try:
            return [future.result() for future in futures]
        except BrokenProcessPool:
            interrupts.check()  # who interrupts this process may have ended the others as well
            raise EngineUnusable(
                "a process of --jobs died; with --jobs 1 its reason is seen"
            ) from None

    def _drain(self, event: Event) -> None:
        while True:
            try:
                call, number, what = self._told.get_nowait()
            except queue.Empty:
                return
            if call == self._call:  # what comes late is in the result already
                event(number, what)

    def close(self) -> None:
        """Let the processes end; their engines with them."""
        self._stop.set()
        self._pool.end(bounds.PARTING_SECONDS)


class _Mine:
    """What a worker process has."""

    spec: EngineSpec
    engine: Engine | None = None
    told: Any
    stop: multiprocessing.synchronize.Event


def _begin(spec: EngineSpec, told: Any, stop: multiprocessing.synchronize.Event) -> None:
    _Mine.spec, _Mine.told, _Mine.stop = spec, told, stop


def _work(call: int, number: int, task: Task[R]) -> R:
    if _Mine.engine is None:
        _Mine.engine = _Mine.spec.open()
        Finalize(None, _Mine.engine.close, exitpriority=10)
    return task.run(
        _Mine.engine, lambda what: _Mine.told.put((call, number, what)), _Mine.stop.is_set
    )


def workers_for(engine: Engine, spec: EngineSpec, jobs: int) -> AbstractContextManager[Workers]:
    """The engine that is there, or so many processes; closed at the end."""
    return closing(Processes(spec, jobs) if jobs > 1 else Here(engine))
