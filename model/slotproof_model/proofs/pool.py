"""Worker processes that end with their parent."""

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
    """An executor in which only the parent reacts to Ctrl-C and to a SIGTERM for its process group.
    If the parent is killed, the processes end.

    ``jobs``: number of processes, one per processor if ``None``. ``begin`` is the first call in
    each process.

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
        """Submit a call as in the base class. The method may start processes."""
        with _deaf():
            return super().submit(fn, *args, **kwargs)

    def end(self, patience: float = 0.0) -> None:
        """End the processes, and kill any that still run after ``patience`` seconds."""
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
    """Run a block of code with a pool. An exception in the block ends the processes at once."""
    processes = Pool(jobs, context)
    try:
        yield processes
        processes.shutdown()
    except BaseException:
        processes.end()
        raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM in processes started inside the ``with`` block. The parent gets the
    signals after the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _First:
    """First call in a process, unpickled only when called. Unpickling imports modules and takes
    seconds. A process that unpickled before watching its parent could outlive the parent."""

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
    """Put the process in its own group, so that it gets no SIGTERM for the parent's group."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # Ignoring a signal also drops it if pending.
    os.setpgid(0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    first()


def _end_with_parent() -> None:
    """Exit when the parent ends. A killed parent sends no message, so the process would wait
    forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
