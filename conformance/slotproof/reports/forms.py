"""Output forms of a trace, by name. ``write_all`` writes every form of many traces to a folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

from slotproof.reports import alone, issue, pages, scripted, sentences, text
from slotproof.reports.localisation import suspects
from slotproof.reports.trace import Trace
from slotproof.reports.view import View
from slotproof.support.files import slug, write_whole
from slotproof.support.markup import templates
from slotproof.traces import itf
from slotproof.traces.itf import BadTrace, NoForm

FORMS: Mapping[str, tuple[str, Callable[[View, str], str]]] = {
    "text": (".txt", lambda view, path: text.render(view.trace, path)),
    "markdown": (".md", pages.markdown),
    "html": (".html", pages.html),
    "pytest": (".py", lambda view, _: scripted.render(view.trace)),
    "issue": (".issue.md", lambda view, _: issue.render(view)),
    "script": (".alone.py", lambda view, _: alone.render(view)),
}
"""File ending of each form, and the function that makes the form."""
ENDINGS = {name: ending for name, (ending, _) in FORMS.items()}


def form(name: str, trace: Trace, path: str) -> str:
    """Return the trace in one form. Raises :class:`BadTrace` if the trace has impossible values,
    and :class:`NoForm` if the form does not exist for the trace."""
    return made(FORMS[name][1], trace, path, name)


def made(render: Callable[[View, str], str], trace: Trace, path: str, name: str) -> str:
    """Return the output of ``render``. Raises the errors of :func:`form`."""
    try:
        return render(View(trace), path)
    except NoForm as reason:
        raise NoForm(f"{path}: there is no {name} form: {reason}") from None
    except ODD as error:
        raise odd(path, error) from None


def document(trace: Trace) -> dict[str, Any]:
    """Return the trace as JSON: its ITF document and the suspected transitions."""
    where = [suspect.to_json() for suspect in suspects(View(trace))]
    return {**itf.to_itf(trace), "where_to_look": where}


ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Errors raised by impossible values in a trace. A trace is untrusted, so such values can occur."""


def odd(path: str, error: Exception) -> BadTrace:
    """Return the error that reports impossible values in the trace ``path``."""
    return BadTrace(f"{path}: the trace has a missing or impossible value: {error}")


def write_all(
    traces: Mapping[str, Trace], out: Path, tell: Callable[[BadTrace], None] | None = None
) -> list[Path]:
    """Write every form of every trace, and ``index.html``. Return the paths of the written files.

    A trace with impossible values is left out, and ``tell`` gets the error. Without ``tell``, the
    function raises :class:`BadTrace` before it writes a file. Raises ``OSError``.
    """
    documents: dict[str, str] = {}
    names: list[str] = []
    entries = []
    for path, trace in traces.items():
        stem = slug(Path(path).name.removesuffix(".itf.json"), also=r"\w=+") or "trace"
        numbered = (f"{stem}-{number}" for number in count(2))
        name = next(candidate for candidate in chain([stem], numbered) if candidate not in names)
        names.append(name)
        made: dict[str, tuple[str, str]] = {}
        try:
            for form_name, ending in ENDINGS.items():
                # pytest collects only test_*.py, and a Python module's name has no dots.
                stem = "test_" + re.sub(r"\W+", "_", name) if form_name == "pytest" else name
                with suppress(NoForm):
                    made[form_name] = stem + ending, form(form_name, trace, path)
        except BadTrace as bad:
            if tell is None:
                raise
            tell(bad)
            continue
        documents.update(made.values())
        links = {form_name: file for form_name, (file, _) in made.items()}
        entries.append((trace, sentences.headline(View(trace)), links))
    if not entries:
        return []
    index = templates("reports").get_template("index.html.jinja")
    documents["index.html"] = index.render(entries=entries)
    out.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        write_whole(out / name, document)
    return [out / name for name in documents]
