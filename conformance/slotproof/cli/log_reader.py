"""Logs on a command line: the one reader of them, and the trace of what is wrong with one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import writable_file
from slotproof.logs import judging
from slotproof.logs.files import NoFiles, files_of
from slotproof.logs.following import BadState
from slotproof.logs.format import BadLog
from slotproof.logs.traced import trace_of
from slotproof.reports.trace import Trace


@contextmanager
def logs_read() -> Iterator[None]:
    """One line for what is no log."""
    try:
        yield
    except (BadLog, BadState, NoFiles) as bad:
        raise UsageProblem(str(bad)) from None


def end_of(log: Path) -> Trace:
    """The end of a log: up to its first violation, or to its last line."""
    with logs_read():
        judge = judging.judged([log])
        if judge.recording is None or not judge.recording.rows:
            raise BadLog(f"{log}: no iteration was recorded: there is nothing to show")
    return trace_of(judge.verdict, judge.shown)


def beside(out: Path | None, logs: list[Path]) -> Path | None:
    """A file that can be written and is none of the log's."""
    writable_file(out)
    if out is not None and out.exists():
        with logs_read():
            if any(each.exists() and out.samefile(each) for each in files_of(logs)):
                raise UsageProblem(f"--out {out} is the log itself: name another file")
    return out
