"""The end of a log as a trace: what `show` makes its page of."""

from __future__ import annotations

from pathlib import Path

from slotproof.logs.format import BadLog
from slotproof.logs.judging import LogFinding, Verdict, judged
from slotproof.logs.report import not_observed
from slotproof.reports.trace import Trace
from slotproof.support import bounds
from slotproof.traces.record import Later, Recorded


def trace_of(verdict: Verdict, shown: LogFinding, profile: str | None = None) -> Trace:
    """The last commands and iterations up to a line, and what is known of the rest of the log.

    It names no file: the same lines make the same trace, wherever they are read from.
    """
    header = shown.header
    later = tuple(
        Later(
            each.part,
            each.at,
            each.violation.clause,
            str(each.violation)[: bounds.TEXT_CHARS],
            each.times,
        )
        for each in verdict.later
    )
    before = shown.commands - len(shown.rows)
    known = Recorded(shown.part, shown.at, before, later, not_observed(verdict))
    return Trace(
        engine=f"{header.engine} {header.version}".strip(),
        spec=header.engine,
        profile=profile or header.capabilities.profile,
        config=header.config,
        seed=header.seed,
        rows=shown.rows,
        violations=shown.violations[: bounds.VIOLATIONS],
        chosen_profile=profile,
        set_aside=tuple(sorted(verdict.coverage.set_aside)),
        recorded=known,
    )


def end_of(log: Path) -> Trace:
    """Return the end of a log: up to its first violation, or to its last line.

    Raises :class:`~slotproof.logs.format.BadLog`.
    """
    judge = judged([log])
    if judge.recording is None or not judge.recording.rows:
        raise BadLog(f"{log}: no iteration was recorded: there is nothing to show")
    return trace_of(judge.verdict, judge.shown)
