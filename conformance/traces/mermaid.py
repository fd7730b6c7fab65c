"""A trace as a Mermaid sequence diagram: GitHub draws it where a fence says ``mermaid``."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.terminal import plain
from slotproof.conformance.traces import words
from slotproof.conformance.traces.beats import Beat, Pool
from slotproof.conformance.traces.lanes import LANES
from slotproof.conformance.traces.story import Story

MOST = 120
"""Characters of a label at most."""


def render(story: Story) -> str:
    """The whole diagram."""
    return "\n".join(["sequenceDiagram", *(f"    {line}" for line in _lines(story))]) + "\n"


def _lines(story: Story) -> Iterator[str]:
    for lane in LANES:
        yield f"participant {lane}"
    for beat in story.beats:
        if not beat.repeats:
            yield from _beat(beat)
    if story.first is not None:
        yield f"Note over client,tree: ✗ {label(words.headline(story))}"
        for each in story.trace.violations:
            yield f"Note over client,tree: {label(str(each))}"


def _beat(beat: Beat) -> Iterator[str]:
    yield f"client->>scheduler: {beat.label}. {label(beat.says)}"
    for arrow in beat.arrows:
        mark = "✗ " if arrow.bad else ""
        text = " ".join(filter(None, (arrow.label, arrow.note)))
        line = "-->>" if arrow.target == "client" else "->>"
        yield f"{arrow.source}{line}{arrow.target}: {mark}{label(text)}"
    if beat.ran:
        for pool in beat.pools:
            yield from _pool(pool)
    if beat.like_it:
        yield f"Note over client,tree: and {beat.like_it} more like it"


def _pool(pool: Pool) -> Iterator[str]:
    owned, reported = words.equation(pool, "ownership"), words.equation(pool, "check")
    if owned and owned != reported:
        yield f"Note over pool,tree: {label(f'{pool.name}: {owned} (by ownership)')}"
    if reported:
        said = " (the engine's check)" if owned and owned != reported else ""
        yield f"Note over pool,tree: {label(f'{pool.name}: {reported}{said}')}"


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
