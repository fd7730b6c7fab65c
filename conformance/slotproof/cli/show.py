"""``slotproof show``: a trace, or the first violation in a log, in a readable form."""

from __future__ import annotations

import tempfile
import webbrowser
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.finding_on_releases import elsewhere, unpatched
from slotproof.cli.options import JSON, answer, option, writing
from slotproof.cli.validate import beside
from slotproof.logs.format import BadLog, is_log
from slotproof.logs.report import end_of
from slotproof.reports import forms, issue, pages, text
from slotproof.reports.trace import Trace, load_trace
from slotproof.support import bounds, jsontext, terminal
from slotproof.support.files import is_special, write_whole
from slotproof.support.statuses import CONFORMS, USAGE
from slotproof.traces import itf, spec_trace

DOCUMENT = "json"
_ENDINGS = {**forms.ENDINGS, DOCUMENT: ".json"}
_BY_END = {end: name for name, end in sorted(_ENDINGS.items(), key=lambda item: -len(item[1]))}
"""Form of each file ending, longest ending first."""
_ENDS = ", ".join(dict.fromkeys(_ENDINGS.values()))


Format = StrEnum("Format", ["TEXT", "MARKDOWN", "HTML", "PYTEST", "ISSUE", "SCRIPT"])
"""Forms of a trace."""

_SPEC_FORMS = {Format.TEXT.value: spec_trace.render, Format.HTML.value: pages.spec_html}
"""Forms of a trace of the spec alone, which has no commands."""

TRACES_HELP = "An .itf.json file or an event log. Several with --all."
FORMAT_HELP = f"{', '.join(Format)}. Default: set by the ending of --out, else text."
OUT_HELP = f"File to write. Its ending sets the form ({_ENDS}). With --all: a folder."
RELEASES_HELP = "With --format issue: replay the trace on every release in `env list`."


def show(
    traces: list[Path] = typer.Argument(metavar="TRACE...", help=TRACES_HELP),
    form: Format | None = option("--format FORM", "Output", FORMAT_HELP),
    out: Path | None = option("--out FILE", "Output", OUT_HELP),
    opened: bool = option("--open", "Output", "Open the page in a browser.", False),
    everything: bool = option("--all", "Output", "Write every form of every trace.", False),
    releases: bool = option("--releases", "Output", RELEASES_HELP, False),
    as_json: bool = JSON,
) -> int:
    """Show a trace, or the first violation in a log."""
    if releases and everything:
        raise UsageProblem("--releases applies only to --format issue: leave out --all")
    if everything:
        status = _all(traces, out, as_json)
        if opened and out is not None and (page := out / "index.html").exists():
            _open(page)
        return status
    if len(traces) > 1:
        raise UsageProblem("several traces need --all --out FOLDER")
    (path,) = traces
    if is_log(path):
        beside(out, [path])
    name = _form(form, out, opened, as_json)
    if releases and name != Format.ISSUE:
        raise UsageProblem("--releases applies only to --format issue")
    loaded = _load(path)
    if isinstance(loaded, dict) and name not in (*_SPEC_FORMS, DOCUMENT):
        raise UsageProblem(f"there is no {name} form: {_spec_only(path)}")
    shown = _shown(name, loaded, path, releases)
    if opened and out is None:
        out = Path(tempfile.mkdtemp(prefix="slotproof-")) / "page.html"
    if out is not None:
        with writing(out):
            write_whole(out, shown)
        if opened:
            _open(out)
    elif name == Format.TEXT:
        terminal.say_all(text.painted(shown))
    else:
        terminal.say_text(shown)
    return 0


def _spec_only(path: Path) -> str:
    return f"{path} is a trace of the spec, without commands; --format is text or html"


def _form(asked: Format | None, out: Path | None, opened: bool, as_json: bool) -> str:
    """Return the form set by options or file ending. Raises :class:`UsageProblem` on a conflict."""
    named = out.name if out is not None else ""
    by_end = next((form for end, form in _BY_END.items() if named.endswith(end)), None)
    said = {"--format": asked.value} if asked is not None else {}
    said |= {"--json": DOCUMENT} if as_json else {}
    said |= {"--open": Format.HTML.value} if opened else {}
    if len({*said.values()}) > 1:
        raise UsageProblem(f"{' and '.join(said)} ask for two forms: leave out one of them")
    for asking, name in said.items():
        last = f".{_ENDINGS[name].rpartition('.')[2]}"
        if by_end is not None and not named.endswith(last):
            raise UsageProblem(
                f"--out {out} would be {by_end}, and {asking} is {name}: name a file that ends "
                f"with {last}, or leave out {asking}"
            )
        return name
    if by_end is None and out is not None and out.suffix and not is_special(out):
        raise UsageProblem(f"--out {out}: unknown file extension; give --format, or one of {_ENDS}")
    return by_end or Format.TEXT.value


def _open(page: Path) -> None:
    if not webbrowser.open(page.absolute().as_uri()):
        raise UsageProblem(f"no browser can be started: open {page} in a browser")
    terminal.say(terminal.labelled("page", page))


def _shown(name: str, loaded: Trace | dict[str, Any], path: Path, releases: bool) -> str:
    """Return a trace in the form ``name``. With ``releases``, an issue has results on releases."""
    try:
        if name == DOCUMENT:
            document = loaded if isinstance(loaded, dict) else forms.document(loaded)
            return terminal.json_text(document)
        if isinstance(loaded, dict):
            return _SPEC_FORMS[name](loaded)
    except itf.BadTrace as bad:
        raise itf.BadTrace(f"{path}: {bad}") from None
    except forms.ODD as error:
        raise forms.odd(str(path), error) from None
    if name != Format.ISSUE:
        return forms.form(name, loaded, str(path))
    # A trace that has no report is refused before any engine starts. The report is about the
    # engine without patches.
    forms.form(name, replace(loaded, patches=()), str(path))
    trace = unpatched(loaded, path) if loaded.patches else loaded
    results = elsewhere(trace) if releases else ()
    return forms.made(lambda view, _: issue.render(view, results), trace, str(path), name)


def _load(path: Path) -> Trace | dict[str, Any]:
    """Return a trace, or the document of a trace of the spec alone (``prove``)."""
    if is_log(path):
        return end_of(path)
    try:
        document = jsontext.read(path, bounds.TRACE_BYTES)
    except jsontext.BadJson:
        document = None  # load_trace reports the error
    if isinstance(document, dict) and spec_trace.is_one(document):
        return document
    return load_trace(path, to_run=False)


def _all(paths: list[Path], out: Path | None, as_json: bool) -> int:
    if out is None:
        raise UsageProblem("--all needs --out FOLDER")
    traces: dict[str, Trace] = {}
    wrong: list[str] = []

    def tell(problem: Exception) -> None:
        wrong.append(str(problem))
        terminal.complain(str(problem))

    paths = list(dict.fromkeys(paths))
    for path in paths:
        try:
            loaded = _load(path)
            if isinstance(loaded, dict):
                raise UsageProblem(f"--all: {_spec_only(path)}")
            traces[str(path)] = loaded
        except (itf.BadTrace, BadLog, UsageProblem) as bad:
            tell(bad)
    with writing(out):
        files = forms.write_all(traces, out, tell)
    shown = f"{len(paths) - len(wrong)} traces, each in up to {len(forms.FORMS)} forms"
    lines = [f"{shown}: {out / 'index.html'}"] if files else []
    answer({"files": list(map(str, files)), "wrong": wrong}, lines, as_json)
    return USAGE if wrong else CONFORMS
