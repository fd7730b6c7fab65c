"""A trace as a Mermaid sequence diagram: GitHub draws it where a fence says ``mermaid``."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.reports import sentences
from slotproof.reports.sequence import LANES
from slotproof.reports.step import Step
from slotproof.reports.view import View
from slotproof.support.terminal import plain

MOST = 120
"""Characters of a label at most."""


def render(view: View) -> str:
    """The whole diagram."""
    return "\n".join(["sequenceDiagram", *(f"    {line}" for line in _lines(view))]) + "\n"


def _lines(view: View) -> Iterator[str]:
    for lane in LANES:
        yield f"participant {lane}"
    if not view.trace.states:
        yield "Note over client,tree: the trace has no states: replay --out FILE makes them"
    for step in view.steps:
        if not step.repeats:
            yield from _step(step)
    if view.first is not None:
        yield f"Note over client,tree: ✗ {label(sentences.headline(view))}"
        for each in view.trace.violations:
            yield f"Note over client,tree: {label(str(each))}"


def _step(step: Step) -> Iterator[str]:
    yield f"client->>scheduler: {step.label}. {label(step.says)}"
    for arrow in step.arrows:
        mark = "✗ " if arrow.bad else ""
        text = " ".join(filter(None, (arrow.label, arrow.note)))
        line = "-->>" if arrow.target == "client" else "->>"
        yield f"{arrow.source}{line}{arrow.target}: {mark}{label(text)}"
    if step.ran and not step.frame.carried:
        for pool in step.pools:
            for line in reversed(pool.lines):
                yield f"Note over pool,tree: {label(f'{pool.name}: {line}')}"
    if step.like_it:
        yield f"Note over client,tree: and {step.like_it} more like it"


def label(text: str) -> str:
    """Text that Mermaid takes as text: no character that ends a line or starts markup.

    >>> label("a;b<script>#")
    'a#59;b#lt;script#gt;#35;'
    """
    line = plain(" ".join(text.split()))
    line = line if len(line) <= MOST else line[: MOST - 1] + "…"
    codes = {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "%": "#37;", "&": "#amp;"}
    codes |= {'"': "#quot;", "`": "#96;", "{": "#123;", "}": "#125;", "$": "#36;"}
    return "".join(codes.get(char, char) for char in line)
