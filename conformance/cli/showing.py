"""``slotproof show``: a trace, or the end of a log, for people, in every form."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from slotproof.conformance import bounds, jsontext
from slotproof.conformance.cli.elsewhere import elsewhere
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import JsonOption, writing
from slotproof.conformance.cli.recorded import beside, end_of
from slotproof.conformance.files import write_whole
from slotproof.conformance.logs.files import is_log
from slotproof.conformance.statuses import CONFORMS, USAGE
from slotproof.conformance.terminal import complain, json_text, say, say_all, say_json, say_text
from slotproof.conformance.traces import forms, issue, itf, spec_trace, text
from slotproof.conformance.traces.trace import Trace


class Format(StrEnum):
    """Forms that a trace can be shown in."""

    TEXT = "text"
    MARKDOWN = "markdown"
    MERMAID = "mermaid"
    HTML = "html"
    PYTEST = "pytest"
    ISSUE = "issue"
    SCRIPT = "script"


def show(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help=".itf.json files, or event logs as `validate` takes them; one, unless --all.",
        ),
    ],
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", help="A file to write instead; with --all a folder.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every form of every trace, and an index, into --out.")
    ] = False,
    releases: Annotated[
        bool,
        typer.Option(
            "--releases",
            help="With --format issue: play the trace on every release in `env list`, and say "
            "which ones have it.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Show a trace, or what is wrong with a log: as text, Markdown, Mermaid, an HTML page, a pytest
    file, an issue for the engine's maintainers, or a script that needs the engine alone."""
    if releases and (form is not Format.ISSUE or everything):
        raise UsageProblem("--releases goes with --format issue")
    if everything:
        return _all(traces, out, as_json)
    if len(traces) > 1:
        raise UsageProblem("several traces go with --all --out FOLDER")
    (path,) = traces
    if is_log(path):
        beside(out, [path])
    loaded = _load(path)
    if isinstance(loaded, dict) and form is not Format.TEXT:
        raise UsageProblem(
            f"{path} is a trace of the spec alone (prove --mutant): it has no commands and "
            "no pages, and is shown as text only"
        )
    if as_json:
        shown = _json(loaded, path)
    elif isinstance(loaded, dict):
        shown = _spec(loaded, path)
    elif releases:
        shown = _issue(loaded, path)
    else:
        shown = forms.form(form.value, loaded, str(path))
    if out is not None:
        with writing(out):
            write_whole(out, shown)
    elif form is Format.TEXT and not as_json:
        say_all(text.painted(shown))
    else:
        say_text(shown)
    return 0


def _json(loaded: Trace | dict[str, Any], path: Path) -> str:
    """It as a document; of a trace of the spec, what the file has."""
    try:
        return json_text(loaded if isinstance(loaded, dict) else forms.document(loaded))
    except forms.ODD as error:
        raise forms.odd(str(path), error) from None


def _issue(trace: Trace, path: Path) -> str:
    """The report, with what other releases do. What has no report is refused before any starts."""
    forms.form(Format.ISSUE.value, trace, str(path))
    found = elsewhere(trace)
    return forms.made(lambda view, _: issue.render(view, found), trace, str(path), "issue")


def _load(path: Path) -> Trace | dict[str, Any]:
    """A trace; or the document of one of the spec alone, which has a form of its own."""
    if is_log(path):
        return end_of(path)
    try:
        document = jsontext.read(path, bounds.TRACE_BYTES)
    except jsontext.BadJson:
        document = None  # itf.load says what is wrong
    if spec_trace.is_one(document):
        assert isinstance(document, dict)
        return document
    return itf.load(path, to_run=False)


def _spec(document: dict[str, Any], path: Path) -> str:
    try:
        return spec_trace.render(document)
    except itf.BadTrace as bad:
        raise itf.BadTrace(f"{path}: {bad}") from None


def _all(paths: list[Path], out: Path | None, as_json: bool) -> int:
    if out is None:
        raise UsageProblem("--all needs --out FOLDER")
    traces: dict[str, Trace] = {}
    wrong: list[str] = []

    def tell(problem: Exception) -> None:
        wrong.append(str(problem))
        complain(str(problem))

    paths = list(dict.fromkeys(paths))
    for path in paths:
        try:
            traces[str(path)] = end_of(path) if is_log(path) else itf.load(path, to_run=False)
        except (itf.BadTrace, UsageProblem) as bad:
            tell(bad)
    with writing(out):
        files = forms.write_all(traces, out, tell)
    if as_json:
        say_json({"files": list(map(str, files)), "wrong": wrong})
    elif files:
        shown = f"{len(paths) - len(wrong)} traces in up to {len(forms.FORMS)} forms"
        say(f"{shown}: {out / 'index.html'}")
    return USAGE if wrong else CONFORMS
