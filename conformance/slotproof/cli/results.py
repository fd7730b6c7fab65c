"""Results of a gate for other programs: JUnit XML, and annotations and a summary on GitHub. All
results are made from the summary printed by ``slotproof gate --json``."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from slotproof.support.files import append
from slotproof.support.terminal import plain, plain_lines


def junit(summary: Mapping[str, Any]) -> str:
    """Return JUnit XML with a case for each committed trace and each finding. A committed trace
    passes if its finding is fixed or still present. A finding that was not judged is an error."""
    suite = ET.Element("testsuite", name="slotproof gate")
    builds = ET.SubElement(suite, "properties")
    for name, build in {"engine": summary, "base": summary["base"]}.items():
        if build is not None:
            ET.SubElement(builds, "property", name=name, value=plain(build["engine"]))

    def case(kind: str, name: str, outcome: str = "", text: str = "", said: str = "") -> None:
        one = ET.SubElement(suite, "testcase", classname=f"slotproof.{kind}", name=plain(name))
        one.set("time", "0")
        if outcome:
            first = plain(text.split("\n", 1)[0])
            ET.SubElement(one, outcome, message=first).text = plain_lines(text)
        if said:
            ET.SubElement(one, "system-out").text = plain_lines(said)

    for group in summary["groups"]:
        for trace in group["traces"]:
            name = f"{group['name']}: {trace['file']}"
            tried = trace["status"] != "not tried"
            told = f"{trace['status']} {trace['detail']}".strip()
            case("known", name, "" if tried else "skipped", told, told if tried else "")
    for cause in summary["new"]:
        case("new", cause["name"], "failure", _cause_words(cause))
    for finding in summary["not_judged"]:
        case("not_judged", finding["id"], "error", _words(finding))
    if summary["unearned"]:
        case("not_earned", "search", "error", summary["unearned"]["text"])
    search = summary["search"]
    case("search", f"seed {search['seed']}", said=f"{search['examples']} examples")
    for name, count in {
        "tests": len(suite.findall("testcase")),
        "failures": len(summary["new"]),
        "errors": len([*suite.iter("error")]),
        "skipped": len([*suite.iter("skipped")]),
    }.items():
        suite.set(name, str(count))
    suite.set("time", str(search["seconds"]))
    whole = ET.Element("testsuites")
    whole.append(suite)
    ET.indent(whole)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(whole, encoding="unicode")}\n'


def _cause_words(cause: Mapping[str, Any]) -> str:
    """Return the plainest finding of a cause in a few lines, then each other finding's identity."""
    first, *others = cause["findings"]
    lines = [_words(first), cause["why"]]
    lines += [f"also seen as {row['id']}: {row['problem'] or row['trace']}" for row in others]
    return "\n".join(filter(None, lines))


def _words(of: Mapping[str, Any]) -> str:
    """Return a finding in a few lines."""
    parts = (of["detail"], of["not_afresh"], of.get("why"), of["problem"] or of["trace"])
    return "\n".join(f"{part}" for part in parts if part)


def annotated(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield annotations in a job on GitHub. Yield nothing elsewhere."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for cause in summary["new"]:
        yield _annotation("error", f"new: {cause['name']}", _cause_words(cause))
    for finding in summary["not_judged"]:
        yield _annotation("warning", f"not judged: {finding['id']}", _words(finding))
    if summary["unearned"]:
        yield _annotation("warning", "not earned", summary["unearned"]["text"])
    for group in summary["groups"]:
        if group["status"] == "fixed":
            yield _annotation("notice", f"fixed: {group['name']}", "Remove this baseline group.")
        if group["unexplained"]:
            yield _annotation("warning", f"no reason: {group['name']}", "Write the group's reason.")


def _annotation(level: str, title: str, text: str) -> str:
    title = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={title}::{_escaped(text)}"


def _escaped(text: str) -> str:
    """Return text escaped for the GitHub runner, so that no text can start a runner command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def step_summary(summary: Mapping[str, Any], verdict: str) -> None:
    """Append a table to the GitHub job's summary page. Do nothing elsewhere. Raises ``OSError``."""
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        return
    rows = [("new", cause["name"], cause["findings"][0]["detail"]) for cause in summary["new"]]
    rows += [("not judged", finding["id"], finding["why"]) for finding in summary["not_judged"]]
    if summary["unearned"]:
        rows.append(("not earned", "search", summary["unearned"]["text"]))
    rows += [(group["status"], group["name"], group["reason"]) for group in summary["groups"]]
    lines = [f"### slotproof gate: {_cell(summary['engine'])}", "", _cell(verdict), ""]
    if rows:
        lines += ["| | | |", "|---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    append(Path(path), "\n".join(lines) + "\n\n")


def _cell(text: str) -> str:
    """Return text for a Markdown table cell, without Markdown or HTML."""
    harmless = plain(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{char}" if char in "\\|`*_[]" else char for char in harmless)
