"""A trace as one script that runs the engine alone, without slotproof. The script contains a small
harness and one call for each command of the trace. The script prints the final state.

A trace is refused, with a reason, if the harness would carry out a command of the trace in another
way than the driver.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.environments.families import FAMILIES
from slotproof.protocol.commands import FIELDS
from slotproof.protocol.family import Family, Harness
from slotproof.reports import sentences
from slotproof.reports.scripted import comment, literal
from slotproof.reports.view import View
from slotproof.traces.itf import NoForm
from slotproof.traces.record import Record

_HARNESSES = {name: family.harness for name, family in FAMILIES.items() if family.harness}
_BESIDE = re.compile(r"^(?:sys\.path\.append\(.*|from (?:stubs|rounds) import .*)\n", re.MULTILINE)
"""Import lines that the harness needs only while its parts are separate files."""
_PATH = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:)?(?:[\\/]+[\w.@+~-]+){2,}")


def render(view: View) -> str:
    """Return the whole script. Raises :class:`NoForm`."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: View) -> Iterator[str]:
    family, harness = harness_of(view.trace)
    yield f"# {comment(view.trace.identity.title)}: {comment(scrubbed(sentences.headline(view)))}"
    yield "#"
    yield f"# Run it with the Python of an environment with {family.title}. It needs no GPU and no"
    yield "# weights. It prints the state after the last call and ends with status 0, or with a"
    yield "# traceback and status 2 if a call raises. Made by slotproof from a trace."
    for path in harness.parts:
        if path.name != "rounds.py" or "draft" in harness.made_with(view.trace):
            yield ""
            yield from _part(path)
    yield from ("", "", *finding(view), "", "", "main(finding, judged=False)")


def _part(path: Path) -> Iterator[str]:
    """Yield a harness file's lines for the script. The file's docstring becomes a comment."""
    text = path.read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    assert isinstance(first, ast.Expr) and first.end_lineno is not None
    lines = text.splitlines(keepends=True)
    said = "".join(lines[: first.end_lineno]).strip().strip('"')
    yield f"# {'-' * 96}"
    yield from (f"# {line}".rstrip() for line in said.splitlines())
    yield from _BESIDE.sub("", "".join(lines[first.end_lineno :])).rstrip().splitlines()


def finding(view: View) -> Iterator[str]:
    """Yield the lines of the script's function that makes the calls, up to the violation."""
    _, harness = harness_of(view.trace)
    told, first = calls(view.trace), view.first
    if first and first.iteration is not None and view.trace.commands[-1]["do"] == "step":
        told[-1] = f"engine.step({first.iteration})"
    given = harness.made_with(view.trace).items()
    yield "def finding():"
    yield f"    engine = Engine({', '.join(f'{name}={literal(value)}' for name, value in given)})"
    yield from (f"    {call}" for call in [*told, "engine.show()"] if call)


def scrubbed(said: str) -> str:
    """Return the text, in which this machine's file paths are shortened.

    >>> scrubbed("No such file: '/home/me/x/site-packages/sglang/a.py', 1/2 of s1")
    "No such file: 'sglang/a.py', 1/2 of s1"
    """

    def short(match: re.Match[str]) -> str:
        path = match[0].replace("\\", "/")
        return path.partition("-packages/")[2] or path.rpartition("/")[2]

    return _PATH.sub(short, said)


def harness_of(trace: Record) -> tuple[Family, Harness]:
    """Return the engine family and its harness for a trace. Raises :class:`NoForm`."""
    name = trace.spec.partition("==")[0]
    if (harness := _HARNESSES.get(name)) is None or trace.recorded is not None:
        of = "a log" if trace.recorded is not None else repr(trace.spec)
        raise NoForm(f"only traces of {' and '.join(_HARNESSES)} have scripts; this one is of {of}")
    if (unlike := harness.unlike(trace)) is not None:
        raise NoForm(unlike)
    if not trace.violations or trace.violations[0].fault not in (None, "death"):
        raise NoForm("the engine itself violates no clause")
    if trace.patches:
        raise NoForm(f"the trace was found with patches ({', '.join(trace.patches)})")
    return FAMILIES[name], harness


def calls(trace: Record) -> list[str | None]:
    """Return each command's call, or None if the command has no call. Raises :class:`NoForm`."""
    _, harness = harness_of(trace)
    return [_call(trace, index, harness) for index in range(len(trace.rows))]


def _call(trace: Record, index: int, harness: Harness) -> str | None:
    name = trace.rows[index].command["do"]
    if (lacks := harness.lacks(trace, index)) is not None:
        raise NoForm(lacks)
    if (sent := harness.sent(trace, index)) is None:
        return None
    if name not in harness.words:
        raise NoForm(f"the engine alone has no call for {name!r}")
    fields = ("rid", "tokens", "max_new") if name == "submit" else FIELDS[name]
    given = [_literal(sent[field]) for field in fields]
    if name == "submit":
        given += [f"{key}={literal(sent[key])}" for key in ("session", "stop") if sent[key]]
    return f"engine.{name}({', '.join(given)})"


def _literal(value: Any) -> str:
    """Return the value as a Python literal. A long list of tokens is abbreviated.

    >>> _literal([3] * 9), _literal(list(range(1, 10))), _literal([1, 3])
    ('[3] * 9', 'list(range(1, 10))', '[1, 3]')
    """
    if isinstance(value, list) and len(value) > 8:
        first, end = value[0], value[0] + len(value)
        if value == [first] * len(value):
            return f"[{first}] * {len(value)}"
        if value == list(range(first, end)):
            return f"list(range({first}, {end}))"
    return literal(value)
