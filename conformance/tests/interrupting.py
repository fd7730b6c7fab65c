"""Interrupts of a command at a given moment, and what remains after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SERVED = f"cmd:{sys.executable} -m slotproof.engines.served reference"

RUNS = {
    "here": ("run", "--engine", "reference"),
    "here, all": ("run", "--engine", "reference", "--all"),
    "served": ("run", "--engine", SERVED),
    "served, all": ("run", "--engine", SERVED, "--all"),
    "jobs": ("run", "--engine", "reference", "--all", "--jobs", "2"),
    "served, jobs": ("run", "--engine", SERVED, "--all", "--jobs", "2"),
    "matrix": ("matrix", "here=reference", f"served={SERVED}"),
    "check-driver": ("check-driver", SERVED),
}
"""Commands that would run for long. They test a correct engine or judge none."""

_MAIN = """
import signal, sys
import slotproof.engines.reference  # torch takes its time
from slotproof.cli.app import main

signal.signal(signal.SIGINT, signal.default_int_handler)
print("begun", flush=True)
main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Left:
    """Output, traces and processes left by an interrupted command."""

    status: int
    out: str
    err: str
    traces: list[str]
    processes: list[int]
    late: bool = False
    """The command had printed its verdict before the interrupt: not an interrupted run."""

    @property
    def clean(self) -> bool:
        """True if the command printed no verdict on the engine and left no process."""
        leftover = self.traces or self.processes or "counterexample:" in self.out
        return self.status == 3 and not leftover and not self.ours

    @property
    def ours(self) -> bool:
        """True if stderr has a traceback, other than of an interrupted destructor. Python prints
        such a traceback because a destructor can't raise."""
        return self.err.count("Traceback") > self.err.count("Exception ignored")


def interrupt(
    argv: tuple[str, ...], after: float, folder: Path, times: int = 1, workers: int = 0
) -> Left:
    """Run a command in a folder. Send SIGINT ``after`` seconds after its first line.

    ``times``: number of signals. With ``workers``, the process group gets SIGTERM, ``after``
    seconds after that many workers have started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"SLOTPROOF_TEST={folder}"
    said = folder / "stdout"  # a file, not a pipe: its size shows the output so far
    with said.open("wb") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *argv],
            cwd=folder,
            env={**os.environ, "SLOTPROOF_TEST": str(folder)},
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )
    while not said.stat().st_size:
        assert process.poll() is None
        time.sleep(0.005)
    while workers and len(_with(mark)) < workers + 2:  # plus the command and its semaphore tracker
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(after)
    before = said.stat().st_size
    for _ in range(times):
        if workers:
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, err = process.communicate(timeout=120)
    late = process.returncode == 0 and said.stat().st_size == before
    out = said.read_text(encoding="utf-8").removeprefix("begun\n")
    traces = [str(path) for path in folder.rglob("*.itf.json")]
    return Left(process.returncode, out, err, traces, _staying(mark), late)


def _staying(mark: str) -> list[int]:
    """Return processes with this environment entry, after up to five seconds for their end."""
    deadline = time.monotonic() + 5
    while (remaining := _with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return remaining


def _with(mark: str) -> list[int]:
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                pids.append(int(folder.name))
        except OSError:
            continue  # It has ended, or belongs to another user.
    return pids
