"""A counterexample: what was run, on what, and what it showed."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from slotproof.lockstep.referee import Iteration
from slotproof.traces import html, text
from slotproof.traces.frames import frame_of
from slotproof.traces.record import Record, Row
from slotproof.traces.view import View

HEIGHT = "48em"
"""Of the page in a notebook."""


class Trace(Record):
    """A record that shows itself, in a notebook as its page.

    ``engine`` is the name and version that the engine gave, ``spec`` the ``--engine`` argument it
    was found with; ``rows`` are the commands, with what each showed.

    >>> from slotproof import Scenario
    >>> with Scenario("reference") as engine:
    ...     _ = engine.open("s1"), engine.step()
    >>> engine.trace.commands
    [{'do': 'open', 'session': 's1'}, {'do': 'step', 'n': 1}]
    """

    def __str__(self) -> str:
        return text.render(self)

    def _repr_html_(self) -> str:
        """The page, in a frame of its own: its style and its script stay in it."""
        page = escape(html.render(View(self)))
        style = f"width: 100%; height: {HEIGHT}; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def row_of(entry: Iteration, last: Row) -> Row:
    """A command and what it led to; ``last`` is the row before it."""
    frames = [frame_of(seen) for seen in entry.observations]
    transitions = [event["transition"] for frame in frames for event in frame.events]
    shown = frames[-1] if frames else last
    return Row(
        entry.command, transitions, shown.pools, shown.sessions, shown.slots, shown.requests, frames
    )


def rows_of(log: Iterable[Iteration]) -> list[Row]:
    """The rows of what a referee logged."""
    result: list[Row] = []
    for entry in log:
        result.append(row_of(entry, result[-1] if result else Row(entry.command)))
    return result
