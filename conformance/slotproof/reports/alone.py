"""A trace as one file that needs the engine and nothing else: the harness of the findings' own
scripts, the trace's commands as calls of it, and what shows the bug.

It ends as those do: with status 1 where the bug is, 0 where it is not, 2 if anything else is wrong.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from slotproof.protocol.family import Harness
from slotproof.reports.asked import Question, catching
from slotproof.reports.calls import calls, harness_of
from slotproof.reports.questions import question
from slotproof.reports.scripted import comment, literal
from slotproof.reports.view import View
from slotproof.traces.record import Record

_BESIDE = re.compile(r"^(?:sys\.path\.append\(.*|from (?:stubs|rounds) import .*)\n", re.MULTILINE)
"""How the parts of the harness find each other where they are files."""


def render(view: View) -> str:
    """The whole file. Raises :class:`NoForm`."""
    family, harness = harness_of(view.trace)
    asked = question(view, harness)
    return "\n".join(_lines(view.trace, family.title, harness, asked)) + "\n"


def _lines(trace: Record, title: str, harness: Harness, asked: Question) -> Iterator[str]:
    yield f"# {comment(trace.engine)}: {comment(asked.title)}"
    yield "#"
    yield f"# Run it with the Python of an environment that has {title}; it needs nothing"
    yield "# else, no GPU and no weights. It ends with 1 where the bug is, 0 where it is not, 2 if"
    yield "# anything else goes wrong. Made by slotproof from a trace."
    for path in harness.parts:
        if path.name != "rounds.py" or "draft" in harness.made_with(trace):
            yield ""
            yield from part(path)
    yield ""
    yield ""
    yield from finding(trace, asked)
    yield ""
    yield ""
    yield "main(finding)"


def part(path: Path) -> Iterator[str]:
    """A file of the harness as a part of this one: its docstring is a comment."""
    text = path.read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    assert isinstance(first, ast.Expr) and first.end_lineno is not None
    lines = text.splitlines(keepends=True)
    said = "".join(lines[: first.end_lineno]).strip().strip('"')
    yield f"# {'-' * 96}"
    yield from (f"# {line}".rstrip() for line in said.splitlines())
    yield from _BESIDE.sub("", "".join(lines[first.end_lineno :])).rstrip().splitlines()


def finding(trace: Record, asked: Question) -> Iterator[str]:
    """The function that runs the commands and says what is wrong: what there is to read."""
    _, harness = harness_of(trace)
    told = calls(trace)
    last = trace.rows[-1].command
    if asked.iteration is not None and last["do"] == "step":
        told[-1] = f"engine.step({asked.iteration})"
    given = harness.made_with(trace).items()
    yield "def finding():"
    yield f"    engine = Engine({', '.join(f'{name}={literal(value)}' for name, value in given)})"
    steps = [number for number, row in enumerate(trace.rows[:-1]) if row.command["do"] == "step"]
    guarded = (steps[-1] + 1 if steps else 0) if asked.raises else len(told)
    yield from (f"    {call}" for call in told[:guarded] if call)
    if asked.raises:
        yield "    try:"
        yield from (f"        {call}" for call in told[guarded:] if call)
        yield from (f"    {line}" for line in catching(asked.raises))
    yield from (f"    {line}" for line in asked.look)
