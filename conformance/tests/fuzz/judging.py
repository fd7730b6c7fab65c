"""What may come of an input: one of four verdicts, in words that a terminal can be shown.

Everything goes through the command line, in this process. What fails here is a traceback, a
program or module of the file's choice that was started, an answer that takes too long or too
much memory, a line on standard error that is not one line, a byte that a terminal would obey,
and a verdict that was not earned.
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
"""Of the processor's time for one answer."""
WAITING = 60.0
"""Seconds for a driver in a process of its own: each of its hangs is waited for."""
VERDICTS = {0: "conforms", 1: "found", 2: "refused", 3: "inconclusive"}
LONGEST_LINE = 2000
"""Characters of the one line that bad input gets."""


class Failed(Exception):
    """What must not come of any input. ``cause`` is the same for the same fault."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(f"{cause}\n{detail}")
        self.cause, self.detail = cause, detail


class TooSlow(BaseException):
    """No answer within the time."""


@dataclass
class Said:
    """What a command line came to."""

    status: int
    out: str
    err: str


def examine(given: Input, parent: Path) -> str:
    """The verdict on an input, in a new folder. Raises :class:`Failed`."""
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
    except Exception as error:  # noqa: BLE001  # whatever comes is what is looked for
        raise Failed(_cause(error), "".join(traceback.format_exception(error))) from None
    except TooSlow as slow:
        raise Failed(f"too slow: {argv[0]}", _where(slow)) from None
    if Ran.last:
        raise Failed(f"ran: {Ran.last}", said.err)
    there = {each.name for each in (*parent.iterdir(), *folder.iterdir())} - _EXPECTED
    strange = [name for name in sorted(there) if not any(f"/{name}" in each for each in argv)]
    if strange:
        raise Failed(f"{argv[0]} wrote what nobody named", f"{strange}")
    _look(given, said)
    return VERDICTS[said.status]


_EXPECTED = {"one", "input.json", "script.json", "envs", "out-traces"}
"""What is there before, where environments are kept, and what is beside a report."""


def arguments(given: Input, folder: Path) -> list[str]:
    """The command line, with paths in the folder."""
    names = {FILE: given.path, FOLDER: "journal", OUT: "out", SCRIPT: "script.json"}
    return [
        functools.reduce(lambda text, name: text.replace(name, f"{folder}/{names[name]}"), names, a)
        for a in given.argv
    ]


def run(argv: Sequence[str]) -> Said:
    """A command line in this process, as with pipes in UTF-8 for its output."""
    out, err = _pipe(), _pipe()
    with redirect_stdout(out), redirect_stderr(err):
        code = status(list(argv))
        out.flush()
        err.flush()
    return Said(code, *(each.buffer.getvalue().decode() for each in (out, err)))  # type: ignore[attr-defined]


def _pipe() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


# What is looked at ------------------------------------------------------------------------------


def _look(given: Input, said: Said) -> None:
    detail = f"status {said.status}\n{said.out[-2000:]}\n{said.err[-2000:]}"
    command = given.argv[0]
    if said.status not in VERDICTS or "Traceback" in said.err:
        last = said.err.strip().rpartition("\n")[2]
        raise Failed(f"internal error of {command}: {last[:200]}", detail)
    if said.status == 2:
        line = said.err.removesuffix("\n")
        if "\n" in line or not line.startswith("slotproof: ") or len(line) > LONGEST_LINE:
            raise Failed(f"not one short line of {command}", detail)
    for name, text in (("standard output", said.out), ("standard error", said.err)):
        found = _OBEYED.search(text)
        if found:
            around = text[max(0, found.start() - 40) : found.start() + 20]
            raise Failed(f"raw control on {name} of {command}", f"{around!a}\n{detail}")
    if given.wrong and VERDICTS[said.status] in ("conforms", "inconclusive"):
        path = re.sub(r"^.*?: |: .*", "", given.wrong)
        far = given.wrong.endswith((" -7", " 1000000000"))
        figure = re.sub(r"/\w*\d+(?=/|$)", "/*", path) + (" (far)" if far else "")
        raise Failed(f"judged conforming: {figure}", f"{given.wrong}\n{detail}")
    if given.right and VERDICTS[said.status] != "conforms":
        raise Failed(f"an untouched file of {given.kind} does not conform", detail)
    if _correct(given, said) and "INV-" in said.out:
        clause = re.search(r"INV-[A-Z-]+\.\w+", said.out)
        raise Failed(f"false alarm: {clause and clause[0]}", detail)


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a terminal does something about, other than the end of a line and a tab."""


def _correct(given: Input, said: Said) -> bool:
    """Whether the correct engine was judged by its own profile, and found wrong."""
    if said.status != 1 or given.argv[:1] != ("replay",) or "--against" in given.argv:
        return False
    if "reference" not in given.argv:
        return False
    return b'"chosen_profile":""' in given.data and "(profile reference)" in said.out


# What must not happen meanwhile -----------------------------------------------------------------


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """Things that hold for many inputs: where files go, and a command line that starts fast."""
    before = Path.cwd()
    sglang: Any = types.ModuleType("sglang")
    sglang.bait = spring
    environment = {"SLOTPROOF_ENVS": str(folder / "envs"), "NO_COLOR": "1", "COLUMNS": "100"}
    command = functools.cache(typer.main.get_command)  # made anew for each command line otherwise
    # What is imported while sys.modules is patched is forgotten at its end, and then there twice.
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
    """No program is started; a driver is one that has said everything, or its own process."""
    if given.kind == "drivers":
        before = _children()
        with mock.patch.object(registry, "START_TIMEOUT", 2.0):
            yield
        if _children() - before:
            raise Failed("a process stays behind", str(given.argv))
        return
    with mock.patch.object(subprocess, "Popen", StandIn if given.life else _refused):
        yield


def _children() -> set[str]:
    """Processes of this one, those that have ended and were never waited for included."""
    told = Path("/proc/self/task").glob("*/children")
    return {each for threads in told for each in threads.read_text().split()}


def _refused(argv: object, *_: object, **__: object) -> NoReturn:
    raise Ran(f"a program was started: {argv}")


@contextmanager
def _limited(given: Input) -> Iterator[None]:
    """The processor's time is bounded, since others may work here; a driver is waited for."""
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


# What it is called ------------------------------------------------------------------------------


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__} at {_where(error)}"


_PACKAGES = ("/conformance/", "/impl/", "/model/")


def _where(error: BaseException) -> str:
    """The innermost line of our own in a traceback, as ``file:line``."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if any(part in frame.filename for part in _PACKAGES) and "/tests/" not in frame.filename
    ]
    if not ours:
        return "nowhere of ours"
    last = ours[-1]
    start = max(last.filename.rfind(part) for part in _PACKAGES)
    return f"{last.filename[start + 1 :]}:{last.lineno}"
