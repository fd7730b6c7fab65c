"""Verdicts on an input, and everything that must never happen.

All inputs go through the command line, in this process. An input fails on a traceback, a
program or module started by the file, or too much time or memory. It also fails on an error message
of several lines, a control character for the terminal, or a wrong verdict.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import typer.main

from slotproof.cli.app import status
from slotproof.engines import registry
from tests.fuzz.bait import Ran, spring
from tests.fuzz.conversations import StandIn, script
from tests.fuzz.given import FILE, FOLDER, OUT, SCRIPT, Input

SECONDS = 10.0
"""Limit of CPU time for one answer, in seconds."""
WAITING = 60.0
"""Limit of wall-clock time for a driver in its own process, in seconds: it includes its hangs."""
VERDICTS = {0: "conforms", 1: "found", 2: "refused", 3: "inconclusive"}
LONGEST_LINE = 2000
"""Maximum length of the error message for bad input, in characters."""


class Failed(Exception):
    """Raised for a forbidden result of an input. ``cause`` is the same for the same fault."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(f"{cause}\n{detail}")
        self.cause, self.detail = cause, detail


class TooSlow(BaseException):
    """Raised if there is no answer within the limit."""


@dataclass
class Said:
    """Exit status and output of a command line."""

    status: int
    out: str
    err: str


def examine(given: Input, parent: Path) -> str:
    """Return the verdict on an input, judged in a new folder. Raises :class:`Failed`."""
    folder = parent / "one"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / given.path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(given.data)
    if given.life:
        (folder / "script.json").write_text(script(given.life))
    StandIn.file = path
    argv = arguments(given, folder)
    Ran.last = ""
    try:
        with _limited(given), _started(given):
            said = run(argv)
    except Failed:
        raise
    except MemoryError as error:
        raise Failed(f"too much memory for {argv[0]}", _where(error)) from None
    except Exception as error:  # noqa: BLE001  # every exception is a failure to report
        raise Failed(_cause(error), "".join(traceback.format_exception(error))) from None
    except TooSlow as slow:
        raise Failed(f"too slow: {argv[0]}", _where(slow)) from None
    if Ran.last:
        raise Failed(f"ran: {Ran.last}", said.err)
    names = {path.name for path in (*parent.iterdir(), *folder.iterdir())} - _EXPECTED
    strange = [name for name in sorted(names) if not any(f"/{name}" in word for word in argv)]
    if strange:
        raise Failed(f"{argv[0]} wrote a file not named on its command line", f"{strange}")
    _look(given, said)
    return VERDICTS[said.status]


_EXPECTED = {"one", "input.json", "script.json", "envs", "out-traces"}
"""Files written by this module, the folder of environments, and the traces beside a report."""


def arguments(given: Input, folder: Path) -> list[str]:
    """Return the command line, with paths in the folder."""
    names = {FILE: given.path, FOLDER: "journal", OUT: "out", SCRIPT: "script.json"}
    return [
        functools.reduce(lambda text, name: text.replace(name, f"{folder}/{names[name]}"), names, a)
        for a in given.argv
    ]


def run(argv: Sequence[str]) -> Said:
    """Run a command line in this process, with its output in UTF-8 pipes."""
    out, err = _pipe(), _pipe()
    with redirect_stdout(out), redirect_stderr(err):
        code = status(list(argv))
        out.flush()
        err.flush()
    return Said(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def _pipe() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


# Checks of the output ---------------------------------------------------------------------------


def _look(given: Input, said: Said) -> None:
    detail = f"status {said.status}\n{said.out[-2000:]}\n{said.err[-2000:]}"
    command = given.argv[0]
    if said.status not in VERDICTS or "Traceback" in said.err:
        last = said.err.strip().rpartition("\n")[2]
        raise Failed(f"internal error of {command}: {last[:200]}", detail)
    if said.status == 2:
        line = said.err.removesuffix("\n")
        if "\n" in line or not line.startswith("slotproof: ") or len(line) > LONGEST_LINE:
            raise Failed(f"the error message of {command} is not one short line", detail)
    for name, text in (("standard output", said.out), ("standard error", said.err)):
        match = _OBEYED.search(text)
        if match:
            around = text[max(0, match.start() - 40) : match.start() + 20]
            raise Failed(f"control character on {name} of {command}", f"{around!a}\n{detail}")
    if given.wrong and VERDICTS[said.status] in ("conforms", "inconclusive"):
        path = re.sub(r"^.*?: |: .*", "", given.wrong)
        far = given.wrong.endswith((" -7", " 1000000000"))
        figure = re.sub(r"/\w*\d+(?=/|$)", "/*", path) + (" (far)" if far else "")
        raise Failed(f"judged conforming: {figure}", f"{given.wrong}\n{detail}")
    if given.right and VERDICTS[said.status] != "conforms":
        raise Failed(f"an unchanged input of {given.kind} does not conform", detail)
    if _correct(given, said) and "INV-" in said.out:
        clause = re.search(r"INV-[A-Z-]+\.\w+", said.out)
        raise Failed(f"false alarm: {clause and clause[0]}", detail)


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters with an effect on a terminal, other than line end and tab."""


def _correct(given: Input, said: Said) -> bool:
    """True if the correct engine was judged by its own profile and still a violation was found."""
    if said.status != 1 or given.argv[:1] != ("replay",) or "--against" in given.argv:
        return False
    if "reference" not in given.argv:
        return False
    return b'"chosen_profile":""' in given.data and "(profile reference)" in said.out


# Guards during a run ----------------------------------------------------------------------------


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Set up folders and a fast command line for many inputs."""
    before = Path.cwd()
    sglang: Any = types.ModuleType("sglang")
    sglang.bait = spring
    environment = {"SLOTPROOF_ENVS": str(folder / "envs"), "NO_COLOR": "1", "COLUMNS": "100"}
    command = functools.cache(typer.main.get_command)  # built again by every command line otherwise
    # If first imported while sys.modules is patched, a module is dropped and imported again later.
    importlib.import_module("slotproof.cli.commands")
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.dict(sys.modules, sglang=sglang),
        mock.patch("typer.main.get_command", command),
    ):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextmanager
def _started(given: Input) -> Iterator[None]:
    """Replace the start of programs. A driver is a stand-in, or for ``drivers`` a real process."""
    if given.kind == "drivers":
        before = _children()
        with mock.patch.object(registry, "START_TIMEOUT", 2.0):
            yield
        if _children() - before:
            raise Failed("a child process is left", str(given.argv))
        return
    with mock.patch.object(subprocess, "Popen", StandIn if given.life else _refused):
        yield


def _children() -> set[str]:
    """Return the child processes of this one, zombies included."""
    told = Path("/proc/self/task").glob("*/children")
    return {pid for threads in told for pid in threads.read_text().split()}


def _refused(argv: object, *_: object, **__: object) -> NoReturn:
    raise Ran(f"a program was started: {argv}")


@contextmanager
def _limited(given: Input) -> Iterator[None]:
    """Limit CPU time, as the machine may be busy. For drivers, limit wall-clock time."""
    waits = given.kind == "drivers"
    clock, bell = (
        (signal.ITIMER_REAL, signal.SIGALRM) if waits else (signal.ITIMER_PROF, signal.SIGPROF)
    )

    def ring(*_: object) -> NoReturn:
        raise TooSlow

    before = signal.signal(bell, ring)
    signal.setitimer(clock, WAITING if waits else SECONDS)
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(bell, before)


# Names of causes --------------------------------------------------------------------------------


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__} at {_where(error)}"


_PACKAGES = ("/conformance/", "/impl/", "/model/")


def _where(error: BaseException) -> str:
    """Return the innermost line of our own code in a traceback, as ``file:line``."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if any(part in frame.filename for part in _PACKAGES) and "/tests/" not in frame.filename
    ]
    if not ours:
        return "no line of slotproof"
    last = ours[-1]
    start = max(last.filename.rfind(part) for part in _PACKAGES)
    return f"{last.filename[start + 1 :]}:{last.lineno}"
