"""Ctrl-C at a moment of a command's life, and what is left after it: for tests."""

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
"""What asks a correct engine (or does not judge one), and would go on for long."""

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
    """What an interrupted command left."""

    status: int
    out: str
    err: str
    traces: list[str]
    processes: list[int]
    late: bool = False
    """It had said all it had to say before: that is a verdict, and no interrupt's business."""

    @property
    def clean(self) -> bool:
        """Nothing was said of the engine, and nothing stays."""
        found = self.traces or self.processes or "counterexample:" in self.out
        return self.status == 3 and not found and not self.ours

    @property
    def ours(self) -> bool:
        """Whether there is a traceback, other than of a destructor that was interrupted: nothing
        can be raised from there, so Python prints it."""
        return self.err.count("Traceback") > self.err.count("Exception ignored")


def interrupt(
    argv: tuple[str, ...], after: float, folder: Path, times: int = 1, workers: int = 0
) -> Left:
    """Run a command in a folder, with SIGINT so many seconds after its first line, or more.

    With ``workers`` its whole group gets SIGTERM, so many seconds after that many have started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = f"SLOTPROOF_TEST={folder}"
    said = folder / "stdout"  # a file, not a pipe: what was said by a moment is its size
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
    while workers and len(_with(mark)) < workers + 2:  # itself, and who tracks its semaphores
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
    """Processes that are still there five seconds later, by what is in their environment."""
    deadline = time.monotonic() + 5
    while (there := _with(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return there


def _with(mark: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # it ended, or is another user's
    return found
