"""``slotproof validate``: a check of a recorded log against the spec, without the engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import typer

from slotproof.cli import options
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import option, writing
from slotproof.logs import report
from slotproof.logs.format import STDIN
from slotproof.logs.judging import Judge
from slotproof.reports import text
from slotproof.reports.trace import Trace
from slotproof.support import interrupts
from slotproof.support.terminal import say, say_all
from slotproof.traces import itf

LOG_HELP = "Files of an event log, in order, or - for standard input."
OUT_HELP = "File for the first violation and the events before it, for `show`."


def validate(
    log: list[Path] = typer.Argument(metavar="LOG...", help=LOG_HELP),
    profile: str | None = options.PROFILE,
    ignore: list[str] | None = options.IGNORE,
    out: Path | None = option("--out FILE", "Output", OUT_HELP),
    as_json: bool = options.JSON,
) -> int:
    """Check a recorded event log against the spec, without the engine."""
    judge = Judge(log, options.known_profile(profile), options.known_clauses(ignore))
    if STDIN in log and len(log) > 1:
        raise UsageProblem("- is standard input: leave out the other logs")
    beside(out, log)
    verdict = judge.verdict
    with interrupts.held():  # no interrupt may cut a document
        try:
            for violation in judge.findings():
                if violation is verdict.found:  # now: a process that follows a log may be killed
                    _write(out, trace := report.trace_of(verdict, violation, profile))
                    if not as_json:
                        _tell(trace)
        except KeyboardInterrupt:
            if not verdict.headers:  # nothing to report
                raise
            verdict.interrupted = True
        if verdict.found is not None:  # write the trace again, with later violations
            _write(out, report.trace_of(verdict, verdict.found, profile))
    written = str(out) if out and verdict.found else None
    where = [f"trace: {out} (slotproof show {out})"] if written else []
    document = {**report.summary(verdict), "trace": written}
    return options.answer(document, chain(where, report.text(verdict)), as_json)


def _write(out: Path | None, trace: Trace) -> None:
    if out is not None:
        with writing(out):
            itf.save(trace, out)


def _tell(trace: Trace) -> None:
    assert trace.recorded is not None
    first = replace(trace.recorded, later=(), not_judged={})  # the report lists later ones
    say_all(text.painted(text.render(replace(trace, recorded=first))))
    say("")


def beside(out: Path | None, logs: list[Path]) -> None:
    """Raise :class:`UsageProblem` if ``out`` can't be written to, or if it is one of the logs."""
    options.writable_file(out)
    if out is not None and out.exists() and any(f.exists() and out.samefile(f) for f in logs):
        raise UsageProblem(f"--out {out} is the log itself: name another file")
