"""Where the tasks of a campaign run: here, or in processes with an engine each."""

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


class Elsewhere:
    """Other processes, each with an engine of its own.

    Ctrl-C is this process's business: the others are asked to stop and give back what they have.
    Nobody waits longer than some seconds for them.
    """

    memory = over = False

    def __init__(self, jobs: int) -> None:
        self.jobs, self._call = jobs, 0

    def submit(self, number: int, task: Task[R]) -> Future[R]:
        """Let somebody run a task."""
        raise NotImplementedError

    def told(self) -> Iterator[Told]:
        """Yield all that was told since the last time."""
        raise NotImplementedError

    def ask(self, stop: bool) -> None:
        """Ask those that run tasks to stop, or let them run again."""
        raise NotImplementedError

    def result(self, future: Future[R]) -> R:
        """Return the result of a task that is over. Raises :class:`EngineUnusable` where its
        process is lost."""
        raise NotImplementedError

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks; a task's own failure is raised."""
        self._call += 1
        if not stop():
            self.ask(stop=False)  # what ended the tasks before need not end these
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
                if call == self._call:  # what comes late is in the result already
                    event(number, what)
            for future in sorted(ended, key=running.__getitem__):
                number = running.pop(future)
                try:
                    results[number] = self.result(future)
                except Exception as error:  # noqa: BLE001  # raised when all are over
                    failed[number] = error
                else:
                    done(number, results[number])
            if time.monotonic() > patience:  # what was told is kept
                raise KeyboardInterrupt
        for number in sorted(failed):
            raise failed[number]
        return [results[number] for number in range(len(tasks))]


Told = tuple[int, int, Finding | int]
"""The number of the call and of the task, and what the task tells."""


class Processes(Elsewhere):
    """Processes of this machine."""

    def __init__(self, spec: EngineSpec, jobs: int) -> None:
        super().__init__(jobs)
        context = multiprocessing.get_context("spawn")  # fork and torch do not go together
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
            interrupts.check()  # who interrupts this process may have ended the others as well
            raise EngineUnusable(
                "a process of --jobs died; with --jobs 1 its reason is seen"
            ) from None

    def close(self) -> None:
        """Let the processes end; their engines with them."""
        self._stop.set()
        self._pool.end(bounds.PARTING_SECONDS)


class Mine:
    """What a process of workers has."""

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
    """The engine that is there, or so many processes; closed at the end."""
    return closing(Processes(spec, jobs) if jobs > 1 else Here(engine))
