"""Report of ``slotproof validate``: as text, as JSON, and as a trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.engines.base import named
from slotproof.lockstep.observation import Violation
from slotproof.logs.format import BadLog, shown
from slotproof.logs.judging import LogFinding, Verdict, judged
from slotproof.reports.trace import Trace
from slotproof.search.report import checked, left_out
from slotproof.support import bounds
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import labelled
from slotproof.traces.record import Later, Recorded
from slotproof_model.spec.invariants import INVARIANTS, ON_ENGINES


def status(verdict: Verdict) -> int:
    """Return the exit status. A log conforms only if it has iterations and was read to its end."""
    if verdict.violations:
        return FOUND
    return CONFORMS if verdict.seen["iterations"] and not verdict.interrupted else INCONCLUSIVE


def summary(verdict: Verdict) -> dict[str, Any]:
    """Return the results of a validation as JSON. ``status`` is the exit status."""
    header, coverage = verdict.header, verdict.coverage
    offered = frozenset().union(*(header.capabilities.seen_to_make for header in verdict.headers))
    return {
        "status": status(verdict),
        "log": verdict.log,
        "engine": named("", header.engine, header.version).title,
        "profile": header.capabilities.profile,
        "lines": verdict.lines,
        "cut_off": verdict.cut,
        "ended": [{"line": number, "why": why} for number, why in verdict.ends],
        "examples": verdict.lives,
        "unseen": verdict.unseen[0],
        "skipped": verdict.skipped,
        "commands": verdict.commands,
        "iterations": verdict.seen["iterations"],
        "with": {part: verdict.seen[part] for part in ("state", "pages", "checker", "content")},
        "transitions": {
            "counts": dict(sorted(coverage.transitions.items())),
            "not_seen": sorted(offered - coverage.transitions.keys()),
        },
        "invariants": {
            "checked": sorted(name for name in INVARIANTS if coverage.checked[name]),
            "not_checked": sorted(name for name in ON_ENGINES if not coverage.checked[name]),
        },
        "ignored": dict(sorted(coverage.ignored.items())),
        "by_choice": dict(sorted(coverage.by_choice.items())),
        "not_observed": not_observed(verdict),
        "file": verdict.found and verdict.found.file,
        "line": verdict.line,
        "times": dict(sorted(verdict.times.items())),
        "later": [
            {
                "file": kind.file,
                "line": kind.line,
                "clause": kind.violation.clause,
                "transition": kind.violation.transition,
                "detail": kind.violation.detail,
                "times": kind.times,
            }
            for kind in verdict.later
        ],
        "violated": [broken.to_json() | _compared(broken) for broken in verdict.violations],
    }


def _compared(violation: Violation) -> dict[str, Any]:
    """Return the name and the recorded value of a variable that differs from the spec."""
    if violation.clause != "INV-STEP.state" or violation.variable is None:
        return {}
    field = " ".join(filter(None, (violation.session or violation.rid, violation.variable)))
    return {"field": field, "seen": violation.engine}


def not_observed(verdict: Verdict) -> dict[str, str]:
    """Return the facts that the engine did not show or the recorder did not write, with reasons."""
    missing: dict[str, str] = {}
    records = frozenset.intersection(*(header.records for header in verdict.headers))
    for header in verdict.headers:
        missing |= header.capabilities.not_observed
    if told := {"commands", "messages"} - records:
        missing["clients"] = f"{' and '.join(sorted(told))} were not recorded"
    if "events" not in records:
        missing["steps"] = "events were not recorded"
    seen = verdict.seen
    for part, of, words in (
        ("state", "iterations", "state"),
        ("pages", "state", "pages (free list, tree, rows)"),
        ("checker", "iterations", "the engine's own check"),
        ("content", "state", "KV content"),
    ):
        if (left_out := seen[of] - seen[part]) and words not in missing:
            missing[words] = f"not recorded in {left_out} of {seen[of]} {of.removesuffix('s')}s"
    if seen["gaps"]:
        missing["progress"] = f"iterations before {seen['gaps']} of the states were not recorded"
    if verdict.unseen[0]:
        lines, until = verdict.unseen
        missing["lines"] = f"{lines} lines are in missing files, up to iteration {until}"
    if verdict.skipped:
        missing["after a violation"] = f"{verdict.skipped} iterations skipped up to the next state"
    if verdict.broken:
        missing["the rest of the log"] = verdict.broken
    missing["tokens without a cache"] = "a log has no engine to ask"
    return missing


def text(verdict: Verdict) -> Iterator[str]:
    """Yield the report as lines of text. The last line is the result."""
    report = summary(verdict)
    yield labelled("engine", f"{report['engine']} (profile {report['profile']})")
    lives = f"{verdict.lives} engine{'' if verdict.lives == 1 else 's'}"
    start = "" if verdict.unseen[0] else " from the start"
    yield labelled("log", f"{verdict.log}: {verdict.lines} lines, {lives}{start}")
    told = verdict.commands or "none recorded"
    yield labelled("commands", f"{told}, {report['iterations']} iterations")
    transitions = report["transitions"]
    yield labelled("transitions", f"{len(transitions['counts'])} seen")
    if transitions["not_seen"]:
        yield labelled("", f"not seen: {', '.join(transitions['not_seen'])}")
    yield from checked(report["invariants"])
    yield from left_out(report["ignored"], report["not_observed"], report["by_choice"])
    for number, kind in enumerate(verdict.later):
        times = f" × {kind.times}" if kind.times > 1 else ""
        label = "" if number else "found later"
        yield labelled(label, f"{kind.file}:{kind.line}: {kind.violation}{times}")
    for line, why in verdict.ends:
        yield labelled("recorder", f"stopped at line {line}: {why}")
    if (cut := verdict.cut) is not None:
        yield labelled("cut off", f"line {cut} is incomplete: judged up to line {verdict.lines}")
    if sum(verdict.times.values()) > len(verdict.violations):
        times = ", ".join(f"{clause} × {count}" for clause, count in report["times"].items())
        yield labelled("violated", times)
    if verdict.found is not None:
        where = f"line {verdict.line} of {shown(Path(verdict.found.file))}"
        yield f"counterexample: {where}: {verdict.violations[0].clause}"
    elif verdict.interrupted:
        yield f"inconclusive: interrupted; the spec explains the first {report['lines']} lines"
    elif not report["iterations"]:
        yield "inconclusive: no iteration was recorded"
    else:
        yield f"conforms: the spec explains all {report['lines']} lines"


def trace_of(verdict: Verdict, shown: LogFinding, profile: str | None = None) -> Trace:
    """Return a trace of the last commands and iterations up to a finding, with a log summary.

    The trace names no file, so equal lines give equal traces, whatever file contains the lines.
    """
    header = shown.header
    later = []
    for kind in verdict.later:
        said = str(kind.violation)[: bounds.TEXT_CHARS]
        later.append(Later(kind.part, kind.at, kind.violation.clause, said, kind.times))
    before = shown.commands - len(shown.rows)
    return Trace(
        engine=f"{header.engine} {header.version}".strip(),
        spec=header.engine,
        profile=profile or header.capabilities.profile,
        config=header.config,
        seed=header.seed,
        rows=shown.rows,
        violations=shown.violations[: bounds.VIOLATIONS],
        chosen_profile=profile,
        ignored=tuple(sorted(verdict.coverage.ignored)),
        recorded=Recorded(shown.part, shown.at, before, tuple(later), not_observed(verdict)),
    )


def end_of(log: Path) -> Trace:
    """Return a trace that ends at a log's first violation, or else at the last line.

    Raises :class:`~slotproof.logs.format.BadLog`.
    """
    judge = judged([log])
    if judge.recording is None or not judge.recording.rows:
        raise BadLog(f"{log}: no iteration was recorded: there is nothing to show")
    return trace_of(judge.verdict, judge.shown)
