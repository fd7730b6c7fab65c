"""Pages of this repository outside of `docs/`, missing in plain mkdocs.

A document may link to any file of the repository, because readers also browse the repository. The
site has a page for each linked file and works without a network: Markdown as written, anything else
as a listing. Programs in `docs/` are listed as well.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Documents outside of `docs/` included in the site, with or without a link."""
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
COMMENT = re.compile(r"\A\s*<!--.*?-->\s*", re.DOTALL)
"""Comment at the head of a page: mkdocs takes the title from the first element."""
ITEM = re.compile(r"(?:\d+\.|[-*]) +")
LANGUAGES = {".py": "python", ".js": "javascript", ".json": "json", ".md": "markdown"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A link to the source, where the project has an address."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if address := project.get("urls", {}).get("Source"):
        config.repo_url, config.repo_name = address, project["name"]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside of `docs/` reached by links, also from such files."""
    scripts = sorted((ROOT / "docs" / "findings").glob("scripts*/*.py"))
    todo = [*PROJECT, *(path.relative_to(ROOT).as_posix() for path in scripts)]
    for file in files.documentation_pages():
        todo += _outside(f"docs/{file.src_uri}", file.content_string)
    done: set[str] = set()
    while todo:
        path = todo.pop()
        if path in done:
            continue
        done.add(path)
        text = (ROOT / path).read_text()
        if path.endswith(".md"):
            todo += _outside(path, text)
        else:
            fence = "`" * 4
            text = f"# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}{fence}\n"
        files.append(File.generated(config, _uri(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links across the border of `docs/`, in either direction, lead to pages of the site."""
    uri = page.file.src_uri
    path = _path(uri)

    def moved(match: re.Match[str]) -> str:
        target = _target(path, match[2])
        if target is None or not (uri.startswith("project/") or _is_outside(target)):
            return match[0]
        link = os.path.relpath(_uri(target), posixpath.dirname(uri) or ".")
        return f"{match[1]}{link}{match[3]}"

    return indented(LINK.sub(moved, COMMENT.sub("", markdown)))


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """Make the 404 page's links relative: its style loads from disk and under any address.

    >>> on_post_template('<a href="/x.html">{"base": "/", "search": "/y"}', "404.html")
    '<a href="x.html">{"base": ".", "search": "y"}'
    """
    if template_name != "404.html":
        return output
    output = output.replace('"base": "/"', '"base": "."').replace('"search": "/', '"search": "')
    return re.sub(r'\b((?:href|src|content|action)=")/(?!/)', r"\1", output)


def indented(markdown: str) -> str:
    r"""Indent the contents of list items by four columns. Other text stays in its own column.

    >>> print(indented("1. One:\n\n   ```\n   code\n   ```\n2. Two\n   lines\n\nend"))
    1. One:
    <BLANKLINE>
        ```
        code
        ```
    <BLANKLINE>
    2. Two
        lines
    <BLANKLINE>
    end
    """
    lines: list[str] = []
    column, last, code = 0, 0, False
    for line in markdown.splitlines():
        marker = ITEM.match(line)
        if column and line.startswith(" " * column):
            lines.append("    " + line[column:])
            continue
        if line.startswith("```"):
            code = not code
        if marker and not code:
            # After a block of an item, a marker without a blank line would continue the block.
            if column and "" in lines[last:] and lines[-1]:
                lines.append("")
            column, last = len(marker[0]), len(lines)
        elif line:
            column = 0
        lines.append(line)
    return "\n".join(lines)


def _outside(path: str, text: str) -> list[str]:
    targets = (_target(path, match[2]) for match in LINK.finditer(text))
    return [target for target in targets if target is not None and _is_outside(target)]


def _is_outside(path: str) -> bool:
    return not path.startswith("docs/") or path.endswith(".py")


def _target(path: str, link: str) -> str | None:
    """Return the repository file named by a link of a file, or None."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
    return target if "://" not in link and (ROOT / target).is_file() else None


def _uri(path: str) -> str:
    """Where a file of the repository is in the site."""
    if not _is_outside(path):
        return path.removeprefix("docs/")
    return f"project/{path}" if path.endswith(".md") else f"project/{path}.md"


def _path(uri: str) -> str:
    """Return the path of a page: the inverse of `_uri`."""
    if not uri.startswith("project/"):
        return f"docs/{uri}"
    path = uri.removeprefix("project/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md")
