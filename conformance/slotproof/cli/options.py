"""Options that several commands have."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.engines.registry import FORMS
from slotproof.support.files import is_special
from slotproof_model.spec.profiles import PROFILES

LONGEST = 86_400.0
"""Seconds that a driver may be waited for: a day. More than some weeks no poll() can wait."""
MOST_JOBS = 1_024
"""Processes at once: each holds some files and 100 MB; no machine has more cores to give."""

ENGINE, SEARCH, OUTPUT = "Engine", "Search", "Output"
JOURNAL, PROOF = "Journal", "Proof"
"""Groups of options in a command's help, in the order of its options."""

EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        help=f"{', '.join(FORMS[:-1])} or {FORMS[-1]}.",
        metavar="ENGINE",
        rich_help_panel=ENGINE,
    ),
]
PythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python",
        help="The Python of the environment that holds the build under test.",
        metavar="FILE",
        rich_help_panel=ENGINE,
    ),
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        "--base",
        help="A build to compare with, as --engine: fail on what it does not do either.",
        metavar="ENGINE",
        rich_help_panel=ENGINE,
    ),
]
BasePythonOption = Annotated[
    Path | None,
    typer.Option(
        "--base-python",
        help="The Python of the environment that holds the base.",
        metavar="FILE",
        rich_help_panel=ENGINE,
    ),
]
ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        help="A configuration by name; may be repeated. Default: all.",
        metavar="NAME",
        rich_help_panel=SEARCH,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        "--device",
        help="Where the reference engine has its tensors: cpu, cuda.",
        metavar="DEVICE",
        rich_help_panel=ENGINE,
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--step-timeout",
        min=0.01,
        max=LONGEST,
        help="Seconds for one iteration; more is a hang.",
        metavar="SECONDS",
        rich_help_panel=ENGINE,
    ),
]
StartOption = Annotated[
    float,
    typer.Option(
        "--start-timeout",
        min=0.01,
        max=LONGEST,
        help="Seconds a driver has to say hello, and to reset.",
        metavar="SECONDS",
        rich_help_panel=ENGINE,
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="The choices the engine made, if not its own.",
        metavar="PROFILE",
        rich_help_panel=ENGINE,
    ),
]
SetAsideOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set-aside",
        help="A clause (INV-ONCE.reported) whose violations are known; may be repeated.",
        metavar="CLAUSE",
        rich_help_panel=SEARCH,
    ),
]
MendOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mend",
        help="Repair a known bug of an SGLang build in its process (`slotproof list mends`); may "
        "be repeated; all: those that fit.",
        metavar="NAME",
        rich_help_panel=ENGINE,
    ),
]
SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", metavar="N", help="The same seed gives the same search.", rich_help_panel=SEARCH
    ),
]
StepsOption = Annotated[
    int,
    typer.Option("--steps", metavar="N", help="Rules per example at most.", rich_help_panel=SEARCH),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="One JSON document on standard output.", rich_help_panel=OUTPUT),
]

LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log",
        help="Write what the engine is told and answers, for `validate`.",
        metavar="FILE",
        rich_help_panel=OUTPUT,
    ),
]


def known_profile(name: str | None) -> str | None:
    """The name of a profile that exists, or none."""
    if name is not None and name not in PROFILES:
        raise UsageProblem(f"unknown profile {name!r}; there are: {', '.join(PROFILES)}")
    return name


def number(value: int, least: int, name: str, most: int | None = None) -> int:
    """The value, or one line that says what it must be."""
    if value < least:
        raise UsageProblem(f"{name} must be at least {least}, not {value}")
    if most is not None and value > most:
        raise UsageProblem(f"{name} must be at most {most}, not {value}")
    return value


def jobs_count(value: int, least: int = 1) -> int:
    """A value of ``--jobs``, or one line; see :func:`number`."""
    return number(value, least, "--jobs", MOST_JOBS)


def z3_missing(error: ModuleNotFoundError) -> Exception:
    """What to tell when proofs can't be imported: what to install, if it is Z3 that is missing."""
    return UsageProblem("proofs need Z3: pip install z3-solver") if error.name == "z3" else error


def writable(folder: Path, option: str = "--out") -> None:
    """One line where a folder could not be written to; it is not made before it is needed."""
    with writing(folder, option):
        there = folder
        while not there.exists() and there != there.parent:
            there = there.parent
        with tempfile.TemporaryFile(dir=there):
            pass


def writable_file(path: Path | None, option: str = "--out") -> Path | None:
    """One line where a file could not be written, before anything is run for it."""
    if path is None:
        return None
    with writing(path, option):
        if path.is_dir():
            raise UsageProblem(f"{option} {path} is a folder: name a file")
        if not is_special(path):
            writable(path.parent, option)
    return path


@contextmanager
def writing(path: Path, option: str = "--out") -> Iterator[None]:
    """One line for whatever keeps a file from being written."""
    try:
        yield
    except OSError as error:
        raise UsageProblem(f"{option} {path} can't be written to: {error.strerror}") from None
