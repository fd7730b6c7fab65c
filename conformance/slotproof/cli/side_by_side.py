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
from slotproof.engines.base import demand
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.commands import describe
from slotproof.reports import forms, sides
from slotproof.reports.sides import Difference, Side
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.terminal import Painted, plain, say, say_json

_LABEL = 22
"""Characters of the column that says what differs."""


def compared(
    trace: Trace, engine: EngineSpec, other: EngineSpec, profile: str | None, as_json: bool
) -> int:
    """Print what two builds do with the commands of a trace; return 1 if they differ."""
    recorded = _recorded(trace, Path(other.text)) if other.text.endswith(".json") else None
    played = [_played(engine, trace, profile), recorded or _played(other, trace, profile)]
    try:
        found = sides.differences(*played)
    except forms.ODD as error:
        raise forms.odd(other.text, error) from None
    if as_json:
        say_json(_document(trace, played, found))
    else:
        width = max(80, shutil.get_terminal_size((120, 24)).columns)
        for line in _lines(trace, played, found, width):
            say(line)
    return int(bool(found))


def _recorded(trace: Trace, path: Path) -> Side:
    """Return what a trace with the same commands recorded."""
    known = load_trace(path)
    if (known.commands, known.config, known.seed) != (trace.commands, trace.config, trace.seed):
        raise UsageProblem(f"{path} has other commands, another configuration or another seed")
    if not known.states:
        raise UsageProblem(
            f"{path} has no states to compare: slotproof replay {shlex.quote(str(path))} "
            "--engine E --out FILE makes them"
        )
    return sides.recorded(known)


def _played(spec: EngineSpec, trace: Trace, profile: str | None) -> Side:
    with closing(spec.open()) as engine:
        demand(engine, trace.config, trace.commands)
        return sides.play(engine, trace, profile)


def _document(trace: Trace, played: list[Side], found: list[Difference]) -> dict[str, object]:
    return {
        "status": int(bool(found)),
        "a": played[0].name,
        "b": played[1].name,
        "commands": trace.commands,
        "first": found[0].index + 1 if found else None,
        "differences": [
            {
                "command": each.index + 1,
                "aspects": {name: list(pair) for name, pair in each.aspects.items()},
            }
            for each in found
        ],
    }


def _lines(
    trace: Trace, played: list[Side], found: list[Difference], width: int
) -> Iterator[str | Painted]:
    a, b = played
    count = len(trace.rows)
    if not found:
        yield f"{a.name} and {b.name} do the same in all {count} commands"
        return
    first = found[0].index
    column = (width - _LABEL - 9) // 2
    yield from (f"A  {a.name}", f"B  {b.name}", "")
    yield f"the same after {first} of {count} commands:" if first else "they differ at once:"
    for number, row in enumerate(trace.rows[:first], 1):
        yield f"{number:>3}  {describe(row.command)}"
    yield ""
    by_index = {each.index: each for each in found}
    for index in range(first, count):
        yield f"{index + 1:>3}  {describe(trace.rows[index].command)}"
        each = by_index.get(index)
        for name, pair in (each.aspects if each else {}).items():
            yield from _beside(name, pair, column)
    yield ""
    yield f"they differ from command {first + 1} on: {', '.join(found[0].aspects)}"


def _beside(name: str, pair: tuple[str, str], column: int) -> Iterator[Painted]:
    cells = [[name, *[""] * 50], *(_wrapped(each or "–", column) for each in pair)]
    height = max(len(cells[1]), len(cells[2]))
    for label, left, right in zip_longest(cells[0][:height], cells[1], cells[2], fillvalue=""):
        mark = "≠" if label else " "
        line = f"   {mark} {label[:_LABEL]:<{_LABEL}} {left:<{column}}  {right}"
        yield Painted(line.rstrip(), red=bool(label))


def _wrapped(text: str, column: int) -> list[str]:
    return [
        line
        for part in text.splitlines()
        for line in textwrap.wrap(plain(part), column, subsequent_indent="  ") or [""]
    ]
