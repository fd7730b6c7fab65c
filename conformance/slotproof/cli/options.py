"""Options shared by several commands, and checks of their values."""

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
"""Longest timeout of a driver, in seconds: a day. poll() accepts at most some weeks."""
MOST_JOBS = 1_024
"""Maximum number of parallel processes. Each process needs some files and 100 MB of memory."""
LONG = 60
"""Maximum number of characters of a label."""

Panel = Literal["Engine", "Search", "Output", "Journal", "Proof"]


def option(name: str, panel: Panel, text: str, default: Any = None, **more: Any) -> Any:
    """Declare an option with its name, its group in the help, its help text and its default.

    >>> option("--jobs N", "Search", "Processes at once.", 1).metavar
    'N'
    """
    name, _, metavar = name.partition(" ")
    return typer.Option(default, name, metavar=metavar, help=text, rich_help_panel=panel, **more)


ENGINE = option("--engine ENGINE", "Engine", f"Build: {', '.join(FORMS)}.", FORMS[0])
STEP_TIMEOUT = option(
    "--step-timeout SECONDS", "Engine", "Timeout of one iteration.", 10.0, min=0.01, max=LONGEST
)
PROFILE = option("--profile PROFILE", "Engine", "Override the profile that the engine reports.")
PATCH = option(
    "--patch NAME", "Engine", "Known bug to repair: a name from `list patches`, or all. Repeatable."
)
LABEL = option("--label NAME", "Engine", "Name of the build in all output, such as its branch.")
CONFIG = option(
    "--config NAME",
    "Search",
    "Name, or fields: page_size=4,chunk=8. Repeatable. Default: a covering array.",
)
IGNORE = option("--ignore CLAUSE", "Search", "Ignore a clause (INV-ONCE.reported). Repeatable.")
SEED = option("--seed N", "Search", "The same seed gives the same search.", 0)
STEPS = option("--steps N", "Search", "Maximum number of rules per example.", 40)
JOBS = option("--jobs N", "Search", "Parallel processes, each with its own engine.", 1)
TRACES = option("--out DIR", "Output", "Folder for counterexamples.", Path("slotproof-traces"))
LOG = option("--log FILE", "Output", "Record commands and answers in an event log for `validate`.")
JSON = option("--json", "Output", "Print one JSON document instead of text.", False)


def answer(document: Mapping[str, Any], lines: Iterable[str | Painted], as_json: bool) -> int:
    """Print the document or, without ``--json``, the lines. Return the document's status."""
    if as_json:
        say_json(document)
    else:
        say_all(lines)
    return int(document.get("status", 0))


def known_profile(name: str | None) -> str | None:
    """Return the name of an existing profile, or None. Raises :class:`UsageProblem`."""
    if name is not None and name not in PROFILES:
        raise UsageProblem(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")
    return name


def a_label(text: str | None) -> str:
    """Return the label of a build, or "". Raises :class:`UsageProblem` for a bad label."""
    shown = text is None or (text.isprintable() and text.strip() == text and 0 < len(text) <= LONG)
    if not shown or re.match(r"v?\d", text or ""):
        raise UsageProblem(
            f"--label {text!r} must be a printable name of at most {LONG} characters, and not "
            "begin like the number of a release (1, v1)"
        )
    return text or ""


def known_clauses(clauses: list[str] | None, name: str = "--ignore") -> tuple[str, ...]:
    """Return the clauses. Raises :class:`UsageProblem` if a clause does not exist."""
    for clause in clauses or ():
        if clause not in baselines.clauses():
            raise UsageProblem(
                f"{name}: there is no clause {clause!r}; `slotproof list invariants --json` "
                "lists the clauses"
            )
    return tuple(clauses or ())


def number(value: int, least: int, name: str, most: int | None = None) -> int:
    """Return an option's value. Raises :class:`UsageProblem` if the value is out of range."""
    if value < least:
        raise UsageProblem(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise UsageProblem(f"{name} must be at most {most}, not {value}")
    return value


def jobs_count(value: int, least: int = 1) -> int:
    """Return the value of ``--jobs``, checked by :func:`number`."""
    return number(value, least, "--jobs", MOST_JOBS)


def writable(folder: Path, option: str = "--out") -> None:
    """Raise :class:`UsageProblem` if a folder can't be written to. The folder is not created."""
    with writing(folder, option):
        nearest = folder
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        with tempfile.TemporaryFile(dir=nearest):
            pass


def writable_file(path: Path | None, option: str = "--out") -> None:
    """Raise :class:`UsageProblem` if a file can't be written, before a command starts its work."""
    if path is None:
        return
    with writing(path, option):
        if path.is_dir():
            raise UsageProblem(f"{option} {path} is a folder: name a file")
        if not is_special(path):
            writable(path.parent, option)


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """Raise :class:`UsageProblem` in place of an ``OSError`` while a file is written."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(f"{option} {path} can't be written to: {error.strerror}") from None
