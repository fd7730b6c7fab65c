"""Workers for the tasks of a campaign: this process, or processes with their own engines."""

from __future__ import annotations

import math
import multiprocessing
import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from multiprocessing.util import Finalize
from typing import Any, Protocol, TypeVar

from slotproof.engines.base import Engine, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.search.findings import Finding
from slotproof.search.plan import Stop, Tell
from slotproof.support import bounds, interrupts
from slotproof_model.proofs.pool import Pool

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Event = Callable[[int, Finding | int], None]
"""Callback that gets the number of a task and an event of the task."""
Done = Callable[[int, Any], None]
"""Callback that gets the number of a finished task and its result."""


class Task(Protocol[R_co]):
    """A task of a campaign: data with a method ``run``. Equal data gives equal results."""

    @property
    def key(self) -> str:
        """Name unique among the tasks of a search."""

    def run(self, engine: Engine, tell: Tell, stop: Stop) -> R_co: ...


class Workers(Protocol):
    """Runner of tasks. ``jobs`` tasks run at once."""

    jobs: int
    memory: bool
    """True if the next result may come from a journal, and so may take no time."""
    over: bool
    """True if the workers run no further task."""

    def map(self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = ...) -> list[R]:
        """Return results in the order of the tasks. Raises the exception of a failed task."""


class Here:
    """Worker in this process. Tasks run in order on the process's engine."""

    jobs, memory, over = 1, False, False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = lambda *_: None
    ) -> list[R]:
        """Return results in the order of the tasks."""
        results: list[R] = []
        for number, task in enumerate(tasks):
            results.append(task.run(self.engine, partial(event, number), stop))
            done(number, results[-1])
        return results

    def close(self) -> None:
        """Leave the engine open: its owner closes it."""


class Elsewhere:
    """Workers in further processes, each with an engine of its own.

    Only the parent process handles Ctrl-C. The parent asks the workers to stop and to return their
    results within a few seconds.
    """

    memory = over = False

    def __init__(self, jobs: int) -> None:
        self.jobs, self._call = jobs, 0

    def submit(self, number: int, task: Task[R]) -> Future[R]:
        """Start a task in a worker."""
        raise NotImplementedError

    def told(self) -> Iterator[Told]:
        """Yield all events since the last call."""
        raise NotImplementedError

    def ask(self, stop: bool) -> None:
        """Ask running tasks to stop, or withdraw an earlier request to stop."""
        raise NotImplementedError

    def result(self, future: Future[R]) -> R:
        """Return the result of a finished task. Raises :class:`EngineUnusable` if the task's
        process is lost."""
        raise NotImplementedError

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = lambda *_: None
    ) -> list[R]:
        """Return results in the order of the tasks. Raises the exception of a failed task."""
        self._call += 1
        if not stop():
            self.ask(stop=False)  # An earlier request to stop is over.
        waiting = deque(enumerate(tasks))
        running: dict[Future[R], int] = {}
        results: dict[int, R] = {}
        failed: dict[int, BaseException] = {}
        patience = math.inf
        while waiting or running:
            while waiting and len(running) < self.jobs:
                number, task = waiting.popleft()
                running[self.submit(number, task)] = number
            if stop():
                self.ask(stop=True)
            if interrupts.arrived():
                patience = min(patience, time.monotonic() + bounds.PARTING_SECONDS)
            ended, _ = wait(running, 0.1, FIRST_COMPLETED)
            for call, number, what in self.told():
                if call == self._call:  # Events of an earlier call are part of its results.
                    event(number, what)
            for future in sorted(ended, key=running.__getitem__):
                number = running.pop(future)
                try:
                    results[number] = self.result(future)
                except Exception as error:  # noqa: BLE001  # raised when all tasks are over
                    failed[number] = error
                else:
                    done(number, results[number])
            if time.monotonic() > patience:  # The findings reported so far are stored.
                raise KeyboardInterrupt
        for number in sorted(failed):
            raise failed[number]
        return [results[number] for number in range(len(tasks))]


Told = tuple[int, int, Finding | int]
"""Number of the ``map`` call, number of the task, and the task's event."""


class Processes(Elsewhere):
    """Worker processes on this machine."""

    def __init__(self, spec: EngineSpec, jobs: int) -> None:
        super().__init__(jobs)
        context = multiprocessing.get_context("spawn")  # torch does not work in a forked process
        self._told: Any = context.Queue()
        self._stop = context.Event()
        self._pool = Pool(jobs, context, _begin, (spec, self._told, self._stop))

    def submit(self, number: int, task: Task[R]) -> Future[R]:
        return self._pool.submit(_work, self._call, number, task)

    def told(self) -> Iterator[Told]:
        with suppress(queue.Empty):
            while True:
                yield self._told.get_nowait()

    def ask(self, stop: bool) -> None:
        (self._stop.set if stop else self._stop.clear)()

    def result(self, future: Future[R]) -> R:
        try:
            return future.result()
        except BrokenProcessPool:
            interrupts.check()  # Ctrl-C may have ended the workers as well.
            raise EngineUnusable(
                "a process of --jobs died: run with --jobs 1 to see the reason"
            ) from None

    def close(self) -> None:
        """End the processes and their engines."""
        self._stop.set()
        self._pool.end(bounds.PARTING_SECONDS)


class Mine:
    """State of a worker process."""

    engine: Engine | None = None
    spec: EngineSpec
    told: Any
    stop: Any

    @classmethod
    def opened(cls, spec: EngineSpec) -> Engine:
        """Return the engine of this process, started once."""
        if cls.engine is None:
            cls.engine = spec.open()
            Finalize(None, cls.engine.close, exitpriority=10)
        return cls.engine


def _begin(spec: EngineSpec, told: Any, stop: Any) -> None:
    Mine.spec, Mine.told, Mine.stop = spec, told, stop


def _work(call: int, number: int, task: Task[R]) -> R:
    return task.run(
        Mine.opened(Mine.spec), lambda what: Mine.told.put((call, number, what)), Mine.stop.is_set
    )


def workers_for(engine: Engine, spec: EngineSpec, jobs: int) -> AbstractContextManager[Workers]:
    """Return a context with workers: this process and the engine, or ``jobs`` processes."""
    return closing(Processes(spec, jobs) if jobs > 1 else Here(engine))
