"""A trace as text: the violation, a table of the commands with the counts, and the replay command.

A trace is untrusted, so the template escapes every line with ``plain``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from textwrap import TextWrapper

from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.figures import in_a_line
from slotproof.lockstep.observation import TERMS, Violation, causes_first
from slotproof.protocol.commands import describe
from slotproof.reports.crash import crashed_at
from slotproof.reports.equation import sum_of
from slotproof.reports.localisation import suspects
from slotproof.reports.sentences import sentence
from slotproof.reports.view import View
from slotproof.support.markup import templates
from slotproof.support.terminal import Painted
from slotproof.traces.frames import ACTORS
from slotproof.traces.record import Record, Row

SAID = 12
"""Maximum number of output lines to show from a failed driver. The trace file has more lines."""
_LINES = TextWrapper(95, " " * 7, " " * 7, break_long_words=False, break_on_hyphens=False)


def render(trace: Record, path: str = "TRACE", spec: EngineSpec | None = None) -> str:
    """Return the whole text. Its replay command names the file ``path`` and the options of
    ``spec``.

    >>> from slotproof.protocol.config import EngineConfig
    >>> rows = [Row({"do": "open", "session": "s1"})]
    >>> given = "mine 1", "cmd:mine", "reference", EngineConfig(), 0, rows, []
    >>> trace = Record(*given, minimal=False)
    >>> render(trace).splitlines()[0]
    'mine 1, 1 command, nothing violated'
    """
    first = trace.violations[0] if trace.violations else None
    template = templates("reports").get_template("counterexample.txt.jinja")
    return template.render(
        trace=trace,
        recorded=trace.recorded,
        first=first,
        crashed_at=crashed_at(trace, first) if first else "",
        sentence=sentence(first) if first else "",
        in_all=in_all(trace),
        table=table(trace.rows, trace.recorded.before if trace.recorded else 0),
        violations=causes_first(trace.violations),
        as_if=as_if(trace),
        suspects=suspects(View(trace)) if first else (),
        again=again(trace, path, spec),
        commands=commands,
        last_said=last_said,
        LATER=LATER,
    )


def painted(text: str) -> Iterator[Painted]:
    """Yield the rendered text by line, with highlights for a terminal."""
    head, *rest = text.removesuffix("\n").split("\n")
    yield Painted(head, bold=True)
    for line in rest:
        wrong = "≠" in line or line.endswith(", a term < 0") or line.startswith("  INV-")
        numbered = line[:5].strip().isdigit()
        dim = line.startswith("       T-") and not wrong
        yield Painted(line, red=wrong, bold=numbered and not wrong, dim=dim)


def commands(count: int) -> str:
    """Return a number of commands in words.

    >>> commands(1), commands(5)
    ('1 command', '5 commands')
    """
    return "1 command" if count == 1 else f"{count} commands"


def last_said(violation: Violation) -> list[str]:
    """Return the last lines of the driver's output or traceback."""
    return violation.said.splitlines()[-SAID:]


def again(trace: Record, path: str, spec: EngineSpec | None = None) -> str:
    """Return the command that replays the trace. ``ENV`` stands for an unknown environment."""
    engine, options = trace.found_on, spec.options if spec else ""
    if engine in FAMILIES and trace.build is None:
        engine += "@ENV/bin/python"
    line = f"slotproof replay {shlex.quote(path)} --engine {shlex.quote(engine)}"
    return f"{line} {options}".rstrip()


def in_all(trace: Record) -> str:
    """Return the number of commands in words, or the place in the log for a trace from a log."""
    if trace.recorded is not None:
        return f"at {trace.recorded.where}" if trace.violations else f"up to {trace.recorded.where}"
    return f"in {commands(len(trace.rows))}"


LATER = (
    "Findings later in the log, each kind once. The spec continued from the engine's state, so the "
    "finding above may have caused them."
)


def as_if(trace: Record) -> str:
    """Return the heading of the explanations."""
    if not trace.explained:
        return "No single change of the spec explains the finding."
    return "The engine behaves as if:"


def table(rows: Sequence[Row], before: int = 0, previous: Row | None = None) -> Iterator[str]:
    """Yield a line per command, followed by lines with its transitions and the changed values.

    ``before`` is the number of earlier commands, not shown. ``previous`` is the last earlier row.
    """
    previous = previous or Row({})
    for number, row in enumerate(rows, before + 1):
        yield f"{number:>3}  {describe(row.command)}"
        if row.transitions:
            yield from _LINES.wrap(" ".join(row.transitions))
        for name, figures in row.pools.items():
            if figures != previous.pools.get(name):
                yield f"       {name}: {_equation(figures)}"
        for frame in row.frames[-1:]:
            for name, figures in frame.pools.items():
                share = frame.shares.get(name)
                # The terms of the engine's own check differ from the terms by ownership.
                if share and any(figures.get(key) not in (None, share[key]) for key in share):
                    yield f"       {name}, by ownership: {_equation(figures | share)}"
        for kind in ("slots", "requests"):
            now, then = getattr(row, kind), getattr(previous, kind)
            for key in sorted(now.keys() | then.keys()):
                if now.get(key) != then.get(key):
                    shown = in_a_line(now[key]) if key in now else "gone"
                    yield f"       {ACTORS[kind]}{key}: {shown}"
        previous = row


def _equation(figures: dict[str, int]) -> str:
    terms = " + ".join(f"{figures[name]} {name}" for name in TERMS if name in figures)
    if (checked := sum_of(figures)) is None:
        return f"{terms} of {figures['total']} (no check ran)"
    return f"{terms} {checked.result}"
