"""Docstrings as Markdown, for the page of the Python API.

They are written for a reader of the source: examples begin with ``>>>``, which Markdown takes
for a quotation, and names of other things are Sphinx roles.
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
    """Each example, up to the next empty line, in a fence; each role as the last name in it."""
    fenced = EXAMPLE.sub(lambda found: f"```pycon\n{OPTION.sub('', found[0])}\n```", text)
    return ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", fenced)
