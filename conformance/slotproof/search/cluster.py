"""Workers on a Ray cluster. The cluster's machines need slotproof and the build under test.

Each process of the cluster starts its engine once. If a process or machine is lost, Ray runs its
task again. Findings reported before the loss are preserved. Ray is an extra (``slotproof[ray]``).
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
"""Values of ``--ray``: a new cluster on this machine, or the cluster this machine belongs to."""
AGAIN = 3
"""Maximum attempts of a task. If every attempt loses its worker, the task must be the cause."""
STORE_BYTES = 200 << 20
"""Size of a local cluster's object store, in bytes. Ray's default is a third of the memory."""
_CONNECT = 5.0
"""Timeout for a cluster's answer, in seconds."""
_ASKED = 0.5
"""Interval in seconds at which a worker checks for a request to stop."""


class Mailbox:
    """Ray actor on this machine: holds the workers' events, and the request to stop."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self._stopped = 0

    def put(self, call: int, number: int, what: Finding | int) -> None:
        self._told.append((call, number, what))

    def take(self) -> list[Told]:
        told, self._told = self._told, []
        return told

    def stop(self, call: int) -> None:
        """Ask tasks of this ``map`` call, and of earlier calls, to end."""
        self._stopped = call

    def stopped(self) -> int:
        return self._stopped


def _work(
    mailbox: Any, spec: EngineSpec, own: tuple[str, str], place: tuple[int, int], task: Task[R]
) -> R:
    """Run a task in a process of the cluster. Raises :class:`EngineUnusable` if the process has a
    different slotproof or build."""
    ray, (call, number), asked = importlib.import_module("ray"), place, [time.monotonic(), False]
    engine = Mine.opened(spec)
    names, local = ("slotproof", "engine"), (digest(), built(engine).title)
    for what, has, wanted in zip(names, local, own, strict=True):
        if has != wanted:
            raise EngineUnusable(
                f"a worker of the cluster has another {what} than this machine: {has}, not {wanted}"
            )

    def tell(what: Finding | int) -> None:
        kept = mailbox.put.remote(call, number, what)
        if isinstance(what, Finding):
            ray.get(kept)  # Wait for delivery, so that the loss of this worker loses no finding.

    def stop() -> bool:
        if not asked[1] and time.monotonic() - asked[0] > _ASKED:
            asked[:] = time.monotonic(), ray.get(mailbox.stopped.remote()) >= call
        return bool(asked[1])

    return task.run(engine, tell, stop)


class Cluster(Elsewhere):
    """Worker processes of a cluster. The task of a lost process is run again."""

    def __init__(self, ray: ModuleType, spec: EngineSpec, jobs: int, title: str) -> None:
        super().__init__(jobs)
        self._ray = ray
        node = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        options = {"num_cpus": 0, "scheduling_strategy": beside}
        self._mailbox = ray.remote(Mailbox).options(**options).remote()
        self._given = [ray.put(value) for value in (spec, (digest(), title))]
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
            raise EngineUnusable(f"a task lost its worker {AGAIN} times: {_line(error)}") from None

    def close(self) -> None:
        """Ask the running tasks to end. The cluster ends the worker processes and their engines."""
        with contextlib.suppress(Exception):
            self._mailbox.stop.remote(self._call)


def _line(error: BaseException) -> str:
    """Return the last line of an exception's message. Ray states the reason in this line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1][: bounds.REASON_CHARS]


@contextmanager
def cluster(address: str, spec: EngineSpec, jobs: int | None, engine: str) -> Iterator[Cluster]:
    """Yield ``jobs`` workers, or one per processor, on the cluster at an address.

    Raises :class:`EngineUnusable` with one line if no cluster answers, or Ray is missing.
    """
    ray = _imported()
    if address not in (LOCAL, HERE):
        _answers(address)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _connect(ray, address, jobs)
    finally:  # Ray replaces our handlers
        for number, handler in handlers.items():
            signal.signal(number, handler)
    try:
        processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        if jobs is not None and jobs > processors:
            raise EngineUnusable(f"--jobs {jobs}: the cluster has {processors} processors")
        with contextlib.closing(Cluster(ray, spec, jobs or processors, engine)) as workers:
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
            f"--ray needs Ray, but {error.name} is not installed: pip install 'slotproof[ray]'"
        ) from None


def _answers(address: str) -> None:
    """Raise if nothing listens at the address. Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        raise EngineUnusable(
            f"--ray {address!r} is no address: use {LOCAL}, {HERE}, HOST:PORT or ray://HOST:PORT"
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise EngineUnusable(f"--ray {address}: no cluster answers: {reason}") from None


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
        except Exception as error:  # noqa: BLE001  # Ray raises many kinds of errors
            ray.shutdown()
            if not left:  # A local cluster may need more than Ray's 30 s to start.
                raise EngineUnusable(f"--ray {address}: {_line(error)}") from None
        else:
            return
