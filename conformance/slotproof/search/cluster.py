"""Workers on a Ray cluster: the same tasks, on machines that have slotproof and the build.

A process of the cluster starts its engine once. Where one is lost, with its machine or alone, its
task is run again from its start; what it told before is kept. Ray is an extra (``slotproof[ray]``).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from slotproof.engines.base import EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.search.findings import Finding
from slotproof.search.workers import Elsewhere, Mine, R, Task, Told
from slotproof.support import bounds
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
        self._told: list[Told] = []
        self._stopped = 0

    def put(self, call: int, number: int, what: Finding | int) -> None:
        self._told.append((call, number, what))

    def take(self) -> list[Told]:
        told, self._told = self._told, []
        return told

    def stop(self, call: int) -> None:
        """Tasks of that call, and of those before, are to end."""
        self._stopped = call

    def stopped(self) -> int:
        return self._stopped


def _work(
    mailbox: Any, spec: EngineSpec, here: tuple[str, str], place: tuple[int, int], task: Task[R]
) -> R:
    """Run a task in a process of the cluster. Raises :class:`EngineUnusable` where that has another
    slotproof or another build."""
    ray, (call, number), asked = importlib.import_module("ray"), place, [time.monotonic(), False]
    engine = Mine.opened(spec)
    for what, mine, yours in zip(
        ("slotproof", "engine"), (digest(), built(engine).title), here, strict=True
    ):
        if mine != yours:
            raise EngineUnusable(
                f"a worker of the cluster has another {what} than this machine: {mine}, not {yours}"
            )

    def tell(what: Finding | int) -> None:
        kept = mailbox.put.remote(call, number, what)
        if isinstance(what, Finding):
            ray.get(kept)  # it is there, should this worker be lost

    def stop() -> bool:
        if not asked[1] and time.monotonic() - asked[0] > _ASKED:
            asked[:] = time.monotonic(), ray.get(mailbox.stopped.remote()) >= call
        return bool(asked[1])

    return task.run(engine, tell, stop)


class Cluster(Elsewhere):
    """Processes of a cluster. Where one is lost, its task is run again."""

    def __init__(self, ray: ModuleType, spec: EngineSpec, jobs: int, title: str) -> None:
        super().__init__(jobs)
        self._ray = ray
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": beside}
        self._mailbox = ray.remote(Mailbox).options(**options).remote()
        self._given = [ray.put(each) for each in (spec, (digest(), title))]
        self._work = ray.remote(_work).options(num_cpus=1, max_retries=AGAIN - 1)

    def submit(self, number: int, task: Task[R]) -> Future[R]:
        place = self._call, number
        future: Future[R] = self._work.remote(self._mailbox, *self._given, place, task).future()
        return future

    def told(self) -> Iterator[Told]:
        yield from self._ray.get(self._mailbox.take.remote())

    def ask(self, stop: bool) -> None:
        if stop:
            self._mailbox.stop.remote(self._call)

    def result(self, future: Future[R]) -> R:
        exceptions = self._ray.exceptions
        try:
            return future.result()
        except exceptions.RayTaskError as error:
            raise error.cause from None
        except exceptions.RayError as error:
            raise EngineUnusable(f"a task was lost with {AGAIN} workers: {_line(error)}") from None

    def close(self) -> None:
        """Ask the workers to end; the cluster ends them, and their engines."""
        with contextlib.suppress(Exception):
            self._mailbox.stop.remote(self._call)


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
