"""``slotproof validate``: a recorded log against the spec, without the engine."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.log_reader import beside, logs_read
from slotproof.cli.options import (
    INPUT,
    OUTPUT,
    JsonOption,
    ProfileOption,
    SetAsideOption,
    known_profile,
    writing,
)
from slotproof.cli.progress_line import status_line
from slotproof.cli.run import known
from slotproof.logs import following, judging, report
from slotproof.logs.files import STDIN
from slotproof.logs.format import Log
from slotproof.logs.judging import LogFinding, Verdict
from slotproof.logs.traced import trace_of
from slotproof.reports import text
from slotproof.support.terminal import say, say_all, say_json
from slotproof.traces import itf

_SHOWN = 0.2
"""Seconds between two lines of progress."""


def validate(
    log: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...",
            help="An event log: its file (.gz too), its files, their folder, their name, or - for "
            "standard input.",
        ),
    ],
    profile: ProfileOption = None,
    set_aside: SetAsideOption = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Judge it as it grows, until Ctrl-C.", rich_help_panel=INPUT),
    ] = False,
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            help="Go on where this file says; it is written as one goes.",
            metavar="FILE",
            rich_help_panel=INPUT,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write the first violation, and what came before it, for `show`.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check a recorded event log against the spec, without the engine."""
    choices = known_profile(profile), known(set_aside)
    if STDIN in log and (len(log) > 1 or resume is not None):
        raise UsageProblem("- is standard input: alone, and without --resume")
    beside(out, log)
    with logs_read():
        if follow or resume is not None:
            verdict = _followed(log, *choices, resume, follow, as_json, out)
        else:
            verdict = judging.validate(log, *choices)
    _write(out, verdict, profile)
    if as_json:
        say_json({**report.summary(verdict), "trace": str(out) if out and verdict.found else None})
        return report.status(verdict)
    if verdict.found is not None and not follow:
        _tell(verdict, verdict.found, profile)
    if verdict.found is not None and out is not None:
        say(f"trace: {out} (slotproof show {out})")
    say_all(report.text(verdict, told=follow))
    return report.status(verdict)


def _write(out: Path | None, verdict: Verdict, profile: str | None) -> None:
    if out is not None and verdict.found is not None:
        with writing(out):
            itf.save(trace_of(verdict, verdict.found, profile), out)


def _tell(verdict: Verdict, found: LogFinding, profile: str | None) -> None:
    trace = trace_of(verdict, found, profile)
    assert trace.recorded is not None
    known = replace(trace.recorded, later=(), not_judged={})  # the report has these
    say_all(text.painted(text.render(replace(trace, recorded=known))))
    say("")


def _followed(
    log: list[Path],
    profile: str | None,
    set_aside: tuple[str, ...],
    resume: Path | None,
    follow: bool,
    as_json: bool,
    out: Path | None,
) -> Verdict:
    with status_line() as line:
        told = 0.0

        def tell(found: LogFinding, verdict: Verdict) -> None:
            if not found.new:
                return
            _write(out, verdict, profile)
            if follow and not as_json:
                with line.hidden():
                    _tell(verdict, replace(found, violations=found.new), profile)

        def progress(verdict: Verdict, log: Log) -> None:
            nonlocal told
            if time.monotonic() >= told + _SHOWN:
                told = time.monotonic()
                line.show(f"{log.file}: {report.so_far(verdict, log.lines)}")

        wait = following.sleep if follow else None
        try:
            return following.follow(log, profile, set_aside, tell, progress, resume, wait)
        except OSError as error:
            raise UsageProblem(f"{resume}: {error.strerror}") from None
