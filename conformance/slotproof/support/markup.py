"""Filters that let text from outside appear in Markdown and HTML only as text.

slotproof's documents go into public issues and pull requests. No part of a trace, a driver's output
or a file name may become markup, a link, an image, a mention, or a new table cell.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from slotproof.support.terminal import plain, plain_lines


def code(text: str) -> str:
    r"""Return a code span for the text. No character of the text can end the span, even in a table.

    >>> code("a`b|c")
    "`a'b\\|c`"
    """
    line = plain(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


_CODES = {char: f"&#{ord(char)};" for char in "&<>[]`|~!$"}
_CODES |= {char: f"\\{char}" for char in "\\*_"}
# GitHub finds mentions in the displayed text. Only a break inside a mention prevents the
# mention. INV-ONCE.reported@T-RESTORE is neither a mention nor an address, so it gets no break.
_MENTIONS = re.compile(r"(?<!\w)@|@(?=[\w-]+\.\w)|#(?=\d)|^#")
_LISTS = re.compile(r"^([-+=]|\d+(?=[.)]))")
_LINKS = re.compile(r"(?i)(?<=www)\.|:(?=//)")


def text(text: str) -> str:
    r"""Return the text as one line in which Markdown and HTML find no markup.

    >>> text("a|b *c* https://d.e @f")
    'a&#124;b \\*c\\* https&#58;//d.e &#64;<!-- -->f'
    """
    line = plain(" ".join(text.split()))
    breaks = {match.start() for match in _MENTIONS.finditer(line)}
    line = "".join(
        f"&#{ord(char)};<!-- -->" if index in breaks else _CODES.get(char, char)
        for index, char in enumerate(line)
    )
    line = _LINKS.sub(lambda match: f"&#{ord(match[0])};", line)
    return _LISTS.sub(r"<!-- -->\1", line)


def fenced(lines: Iterable[str], language: str) -> str:
    r"""Return the lines as a fenced code block. No line can end the block.

    >>> fenced(["a", "```"], "sh")
    '\n````sh\na\n```\n````\n'
    """
    shown = [plain(line) for line in lines]
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    return "\n".join(["", fence + language, *shown, fence, ""])


def digest(script: str) -> str:
    """Return the hash that makes a content security policy allow this script and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def target(path: str) -> str:
    """Return a file name as the target of a link.

    >>> target("traces/a (1).json")
    'traces/a%20%281%29.json'
    """
    return quote(path, errors="backslashreplace")


@cache
def templates(package: str) -> jinja2.Environment:
    """Return the templates of a package. Values in HTML and SVG are escaped. Templates of other
    formats must apply the filters."""
    unescaped = ("md.jinja", "txt.jinja", "py.jinja")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(f"slotproof.{package}", ""),
        autoescape=jinja2.select_autoescape(disabled_extensions=unescaped, default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
    )
    environment.filters |= {"plain": plain, "code": code, "text": text, "target": target}
    environment.filters["fenced"] = fenced
    return environment


def _finalized(value: object) -> object:
    """Return a template's value without control characters, which would make an SVG unreadable."""
    return plain_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
