"""``slotproof validate``: a recorded log against the spec, without the engine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    JsonOption,
    ProfileOption,
    SetAsideOption,
    known_profile,
)
from slotproof.conformance.cli.running import known
from slotproof.conformance.cli.telling import status_line
from slotproof.conformance.logs import following, judging, report
from slotproof.conformance.logs.format import BadLog, Log
from slotproof.conformance.logs.judging import Found, Verdict
from slotproof.conformance.terminal import say_all, say_json

_SHOWN = 0.2
"""Seconds between two lines of progress."""


def validate(
    log: Annotated[
        list[Path],
        typer.Argument(help="An event log: its file, its files, their folder, or their name."),
    ],
    profile: ProfileOption = None,
    set_aside: SetAsideOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Judge it as it grows, until Ctrl-C.")
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", help="Go on where this file says; it is written as one goes."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check a recorded event log against the spec, without the engine."""
    choices = known_profile(profile), known(set_aside)
    try:
        if follow or resume is not None:
            verdict = _followed(log, *choices, resume, follow, as_json)
        else:
            verdict = judging.validate(log, *choices)
    except (BadLog, following.BadState) as bad:
        raise UsageProblem(str(bad)) from None
    except OSError as error:
        raise UsageProblem(f"{resume}: {error.strerror}") from None
    if as_json:
        say_json(report.summary(verdict))
    else:
        say_all(report.text(verdict, told=follow))
    return report.status(verdict)


def _followed(
    log: list[Path],
    profile: str | None,
    set_aside: tuple[str, ...],
    resume: Path | None,
    follow: bool,
    as_json: bool,
) -> Verdict:
    with status_line() as line:
        told = 0.0

        def tell(found: Found, verdict: Verdict) -> None:
            new = any(verdict.times[each.clause] == 1 for each in found.violations)
            if follow and new and not as_json:
                with line.hidden():
                    say_all(report.finding(found))

        def progress(verdict: Verdict, log: Log) -> None:
            nonlocal told
            if time.monotonic() >= told + _SHOWN:
                told = time.monotonic()
                line.show(f"{log.file}: {report.so_far(verdict, log.lines)}")

        wait = following.sleep if follow else None
        return following.follow(log, profile, set_aside, tell, progress, resume, wait)
