"""``slotproof run --all``: every distinct finding, and the baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.search import baseline as baselines, report
from slotproof.conformance.search.baseline import BadBaseline, Baseline, Entry
from slotproof.conformance.search.campaign import Outcome
from slotproof.conformance.search.findings import Finding
from slotproof.conformance.search.folder import Folder
from slotproof.conformance.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.conformance.terminal import labelled


@dataclass(frozen=True)
class Book:
    """The baseline of a run, where it is, and whether to write it."""

    entries: Baseline
    path: Path | None = None
    update: bool = False

    def taken(self, engine: str) -> frozenset[str]:
        """What a campaign need not look at: all that is known, unless it is written anew."""
        return frozenset() if self.update else frozenset(self.entries.accepted(engine))


def opened(path: Path | None, may_be_new: bool) -> Baseline:
    """The baseline that was asked for; raises :class:`UsageProblem` with one line."""
    if path is None or (may_be_new and not path.exists()):
        return Baseline()
    try:
        return baselines.load(path)
    except BadBaseline as bad:
        raise UsageProblem(f"--baseline: {bad}") from None


def said(
    summary: dict[str, Any], outcome: Outcome, folder: Folder, book: Book
) -> tuple[dict[str, Any], Iterator[str]]:
    """The summary with every finding, as JSON and as text; the status is that of the new ones."""
    known = book.entries.accepted(outcome.engine)
    findings = [_finding(each, folder, known) for each in outcome.findings]
    if book.update:
        known = _updated(book, outcome.engine, findings)
        for each in findings:
            each["reason"] = known[each["id"]].reason
    summary = {**summary, "findings": findings}
    _judge(summary, outcome, known)
    return summary, _text(summary)


def _finding(each: Finding, folder: Folder, known: dict[str, Entry]) -> dict[str, Any]:
    entry = known.get(each.id)
    return {
        "id": each.id,
        "clause": each.mark.clause,
        "at": each.mark.at,
        "detail": each.trace.violations[0].detail,
        "commands": len(each.trace.rows),
        "minimal": each.trace.minimal,
        "configuration": each.trace.config_name,
        "first_example": each.first,
        "trace": folder.path(each),
        "problem": folder.problem(each),
        "reason": entry.reason if entry else None,
    }


def _updated(book: Book, engine: str, findings: list[dict[str, Any]]) -> dict[str, Entry]:
    """Write the baseline, and what it accepts now; a disk that does not take it is wrong usage."""
    assert book.path is not None
    entries = book.entries.updated(engine, {each["id"]: each["trace"] for each in findings})
    try:
        baselines.save(entries, book.path)
    except OSError as error:
        raise UsageProblem(f"{book.path} could not be written: {error.strerror}") from None
    return entries.accepted(engine)


def _judge(summary: dict[str, Any], outcome: Outcome, known: dict[str, Entry]) -> None:
    """What the baseline makes of it."""
    seen = (known.keys() & outcome.accepted) | {
        each["id"] for each in summary["findings"] if each["reason"] is not None
    }
    new = [each for each in summary["findings"] if each["reason"] is None]
    summary["known"] = {name: known[name].reason for name in sorted(seen)}
    summary["gone"] = sorted(known.keys() - seen)
    summary["new"] = len(new)
    if new:
        summary["status"] = FOUND
    elif seen:
        missed = summary["timed"] and summary["transitions"]["never"]
        cut = summary["unearned"] or missed
        summary["status"] = INCONCLUSIVE if cut else CONFORMS


def _text(summary: dict[str, Any]) -> Iterator[str]:
    yield from report.text(summary)
    for each in summary["findings"]:
        yield ""
        yield f"{each['id']}"
        yield labelled("", each["detail"])
        short = "" if each["minimal"] else ", not minimal"
        yield labelled(
            "",
            f"{each['commands']} commands{short}, configuration "
            f"{each['configuration']}, first in example {each['first_example']}",
        )
        yield labelled("", each["problem"] or each["trace"])
    if summary["findings"]:
        yield ""
    for name, reason in summary["known"].items():
        yield labelled("known", f"{name}: {reason}")
    for name in summary["gone"]:
        yield labelled("warning", f"{name} is in the baseline and was not seen")
    yield _verdict(summary)


def _verdict(summary: dict[str, Any]) -> str:
    new, known = summary["new"], len(summary["known"])
    also = f", {known} known" if known else ""
    if new:
        cut = f", {summary['unearned']}" if summary["unearned"] else ""
        return f"{new} {'finding' if new == 1 else 'findings'}{also}{cut} (seed {summary['seed']})"
    if known and summary["status"] == CONFORMS:
        return f"nothing new{also} (seed {summary['seed']})"
    return report.verdict({**summary, "violated": []}) + also
