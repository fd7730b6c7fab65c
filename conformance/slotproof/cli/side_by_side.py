"""Two builds side by side: ``slotproof replay TRACE --engine A --against B``."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer
from slotproof.engines.base import demand
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.commands import describe
from slotproof.reports import forms, sides
from slotproof.reports.sides import Difference, Side
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.terminal import Painted, plain

_LABEL = 22
"""Width of the column of aspects, in characters."""


def compared(
    trace: Trace, engine: EngineSpec, other: EngineSpec, profile: str | None, as_json: bool
) -> int:
    """Print the behavior of two builds on a trace's commands. Return 1 if the builds differ."""
    recorded = _recorded(trace, Path(other.text)) if other.text.endswith(".json") else None
    played = []
    for spec in (engine,) if recorded else (engine, other):
        with closing(spec.open()) as under_test:
            demand(under_test, trace.config, trace.commands)
            played.append(sides.play(under_test, trace, profile))
    played += [recorded] if recorded else []
    try:
        differences = sides.differences(*played)
    except forms.ODD as error:
        raise forms.odd(other.text, error) from None
    document = {
        "status": int(bool(differences)),
        "a": played[0].name,
        "b": played[1].name,
        "commands": trace.commands,
        "first": differences[0].index + 1 if differences else None,
        "differences": [{"command": at.index + 1, "aspects": at.aspects} for at in differences],
    }
    return answer(document, _lines(trace, played, differences), as_json)


def _recorded(trace: Trace, path: Path) -> Side:
    """Return the states recorded in a second trace. Both traces must have the same commands."""
    known = load_trace(path)
    if (known.commands, known.config, known.seed) != (trace.commands, trace.config, trace.seed):
        raise UsageProblem(f"{path} differs from the trace in commands, configuration or seed")
    if not known.states:
        raise UsageProblem(
            f"{path} has no states to compare: slotproof replay {shlex.quote(str(path))} "
            "--engine E --out FILE writes them"
        )
    return sides.recorded(known)


def _lines(trace: Trace, played: list[Side], differ: list[Difference]) -> Iterator[str | Painted]:
    a, b = played
    count = len(trace.rows)
    if not differ:
        yield f"{a.name} and {b.name} behave alike in all {count} commands"
        return
    first = differ[0].index
    column = (max(80, shutil.get_terminal_size((120, 24)).columns) - _LABEL - 9) // 2
    yield from (f"A  {a.name}", f"B  {b.name}", "")
    yield f"alike in the first {first} of {count} commands:" if first else "builds differ at once:"
    for number, row in enumerate(trace.rows[:first], 1):
        yield f"{number:>3}  {describe(row.command)}"
    yield ""
    aspects = {difference.index: difference.aspects for difference in differ}
    for index in range(first, count):
        yield f"{index + 1:>3}  {describe(trace.rows[index].command)}"
        for name, pair in aspects.get(index, {}).items():
            yield from _beside(name, pair, column)
    yield ""
    yield f"the builds first differ in command {first + 1}: {', '.join(differ[0].aspects)}"


def _beside(name: str, pair: tuple[str, str], column: int) -> Iterator[Painted]:
    cells = [
        [
            line
            for part in (text or "–").splitlines()
            for line in textwrap.wrap(plain(part), column, subsequent_indent="  ") or [""]
        ]
        for text in pair
    ]
    label = f"≠ {name[:_LABEL]}"
    for left, right in zip_longest(*cells, fillvalue=""):
        line = f"   {label:<{_LABEL + 2}} {left:<{column}}  {right}"
        yield Painted(line.rstrip(), red=bool(label))
        label = ""
