"""Batches of some hundreds of inputs, each in a fork of this warm process, with a memory limit.

A stuck or dead process costs one input: a new process continues after it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import mmap
import os
import resource
import select
import signal
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.given import Input
from tests.fuzz.inputs import make
from tests.fuzz.judging import SECONDS, WAITING, Failed, examine, prepared

SIZE = 500
"""Number of inputs per process."""
DISK = 100 << 20
"""Maximum size of a file, in bytes: a log of a million iterations must not fill the disk."""
MEMORY = 500 << 20
"""Maximum memory for an answer, in bytes, on top of the process's memory at its start."""
STUCK = WAITING + SECONDS
"""Wall-clock seconds on one input, after which its process is killed."""

Examine = Callable[[Input, Path], str]


@dataclass(frozen=True)
class Failure:
    """A failing input. ``make`` with its ``number`` creates it again."""

    kind: str
    number: int
    cause: str
    detail: str


@dataclass
class Tally:
    """Results for the inputs of one kind."""

    kind: str
    inputs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0
    worked: float = 0.0
    """CPU seconds of all processes."""
    slowest: tuple[float, int] = (0.0, 0)
    """Seconds, and the number of the input."""
    memory: int = 0
    """Peak memory of a process, in bytes, on top of its memory at the start."""


def source(kind: str, seed: int, number: int) -> Random:
    """Return the random number generator for one input."""
    return Random(f"{seed}:{kind}:{number}")


def go(
    tally: Tally,
    seed: int,
    numbers: Iterator[int],
    wanted: Callable[[], bool] = lambda: True,
    examine: Examine = examine,
    stuck: float = STUCK,
) -> None:
    """Examine the inputs with these numbers, as long as more are wanted."""
    started, worked = time.monotonic(), _children()
    while wanted() and (batch := list(itertools.islice(numbers, SIZE))):
        while batch:
            done = _process(tally, seed, batch, examine, stuck)
            batch = batch[batch.index(done) + 1 :] if done is not None else []
    tally.seconds += time.monotonic() - started
    tally.worked += _children() - worked


def _children() -> float:
    """Return the CPU seconds of finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _process(
    tally: Tally, seed: int, batch: list[int], examine: Examine, stuck: float
) -> int | None:
    """Run one process. Return the number of the input that ended it, or None."""
    reads, writes = os.pipe()
    at = mmap.mmap(-1, 8)  # Shared memory: the number of the current input.
    child = os.fork()
    if child == 0:
        os.close(reads)
        try:
            with os.fdopen(writes, "w", buffering=1) as out:
                _work(tally.kind, seed, batch, out, at, examine)
        finally:
            os._exit(1)
    os.close(writes)
    ended = ""
    with contextlib.closing(at), os.fdopen(reads) as told:
        for line in _lines(told.fileno(), child, at, stuck):
            ended = _note(tally, line)
        _, code = os.waitpid(child, 0)
        if ended == "end":
            return None
        number = struct.unpack("q", at[:])[0]
    how = signal.Signals(code & 127).name if code & 127 else f"status {code >> 8}"
    cause = "no answer" if how == "SIGKILL" else f"the process died: {how}"
    tally.inputs += 1
    tally.failures.append(Failure(tally.kind, number, cause, f"input {number}: {how}"))
    return int(number)


def _note(tally: Tally, line: dict[str, Any]) -> str:
    """Add a line of the process to the tally. Return its type."""
    what = str(line.pop("what"))
    if what == "failed":
        tally.failures.append(Failure(tally.kind, **line))
    elif what == "verdict":
        tally.verdicts[line["verdict"]] += 1
    if what in ("failed", "verdict"):
        tally.inputs += 1
    elif what == "slow":
        tally.slowest = max(tally.slowest, (line["seconds"], line["number"]))
    elif what == "memory":
        tally.memory = max(tally.memory, line["bytes"])
    return what


def _lines(told: int, child: int, at: mmap.mmap, stuck: float) -> Iterator[dict[str, Any]]:
    """Yield the process's lines until it ends. A process stuck on one input is killed."""
    buffer, before, since = b"", at[:], time.monotonic()
    while True:
        if select.select([told], [], [], 0.2)[0]:
            chunk = os.read(told, 1 << 16)
            if not chunk:
                return
            *whole, buffer = (buffer + chunk).split(b"\n")
            yield from map(json.loads, whole)
        if at[:] != before:
            before, since = at[:], time.monotonic()
        elif time.monotonic() - since > stuck:
            os.kill(child, signal.SIGKILL)
            return


# In the process ---------------------------------------------------------------------------------


def _work(
    kind: str, seed: int, batch: Iterable[int], out: Any, at: mmap.mmap, examine: Examine
) -> None:
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    before = _resident()
    bound()

    def tell(what: str, **more: object) -> None:
        out.write(json.dumps({"what": what, **more}) + "\n")

    slowest = (0.0, 0)
    # CPU time, as the machine may be busy. Drivers: wall-clock time, because their parent waits.
    clock = time.perf_counter if kind == "drivers" else time.process_time
    with tempfile.TemporaryDirectory() as name, prepared(Path(name)):
        for number in batch:
            if os.getppid() != parent:
                return  # The parent was killed.
            at[:] = struct.pack("q", number)
            given = make(kind, source(kind, seed, number))
            started = clock()
            try:
                tell("verdict", verdict=examine(given, Path(name)))
            except Failed as failed:
                cause, detail = failed.cause, failed.detail[:4000]
                tell("failed", number=number, cause=cause, detail=detail)
            slowest = max(slowest, (clock() - started, number))
    tell("slow", seconds=slowest[0], number=slowest[1])
    tell("memory", bytes=_resident() - before)
    tell("end")


def _resident() -> int:
    """Return the peak memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if os.uname().sysname == "Darwin" else 1024)


def bound() -> None:
    """Limit this process to :data:`MEMORY` more than it has now. Only Linux enforces the limit."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK, resource.RLIM_INFINITY))
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
