"""Docstrings as Markdown, for the page of the Python API.

Docstrings are written for a reader of the source. Examples begin with ``>>>``, mistaken by Markdown
for a quotation, and names are Sphinx roles.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
ROLE = re.compile(r":(?:class|func|mod|data):`~?([\w.]+)`")
OPTION = re.compile(r"\s*# doctest: .*$", re.MULTILINE)


class Markdown(Extension):
    """Fences around examples, code for roles."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """Return the text with examples in fences, up to an empty line, and roles as bare names."""
    fenced = EXAMPLE.sub(lambda example: f"```pycon\n{OPTION.sub('', example[0])}\n```", text)
    return ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", fenced)
