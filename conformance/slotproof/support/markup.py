"""Foreign text in Markdown and HTML: it stays text, wherever it is put.

Who reads the document may be anybody: it goes into issues and pull requests. Nothing of a trace,
a driver or a file name becomes markup, a link, an image, a mention, or another cell of a table.
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
    """A code span that stays one, in a table too.

    >>> code("a`b|c")
    "`a'b\\\\|c`"
    """
    line = plain(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
    return f"`{line}`" if line else ""


_CODES = {char: f"&#{ord(char)};" for char in "&<>[]`|~!$"}
_CODES |= {char: f"\\{char}" for char in "\\*_"}
# GitHub makes mentions of what is shown, not of what is written: only a break ends one.
# INV-ONCE.reported@T-RESTORE is none, nor an address.
_MENTIONS = re.compile(r"(?<!\w)@|@(?=[\w-]+\.\w)|#(?=\d)|^#")
_LISTS = re.compile(r"^([-+=]|\d+(?=[.)]))")
_LINKS = re.compile(r"(?i)(?<=www)\.|:(?=//)")


def text(text: str) -> str:
    """A line of text, and nothing but text.

    >>> text("a|b *c* https://d.e @f")
    'a&#124;b \\\\*c\\\\* https&#58;//d.e &#64;<!-- -->f'
    """
    line = plain(" ".join(text.split()))
    breaks = {found.start() for found in _MENTIONS.finditer(line)}
    line = "".join(
        f"&#{ord(char)};<!-- -->" if index in breaks else _CODES.get(char, char)
        for index, char in enumerate(line)
    )
    line = _LINKS.sub(lambda found: f"&#{ord(found[0])};", line)
    return _LISTS.sub(r"<!-- -->\1", line)


def fenced(lines: Iterable[str], language: str) -> str:
    """A block of code that stays one, whatever is in it.

    >>> fenced(["a", "```"], "sh")
    '\\n````sh\\na\\n```\\n````\\n'
    """
    shown = [plain(line) for line in lines]
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    return "\n".join(["", fence + language, *shown, fence, ""])


def digest(script: str) -> str:
    """By what the policy of a page lets its own script run, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def target(path: str) -> str:
    """A file as the target of a link.

    >>> target("traces/a (1).json")
    'traces/a%20%281%29.json'
    """
    return quote(path, errors="backslashreplace")


@cache
def templates(package: str) -> jinja2.Environment:
    """The templates in a package of ours. What HTML and SVG are given is escaped; the other forms
    have filters for that."""
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
    """Return what goes into a page, without controls: an SVG that has one is not even read."""
    return plain_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
