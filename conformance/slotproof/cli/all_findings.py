"""Every distinct finding: what ``slotproof run --all`` and ``campaign`` say at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.campaigns import sure
from slotproof.search import report
from slotproof.search.campaign import Outcome
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder
from slotproof.support.terminal import labelled


def said(
    summary: dict[str, Any], outcome: Outcome, folder: Folder
) -> tuple[dict[str, Any], Iterator[str]]:
    """The summary with every finding, as JSON and as text."""
    summary = {**summary, "findings": [as_json(each, folder) for each in outcome.findings]}
    return summary, _text(summary)


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
        "first_example": each.first,
        "trace": folder.path(each),
        "problem": folder.problem(each),
    }


def lines(each: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    yield f"{each['id']}"
    yield labelled("", each["detail"])
    short = "" if each["minimal"] else ", not minimal"
    number = each["first_example"]
    first = f", first in example {number} of the plan" if number else ""
    yield labelled(
        "", f"{each['commands']} commands{short}, configuration {each['configuration']}{first}"
    )
    yield labelled("", each["problem"] or each["trace"])


def _text(summary: dict[str, Any]) -> Iterator[str]:
    yield from report.text(summary)
    if "how_sure" in summary:
        yield from sure.text(summary["how_sure"])
    for each in summary["findings"]:
        yield ""
        yield from lines(each)
    if summary["findings"]:
        yield ""
    yield _verdict(summary)


def _verdict(summary: dict[str, Any]) -> str:
    count = len(summary["findings"])
    if not count:
        return report.verdict({**summary, "violated": []})
    cut = f", {summary['unearned']}" if summary["unearned"] else ""
    return f"{count} {'finding' if count == 1 else 'findings'}{cut} (seed {summary['seed']})"
