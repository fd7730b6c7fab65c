"""Declare options: one function, the options that several commands have, checks of values."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.engines.registry import FORMS
from slotproof.search import baseline as baselines
from slotproof.support.files import is_special
from slotproof.support.terminal import Painted, say_all, say_json
from slotproof_model.spec.profiles import PROFILES

LONGEST = 86_400.0
"""Seconds that a driver may be waited for: a day. More than some weeks no poll() can wait."""
MOST_JOBS = 1_024
"""Processes at once: each holds some files and 100 MB; no machine has more cores to give."""
LONG = 60
"""Characters of a label."""

Panel = Literal["Engine", "Search", "Output", "Journal", "Proof"]


def option(name: str, panel: Panel, text: str, default: Any = None, **more: Any) -> Any:
    """Declare an option: ``--name METAVAR``, its group in the help, its help, its default.

    >>> option("--jobs N", "Search", "Processes at once.", 1).metavar
    'N'
    """
    name, _, metavar = name.partition(" ")
    return typer.Option(default, name, metavar=metavar, help=text, rich_help_panel=panel, **more)


ENGINE = option("--engine ENGINE", "Engine", f"{', '.join(FORMS[:-1])} or {FORMS[-1]}.", FORMS[0])
STEP_TIMEOUT = option(
    "--step-timeout SECONDS", "Engine", "Timeout of an iteration.", 10.0, min=0.01, max=LONGEST
)
PROFILE = option("--profile PROFILE", "Engine", "Override the profile that the engine reports.")
PATCH = option(
    "--patch NAME", "Engine", "Repair a known bug of the build: a name of `list patches`, or all."
)
LABEL = option("--label NAME", "Engine", "Name the build in all output: a branch, say.")
CONFIG = option("--config NAME", "Search", "A configuration; may be repeated. Default: all.")
IGNORE = option("--ignore CLAUSE", "Search", "Ignore a clause (INV-ONCE.reported); repeatable.")
SEED = option("--seed N", "Search", "The same seed gives the same search.", 0)
STEPS = option("--steps N", "Search", "Rules per example at most.", 40)
JOBS = option("--jobs N", "Search", "Processes at once, each with an engine.", 1)
TRACES = option("--out DIR", "Output", "Folder for counterexamples.", Path("slotproof-traces"))
LOG = option("--log FILE", "Output", "Write the commands and the engine's answers, for `validate`.")
JSON = option("--json", "Output", "One JSON document on standard output.", False)


def answer(document: Mapping[str, Any], lines: Iterable[str | Painted], as_json: bool) -> int:
    """Print the document or, without ``--json``, the lines; return the document's status."""
    if as_json:
        say_json(document)
    else:
        say_all(lines)
    return int(document.get("status", 0))


def known_profile(name: str | None) -> str | None:
    """Return the name of a profile that exists, or None."""
    if name is not None and name not in PROFILES:
        raise UsageProblem(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")
    return name


def a_label(text: str | None) -> str:
    """Return a name for a build, or nothing; the number of a release is no such name."""
    shown = text is None or (text.isprintable() and text.strip() == text and 0 < len(text) <= LONG)
    if not shown or re.match(r"v?\d", text or ""):
        raise UsageProblem(
            f"--label {text!r} must be a printable name of at most {LONG} characters that does not "
            "begin as a number does (1, v1): numbers are those of releases"
        )
    return text or ""


def known_clauses(clauses: list[str] | None, name: str = "--ignore") -> tuple[str, ...]:
    """Return clauses that exist; anything else is a slip of the pen."""
    for clause in clauses or ():
        if clause not in baselines.clauses():
            raise UsageProblem(
                f"{name}: there is no clause {clause!r}; `slotproof list invariants --json` "
                "shows them"
            )
    return tuple(clauses or ())


def number(value: int, least: int, name: str, most: int | None = None) -> int:
    """Return the value, or raise one line that says what it must be."""
    if value < least:
        raise UsageProblem(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise UsageProblem(f"{name} must be at most {most}, not {value}")
    return value


def jobs_count(value: int, least: int = 1) -> int:
    """Return a value of ``--jobs``; see :func:`number`."""
    return number(value, least, "--jobs", MOST_JOBS)


def writable(folder: Path, option: str = "--out") -> None:
    """Raise one line where a folder can't be written to; it is not made before it is needed."""
    with writing(folder, option):
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        with tempfile.TemporaryFile(dir=there):
            pass


def writable_file(path: Path | None, option: str = "--out") -> None:
    """Raise one line where a file can't be written, before anything is run for it."""
    if path is None:
        return
    with writing(path, option):
        if path.is_dir():
            raise UsageProblem(f"{option} {path} is a folder: name a file")
        if not is_special(path):
            writable(path.parent, option)


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Raise one line for whatever keeps a file from being written."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(f"{option} {path} can't be written to: {error.strerror}") from None
