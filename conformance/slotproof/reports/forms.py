"""Every form of a trace, by name; all of them for many traces, with an index, in one folder."""

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

FORMS: Mapping[str, Callable[[View, str], str]] = {
    "text": lambda view, path: text.render(view.trace, path),
    "markdown": pages.markdown,
    "html": pages.html,
    "pytest": lambda view, _: scripted.render(view.trace),
    "issue": lambda view, _: issue.render(view),
    "script": lambda view, _: alone.render(view),
}
ENDINGS = {
    "text": ".txt",
    "markdown": ".md",
    "html": ".html",
    "pytest": ".py",
    "issue": ".issue.md",
    "script": ".alone.py",
}


def form(name: str, trace: Trace, path: str) -> str:
    """A trace in one form. Raises :class:`BadTrace` where its figures make no sense,
    :class:`NoForm` where it has no such form."""
    return made(FORMS[name], trace, path, name)


def made(render: Callable[[View, str], str], trace: Trace, path: str, name: str) -> str:
    """The same, by what renders it."""
    try:
        return render(View(trace), path)
    except NoForm as reason:
        raise NoForm(f"{path}: there is no {name} form: {reason}") from None
    except ODD as error:
        raise odd(path, error) from None


def document(trace: Trace) -> dict[str, Any]:
    """A trace for machines: as it is in a file, and what follows from it."""
    found = [each.to_json() for each in suspects(View(trace))]
    return {**itf.to_itf(trace), "where_to_look": found}


ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What figures that make no sense raise where they are put together; a trace is untrusted."""


def odd(path: str, error: Exception) -> BadTrace:
    """What to tell of them."""
    return BadTrace(f"{path}: a figure is missing or no number: {error}")


def write_all(
    traces: Mapping[str, Trace], out: Path, tell: Callable[[BadTrace], None] | None = None
) -> list[Path]:
    """Every form of every trace, and ``index.html``; the files. ``traces`` is by path.

    ``tell`` of those whose figures make no sense, which are left out; or raises :class:`BadTrace`
    before anything is written. Raises ``OSError``.
    """
    documents: dict[str, str] = {}
    names: list[str] = []
    entries = []
    for path, trace in traces.items():
        stem = slug(Path(path).name.removesuffix(".itf.json"), also=r"\w=+") or "trace"
        numbered = (f"{stem}-{number}" for number in count(2))
        name = next(each for each in chain([stem], numbered) if each not in names)
        names.append(name)
        made: dict[str, tuple[str, str]] = {}
        try:
            for each, ending in ENDINGS.items():
                # pytest collects test_*.py; a module's name has no dots.
                stem = "test_" + re.sub(r"\W+", "_", name) if each == "pytest" else name
                with suppress(NoForm):
                    made[each] = stem + ending, form(each, trace, path)
        except BadTrace as bad:
            if tell is None:
                raise
            tell(bad)
            continue
        documents.update(made.values())
        links = {each: file for each, (file, _) in made.items()}
        entries.append((trace, sentences.headline(View(trace)), links))
    if not entries:
        return []
    index = templates("reports").get_template("index.html.jinja")
    documents["index.html"] = index.render(entries=entries)
    out.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        write_whole(out / name, document)
    return [out / name for name in documents]
