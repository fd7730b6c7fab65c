"""Every finding, by cause: what ``slotproof run --all`` and ``report`` print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slotproof.search import report
from slotproof.search.causes import Cause
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder
from slotproof.support.terminal import labelled


def said(
    summary: dict[str, Any], found: Sequence[Cause], folder: Folder
) -> tuple[dict[str, Any], Iterator[str]]:
    """Return the summary with every cause and its findings, and the same as text."""
    summary = {**summary, "causes": [cause_as_json(each, folder) for each in found]}
    return summary, _text(summary)


def cause_as_json(cause: Cause, folder: Folder) -> dict[str, Any]:
    """Return a cause with its findings."""
    return {
        "name": cause.name,
        "why": cause.why,
        "patch": cause.patch or None,
        "findings": [as_json(each, folder) for each in cause.findings],
    }


def as_json(each: Finding, folder: Folder) -> dict[str, Any]:
    """A finding, and where its trace is."""
    return {
        "id": each.id,
        "clause": each.mark.clause,
        "at": each.mark.at,
        "detail": each.trace.violations[0].detail,
        "commands": len(each.trace.rows),
        "minimal": each.trace.minimal,
        "configuration": each.trace.config_name,
        "example": each.first,
        "not_afresh": each.trace.not_afresh or None,
        "trace": folder.path(each),
        "problem": folder.problem(each),
    }


def lines(cause: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a cause: its plainest finding whole, the others by identity."""
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
    for each in others:
        trace = each["problem"] or each["trace"]
        again = f" {each['not_afresh']}:" if each["not_afresh"] else ""
        yield labelled("also seen as", f"{each['id']}, {each['commands']} commands:{again} {trace}")


def _text(summary: dict[str, Any]) -> Iterator[str]:
    yield from report.text(summary)
    for each in summary["causes"]:
        yield from ("", *lines(each))
    if causes := summary["causes"]:
        cut = f", {summary['unearned']}" if summary["unearned"] else ""
        yield from ("", f"{counted(causes)}{cut} ({report.seeds(summary)})")
    else:
        yield report.verdict({**summary, "violated": []})


def counted(causes: Sequence[Mapping[str, Any]], new: str = "") -> str:
    """Return the number of causes, and of findings where these are more.

    >>> counted([{"findings": [1, 2]}], "new ")
    '1 new cause, seen as 2 findings'
    """
    count, findings = len(causes), sum(len(each["findings"]) for each in causes)
    more = f", seen as {findings} findings" if findings > count else ""
    return f"{count} {new}{'cause' if count == 1 else 'causes'}{more}"
