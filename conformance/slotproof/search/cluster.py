"""Workers on a Ray cluster: the same tasks, on machines that have slotproof and the build.

A worker starts its engine once. One that is lost, with its machine or alone, is replaced, and its
task is run again from its start; what it told before is kept. Ray is an extra (``slotproof[ray]``).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from slotproof.engines.base import Engine, EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.search.findings import Finding
from slotproof.search.schedule import Stop
from slotproof.search.workers import Done, Event, R, Task, no_matter
from slotproof.support import bounds, interrupts
from slotproof.support.sources import digest

LOCAL, HERE = "local", "auto"
"""Addresses: a cluster of this machine, for this call; the one that this machine belongs to."""
AGAIN = 3
"""Times that a task is tried: after so many lost workers it is the task that ends them."""
STORE_BYTES = 200 << 20
"""Of a local cluster's object store; Ray would take a third of the memory."""
_CONNECT = 5.0
"""Seconds in which a cluster has to answer."""
_ASKED = 0.5
"""Seconds from one time that a worker asks whether to stop, or tells what it saw, to the next."""


class Mailbox:
    """An actor beside this process: what workers tell, and whether they are to stop."""

    def __init__(self) -> None:
        self._told: list[tuple[int, int, Any]] = []
        self._stopped = 0

    def put(self, call: int, number: int, what: Finding | int) -> None:
        self._told.append((call, number, what))

    def take(self) -> list[tuple[int, int, Any]]:
        told, self._told = self._told, []
        return told

    def stop(self, call: int) -> None:
        """Tasks of that call, and of those before, are to end."""
        self._stopped = call

    def stopped(self) -> int:
        return self._stopped


class Worker:
    """An actor: a process with an engine."""

    def __init__(self, spec: EngineSpec, mailbox: Any) -> None:
        self._ray, self._mailbox = importlib.import_module("ray"), mailbox
        self._engine: Engine = spec.open()
        self._asked, self._stopped = 0.0, False

    def hello(self) -> tuple[str, str]:
        """Of what slotproof it is, and which build it has."""
        return digest(), built(self._engine).title

    def run(self, call: int, number: int, task: Task[R]) -> R:
        self._asked, self._stopped = time.monotonic(), False

        def tell(what: Finding | int) -> None:
            kept = self._mailbox.put.remote(call, number, what)
            if isinstance(what, Finding):
                self._ray.get(kept)  # it is there, should this worker be lost

        def stop() -> bool:
            if not self._stopped and time.monotonic() - self._asked > _ASKED:
                self._asked = time.monotonic()
                self._stopped = self._ray.get(self._mailbox.stopped.remote()) >= call
            return self._stopped

        return task.run(self._engine, tell, stop)


class Cluster:
    """Workers of a cluster, so many at once."""

    memory = over = False

    def __init__(self, ray: ModuleType, spec: EngineSpec, jobs: int, engine: str) -> None:
        self.jobs, self.engine, self.spec, self._ray = jobs, engine, spec, ray
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": beside}
        self._mailbox = ray.remote(Mailbox).options(**options).remote()
        self._call = 0
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._stillborn = 0
        """Workers, one after the other, that were lost before their engine was there."""
        self.lost = 0
        """Workers that were."""

    def map(
        self, tasks: Sequence[Task[R]], event: Event, stop: Stop, done: Done = no_matter
    ) -> list[R]:
        """Results in the order of the tasks; a task's own failure is raised."""
        self._call += 1
        results: dict[int, R] = {}
        waiting = list(reversed(range(len(tasks))))
        tried = [0] * len(tasks)
        running: dict[Any, tuple[int, Any]] = {}
        stopped, patience = False, math.inf
        while waiting or running:
            while waiting and self._idle:
                number, worker = waiting.pop(), self._idle.pop()
                tried[number] += 1
                running[worker.run.remote(self._call, number, tasks[number])] = number, worker
            self._start(min(self.jobs - len(running), len(waiting)))
            if stop() and not stopped:
                stopped = True
                self._mailbox.stop.remote(self._call)
            if interrupts.arrived():
                patience = min(patience, time.monotonic() + bounds.PARTING_SECONDS)
            refs = [*running, *self._starting]
            ended, _ = self._ray.wait(refs, timeout=_ASKED, num_returns=1)
            self._drain(event)
            for each in ended:
                if each in self._starting:
                    self._started(each)
                    continue
                number, worker = running.pop(each)
                try:
                    results[number] = self._result(each)
                except _Lost as lost:
                    self._lose(worker)
                    if tried[number] >= AGAIN:
                        raise EngineUnusable(
                            f"a task was lost with {AGAIN} workers, one after the other: {lost}"
                        ) from None
                    waiting.append(number)
                else:
                    self._idle.append(worker)
                    done(number, results[number])
            if time.monotonic() > patience:  # what was told is kept
                raise KeyboardInterrupt
        return [results[number] for number in range(len(tasks))]

    def _result(self, of: Any) -> Any:
        """What a call came to. Raises what it raised, and :class:`_Lost` where its worker is."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(of)
        except exceptions.RayTaskError as error:
            raise error.cause from None
        except exceptions.RayActorError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, EngineUnusable):
                raise cause from None
            raise _Lost(_line(error)) from None

    def _start(self, count: int) -> None:
        """Let so many be on their way; they start at once, wherever there is room."""
        actor = self._ray.remote(Worker).options(num_cpus=1, max_restarts=0)
        while len(self._starting) < count:
            worker = actor.remote(self.spec, self._mailbox)
            self._starting[worker.hello.remote()] = worker

    def _started(self, hello: Any) -> None:
        worker = self._starting.pop(hello)
        try:
            sources, engine = self._result(hello)
        except _Lost as lost:
            self._lose(worker)
            self._stillborn += 1
            if self._stillborn >= AGAIN:
                raise EngineUnusable(f"no worker of the cluster starts: {lost}") from None
            return
        self._stillborn = 0
        told = (("slotproof", sources, digest()), ("engine", engine, self.engine))
        for what, there, here in told:
            if there != here:
                raise EngineUnusable(
                    f"a worker of the cluster has another {what} than this machine: {there}, not "
                    f"{here}"
                )
        self._idle.append(worker)

    def _lose(self, worker: Any) -> None:
        self.lost += 1
        with contextlib.suppress(Exception):
            self._ray.kill(worker)

    def _drain(self, event: Event) -> None:
        for call, number, what in self._ray.get(self._mailbox.take.remote()):
            if call == self._call:
                event(number, what)

    def close(self) -> None:
        """End the workers; their engines with them."""
        with contextlib.suppress(Exception):
            self._mailbox.stop.remote(self._call)
            for each in (*self._idle, *self._starting.values()):
                self._ray.kill(each)


class _Lost(Exception):
    """The worker of a call, with the reason."""


def _line(error: BaseException) -> str:
    """The last line of what an exception says of itself, which is its reason."""
    lines = [each.strip() for each in str(error).splitlines() if each.strip()]
    return (lines or [type(error).__name__])[-1][: bounds.REASON_CHARS]


@contextmanager
def cluster(address: str, spec: EngineSpec, jobs: int | None, engine: str) -> Iterator[Cluster]:
    """Workers on the cluster of that address; as many as it has processors, or as are asked for.

    Raises :class:`EngineUnusable` with one line where there is none, or no Ray.
    """
    ray = _imported()
    if address not in (LOCAL, HERE):
        _answers(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _connect(ray, address, jobs)
    finally:  # Ray puts handlers of its own in the place of ours
        for number, handler in handlers.items():
            signal.signal(number, handler)
    try:
        there = max(1, int(ray.cluster_resources().get("CPU", 1)))
        if jobs is not None and jobs > there:
            raise EngineUnusable(f"--jobs {jobs}: the cluster has {there} processors")
        with contextlib.closing(Cluster(ray, spec, jobs or there, engine)) as workers:
            yield workers
    finally:
        ray.shutdown()


def _imported() -> ModuleType:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        importlib.import_module("ray.util.scheduling_strategies")
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise EngineUnusable(
            f"--ray needs Ray, and there is no {error.name}: pip install 'slotproof[ray]'"
        ) from None


def _answers(address: str) -> None:
    """Ask before Ray does, which waits for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise EngineUnusable(
            f"--ray {address!r}: neither {LOCAL}, nor {HERE}, nor HOST:PORT, nor ray://HOST:PORT"
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EngineUnusable(f"--ray {address}: no cluster answers there: {reason}") from None


def _connect(ray: ModuleType, address: str, jobs: int | None) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address == LOCAL:
        options |= {
            "num_cpus": jobs or os.cpu_count(),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
        }
    for left in reversed(range(AGAIN if address == LOCAL else 1)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(address=address, **options)
        except Exception as error:  # noqa: BLE001  # Ray raises many kinds
            ray.shutdown()
            if not left:  # one of this machine may not be up in Ray's 30 s
                raise EngineUnusable(f"--ray {address}: {_line(error)}") from None
        else:
            return
