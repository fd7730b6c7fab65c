"""Findings by cause, as printed by ``slotproof run --all`` and ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slotproof.search import report
from slotproof.search.causes import Cause
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder
from slotproof.support.terminal import labelled


def said(
    summary: dict[str, Any], ranked: Sequence[Cause], folder: Folder
) -> tuple[dict[str, Any], Iterator[str]]:
    """Return a search's summary with all causes and findings, as JSON and as lines of text."""
    summary = {**summary, "causes": [cause_as_json(cause, folder) for cause in ranked]}
    return summary, _text(summary)


def cause_as_json(cause: Cause, folder: Folder) -> dict[str, Any]:
    """Return a cause with its findings."""
    return {
        "name": cause.name,
        "why": cause.why,
        "patch": cause.patch or None,
        "findings": [as_json(finding, folder) for finding in cause.findings],
    }


def as_json(finding: Finding, folder: Folder) -> dict[str, Any]:
    """Return a finding as JSON, with the path of its trace."""
    return {
        "id": finding.id,
        "clause": finding.mark.clause,
        "at": finding.mark.at,
        "detail": finding.trace.violations[0].detail,
        "commands": len(finding.trace.rows),
        "minimal": finding.trace.minimal,
        "configuration": finding.trace.config_name,
        "example": finding.first,
        "not_afresh": finding.trace.not_afresh or None,
        "trace": folder.path(finding),
        "problem": folder.problem(finding),
    }


def lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """Yield a cause's report: the plainest finding in full, each other finding by identity."""
    first, *others = cause["findings"]
    again = f": {first['not_afresh']}" if first["not_afresh"] else ""
    yield f"{cause['name']}{again}"
    if cause["why"]:
        yield labelled("", cause["why"])
    if first["id"] != cause["name"]:
        yield labelled("", first["id"])
    yield labelled("", first["detail"])
    short = "" if first["minimal"] else ", not minimal"
    number = f"example {first['example']} of " if first["example"] else ""
    where = f"{number}configuration {first['configuration']}"
    yield labelled("", f"{first['commands']} commands{short}, {where}")
    yield labelled("", first["problem"] or first["trace"])
    for row in others:
        trace = row["problem"] or row["trace"]
        again = f" {row['not_afresh']}:" if row["not_afresh"] else ""
        yield labelled("also seen as", f"{row['id']}, {row['commands']} commands:{again} {trace}")


def _text(summary: dict[str, Any]) -> Iterator[str]:
    yield from report.text(summary)
    for cause in summary["causes"]:
        yield from ("", *lines(cause))
    if causes := summary["causes"]:
        cut = f", {summary['unearned']}" if summary["unearned"] else ""
        yield from ("", f"{counted(causes)}{cut} ({report.seeds(summary)})")
    else:
        yield report.verdict({**summary, "violated": []})


def counted(causes: Sequence[Mapping[str, Any]], new: str = "") -> str:
    """Return the number of causes in words, and the number of findings if it is larger.

    >>> counted([{"findings": [1, 2]}], "new ")
    '1 new cause, seen as 2 findings'
    """
    count, findings = len(causes), sum(len(cause["findings"]) for cause in causes)
    more = f", seen as {findings} findings" if findings > count else ""
    return f"{count} {new}{'cause' if count == 1 else 'causes'}{more}"
