"""Processes that share work, and end with the one that asked for it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any, ParamSpec, TypeVar

_SIGNALS = {signal.SIGINT, signal.SIGTERM}
P = ParamSpec("P")
T = TypeVar("T")


class Pool(ProcessPoolExecutor):
    """An executor whose processes hear neither Ctrl-C nor a SIGTERM to the whole group, which
    are this one's business, nor stay where this one is killed.

    ``jobs`` processes; one per core if ``None``. ``begin`` is called in each of them first.

    >>> with pool(2) as processes:
    ...     list(processes.map(abs, [-1, -2]))
    [1, 2]
    """

    def __init__(
        self,
        jobs: int | None,
        context: BaseContext | None = None,
        begin: Callable[..., None] | None = None,
        arguments: tuple[Any, ...] = (),
    ) -> None:
        self._others = {process.pid for process in multiprocessing.active_children()}
        super().__init__(jobs, context, _begin, (_First(begin, arguments),))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """As the executor's own, which starts processes here."""
        with _deaf():
            return super().submit(fn, *args, **kwargs)

    def end(self, patience: float = 0.0) -> None:
        """End the processes, those that are still there after so many seconds by force."""
        self.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + patience
        ours = [p for p in multiprocessing.active_children() if p.pid not in self._others]
        for process in ours:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in ours:
            process.kill()
            process.join()


@contextmanager
def pool(jobs: int | None, context: BaseContext | None = None) -> Iterator[Pool]:
    """A pool for a block of code. What interrupts the block ends the processes at once."""
    processes = Pool(jobs, context)
    try:
        yield processes
        processes.shutdown()
    except BaseException:
        processes.end()
        raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that start now hear neither signal, from their first moment on; this one does."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _First:
    """What a process does first. It is read when it is called, no sooner: what it imports may
    take seconds, in which a process that does not watch its parent would outlive it."""

    def __init__(self, begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
        self._what: Any = (begin, arguments)

    def __call__(self) -> None:
        packed = isinstance(self._what, bytes)
        what = pickle.loads(self._what) if packed else self._what  # noqa: S301  # from the parent
        begin, arguments = what
        if begin is not None:
            begin(*arguments)

    def __getstate__(self) -> bytes:
        return bytes(ForkingPickler.dumps(self._what))

    def __setstate__(self, state: bytes) -> None:
        self._what = state


def _begin(first: _First) -> None:
    """Begin a process in a group of its own: SIGTERM to the parent's group is not meant for it."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # also one to the group that waits to be delivered
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    first()


def _end_with_parent() -> None:
    """Where the parent is killed nobody asks us to stop: we would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
