"""``slotproof diff``: the same commands on two builds, side by side."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import ENGINE, LONGEST, SEARCH, JsonOption, ProfileOption, known_profile
from slotproof.engines.base import demand
from slotproof.engines.process import START_TIMEOUT
from slotproof.engines.registry import EngineSpec, mends_for
from slotproof.protocol.commands import describe
from slotproof.reports import forms, sides
from slotproof.reports.sides import Difference, Side
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.terminal import Painted, plain, say, say_json

_LABEL = 22
"""Characters of the column that says what differs."""


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="An --engine, or a trace: what was recorded in it.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            help="The .itf.json file with the commands, if A and B have none.",
            metavar="FILE",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    python_a: Annotated[
        Path | None,
        typer.Option(
            "--python-a",
            help="The Python of A's environment (sglang).",
            metavar="FILE",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    python_b: Annotated[
        Path | None,
        typer.Option(
            "--python-b",
            help="The Python of B's environment (sglang).",
            metavar="FILE",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    step_timeout: Annotated[
        float,
        typer.Option(
            "--step-timeout",
            min=0.01,
            max=LONGEST,
            help="Seconds for one iteration.",
            metavar="SECONDS",
            rich_help_panel=ENGINE,
        ),
    ] = 30.0,
    start_timeout: Annotated[
        float,
        typer.Option(
            "--start-timeout",
            min=0.01,
            max=LONGEST,
            help="Seconds a driver has to say hello.",
            metavar="SECONDS",
            rich_help_panel=ENGINE,
        ),
    ] = START_TIMEOUT,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> int:
    """The same commands on two builds: status 1 if they differ, 0 if not."""
    given = [load_trace(Path(each)) if _recorded(each) else None for each in (a, b)]
    commands = _commands([load_trace(trace) if trace is not None else None, *given])
    choices = known_profile(profile) or known_profile(commands.chosen_profile)
    played = []
    for text, python, known in zip((a, b), (python_a, python_b), given, strict=True):
        if known is not None and not known.states:
            raise UsageProblem(
                f"{text} has no states to compare: slotproof replay {shlex.quote(text)} --engine E "
                "--out FILE makes them"
            )
        if known is not None:
            played.append(sides.recorded(known))
        else:
            mends = mends_for(text, commands.mends)
            spec = EngineSpec(text, python, "cpu", step_timeout, start_timeout, mends)
            played.append(_play(spec, commands, choices))
    try:
        found = sides.differences(*played)
    except forms.ODD as error:
        raise forms.odd(" and ".join(each for each in (a, b) if _recorded(each)), error) from None
    if as_json:
        say_json(_document(commands, played, found))
    else:
        width = max(80, shutil.get_terminal_size((120, 24)).columns)
        for line in _lines(commands, played, found, width):
            say(line)
    return 1 if found else 0


def _recorded(side: str) -> bool:
    """Whether a side is a trace, not an engine."""
    return side.endswith(".json")


def _commands(traces: list[Trace | None]) -> Trace:
    """The one that has the commands; all that there are have to agree."""
    there = [each for each in traces if each is not None]
    if not there:
        raise UsageProblem("which commands? name a trace: slotproof diff A B --trace FILE.itf.json")
    first = there[0]
    for other in there[1:]:
        if (other.commands, other.config, other.seed) != (first.commands, first.config, first.seed):
            raise UsageProblem(
                "the traces have different commands, configurations or seeds: "
                "replay one on both builds (slotproof replay --engine E --out FILE)"
            )
    return first


def _play(spec: EngineSpec, trace: Trace, profile: str | None) -> Side:
    engine = spec.open()
    try:
        demand(engine, trace.config, trace.commands)
        return sides.play(engine, trace, profile)
    finally:
        engine.close()


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
    yield f"A  {a.name}"
    yield f"B  {b.name}"
    yield ""
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
