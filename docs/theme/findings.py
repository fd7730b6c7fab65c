"""Pages made by slotproof in the site: a page for each committed trace, and links to the page.

A finding's page links to the pages of its traces, to the traces and to the script. A link to a
trace leads to its page. A comment `<!-- page of TRACE -->` shows the page in a frame.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from slotproof.matrices.named_findings import name_of
from slotproof.reports import forms, sentences
from slotproof.reports.trace import Trace, load_trace
from slotproof.reports.view import View

DOCS = Path(__file__).resolve().parents[1]
FOLDER = "findings"
SUFFIX, PAGE = ".itf.json", ".html"
LINK = re.compile(r"(\]\()([^)\s#]+)" + re.escape(SUFFIX) + r"(\))")
EMBEDDED = re.compile(r"<!-- page of (\S+) -->")
TITLE = re.compile(r"\A# .*\n")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each trace, next to the trace."""
    for uri, trace in traces().items():
        text = forms.form("html", trace, f"docs/{uri}")
        files.append(File.generated(config, page_of(uri), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links to traces at their pages, and begin a finding with links to its pages."""
    uri = page.file.src_uri

    def moved(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(uri), unquote(match[2])))
        has_page = (DOCS / f"{target}{SUFFIX}").is_file() and target.startswith(f"{FOLDER}/")
        return f"{match[1]}{match[2]}{PAGE}{match[3]}" if has_page else match[0]

    text = LINK.sub(moved, EMBEDDED.sub(lambda match: frame(match[1]), markdown))
    if posixpath.dirname(uri) == FOLDER and (lead := ways(Path(uri).stem)):
        text = TITLE.sub(lambda match: f"{match[0]}\n{lead}\n", text, count=1)
    return text


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """The cells of a matrix have the colours of its picture: the first table is the JSON beside."""
    beside = (DOCS / page.file.src_uri).with_suffix(".json")
    if Path(page.file.src_uri).name != "matrix.md" or not beside.is_file():
        return html
    rows = json.loads(beside.read_text())["rows"]
    kinds = [kind for row in rows for kind in ("", *(cell["kind"] for cell in row["cells"]))]
    head, *cells = html.split("<td>")
    marked = (f'<td class="cell-{kind}">' if kind not in ("", "none") else "<td>" for kind in kinds)
    return head + "".join(map(str.__add__, [*marked, *["<td>"] * len(cells)], cells))


def traces() -> dict[str, Trace]:
    """Return all committed traces by their path in the documents."""
    paths = sorted((DOCS / FOLDER).rglob(f"*{SUFFIX}"))
    return {path.relative_to(DOCS).as_posix(): load_trace(path) for path in paths}


def page_of(uri: str) -> str:
    """The page of a trace.

    >>> page_of("findings/sglang-0.5.23-refused-token.itf.json")
    'findings/sglang-0.5.23-refused-token.html'
    """
    return uri.removesuffix(SUFFIX) + PAGE


def frame(uri: str) -> str:
    """Return a frame with the page of a trace, for a page at the top of the site."""
    headline = sentences.headline(View(load_trace(DOCS / uri)))
    return (
        f'<iframe class="counterexample" src="{quote(page_of(uri))}" '
        f'title="A counterexample: {escape(headline)}"></iframe>'
    )


def ways(name: str) -> str:
    """Return the links to a finding's pages, traces and script, with the newest release first."""
    seen = defaultdict(list)
    for path in (DOCS / FOLDER).rglob(f"*-{name}{SUFFIX}"):
        engine = load_trace(path).engine
        if name_of(path, engine) == name and "traces" not in path.parts:
            seen[engine].append(os.path.relpath(path, DOCS / FOLDER))
    parts = [
        f"[{engine}]({quote(page_of(uri))}) ([trace]({quote(uri)}))"
        for engine in sorted(seen, key=release, reverse=True)
        for uri in sorted(seen[engine])
    ]
    scripts = [
        f"[script]({path.relative_to(DOCS / FOLDER).as_posix()})"
        for path in sorted((DOCS / FOLDER).glob(f"scripts*/{name}.py"))
    ]
    return f"**Step by step:** {' · '.join([*parts, *scripts])}\n" if parts else ""


def release(engine: str) -> list[int]:
    """Return the sort key of an engine's name.

    >>> release("sglang 0.5.9") < release("sglang 0.5.10.post1") < release("sglang 0.5.11")
    True
    """
    return [int(number) for number in re.findall(r"\d+", engine)]
