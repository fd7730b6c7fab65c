"""``slotproof validate``: a recorded log against the spec, without the engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.log_reader import beside, logs_read
from slotproof.cli.options import (
    IGNORE,
    JSON,
    PROFILE,
    known_clauses,
    known_profile,
    option,
    writing,
)
from slotproof.logs import judging, report
from slotproof.logs.files import STDIN
from slotproof.logs.judging import LogFinding, Verdict
from slotproof.logs.traced import trace_of
from slotproof.reports import text
from slotproof.support.terminal import say, say_all, say_json
from slotproof.traces import itf

LOG_HELP = "An event log: its file, or its files in order; - for standard input."
OUT_HELP = "Write the first violation, and what came before it, for `show`."


def validate(
    log: list[Path] = typer.Argument(metavar="LOG...", help=LOG_HELP),
    profile: str | None = PROFILE,
    ignore: list[str] | None = IGNORE,
    out: Path | None = option("--out FILE", "Output", OUT_HELP),
    as_json: bool = JSON,
) -> int:
    """Check a recorded event log against the spec, without the engine."""
    choices = known_profile(profile), known_clauses(ignore)
    if STDIN in log and len(log) > 1:
        raise UsageProblem("- is standard input: name it alone")
    beside(out, log)
    with logs_read():
        verdict = judging.validate(log, *choices)
    _write(out, verdict, profile)
    if as_json:
        say_json({**report.summary(verdict), "trace": str(out) if out and verdict.found else None})
        return report.status(verdict)
    if verdict.found is not None:
        _tell(verdict, verdict.found, profile)
    if verdict.found is not None and out is not None:
        say(f"trace: {out} (slotproof show {out})")
    say_all(report.text(verdict))
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
