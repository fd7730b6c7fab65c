"""A counterexample: the commands, the engine and the results."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, core_schema

from slotproof.reports import pages, text
from slotproof.reports.view import View
from slotproof.support.terminal import plain
from slotproof.traces import itf
from slotproof.traces.record import Record


class Trace(Record):
    """A trace. ``str`` gives the trace's text, and a notebook shows its HTML page.

    ``engine`` is the name and version reported by the engine. ``spec`` is the ``--engine``
    argument. ``rows`` are the commands with their results.

    >>> from slotproof import Scenario
    >>> with Scenario("reference") as engine:
    ...     _ = engine.open("s1"), engine.step()
    >>> engine.trace.commands
    [{'do': 'open', 'session': 's1'}, {'do': 'step', 'n': 1}]
    """

    def __str__(self) -> str:
        return text.render(self)

    def __repr__(self) -> str:
        clause = self.violations[0].clause if self.violations else "nothing"
        return plain(f"<Trace: {clause} violated by {self.identity.title}, {text.in_all(self)}>")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> CoreSchema:
        """Return a schema that writes a trace in JSON as its ITF document."""
        written = core_schema.plain_serializer_function_ser_schema(itf.to_itf)
        return core_schema.no_info_plain_validator_function(from_itf, serialization=written)

    def _repr_html_(self) -> str:
        """Return the HTML page in an iframe, isolated from the notebook's styles and scripts."""
        page = escape(pages.html(View(self)))
        style = "width: 100%; height: 48em; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def load_trace(path: str | Path, to_run: bool = True) -> Trace:
    """Read a trace from a file. Raises :class:`BadTrace`, a ``ValueError``, with one line that
    names the file. With ``to_run``, a trace from a log is refused, because it can't be run.

    >>> load_trace("nowhere.itf.json")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    slotproof.traces.itf.BadTrace: nowhere.itf.json: No such file or directory; ...
    """
    return Trace(**vars(itf.load(path, to_run)))


def from_itf(data: Any) -> Trace:
    """Return the trace of an ITF document. Raises :class:`~slotproof.traces.itf.BadTrace`."""
    return Trace(**vars(itf.from_itf(data)))
