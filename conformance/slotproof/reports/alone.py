"""A trace as one file that needs the engine and nothing else: the harness of the findings' own
scripts, the trace's commands as calls of it, and the state after them, printed.

The calls are one to one, or none at all: what the harness does otherwise than the driver is
refused, in a line.
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

_HARNESSES = {name: each.harness for name, each in FAMILIES.items() if each.harness}
_BESIDE = re.compile(r"^(?:sys\.path\.append\(.*|from (?:stubs|rounds) import .*)\n", re.MULTILINE)
"""How the parts of the harness find each other where they are files."""
_PATH = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:)?(?:[\\/]+[\w.@+~-]+){2,}")


def render(view: View) -> str:
    """Return the whole file. Raises :class:`NoForm`."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: View) -> Iterator[str]:
    family, harness = harness_of(view.trace)
    yield f"# {comment(view.trace.identity.title)}: {comment(scrubbed(sentences.headline(view)))}"
    yield "#"
    yield f"# Run it with the Python of an environment that has {family.title}; it needs nothing"
    yield "# else, no GPU and no weights. It prints the state after the last call and ends with 0,"
    yield "# or with a traceback and 2 if a call raises. Made by slotproof from a trace."
    for path in harness.parts:
        if path.name != "rounds.py" or "draft" in harness.made_with(view.trace):
            yield ""
            yield from _part(path)
    yield from ("", "", *finding(view), "", "", "main(finding, judged=False)")


def _part(path: Path) -> Iterator[str]:
    """Yield a file of the harness as a part of this one: its docstring is a comment."""
    text = path.read_text(encoding="utf-8")
    first = ast.parse(text).body[0]
    assert isinstance(first, ast.Expr) and first.end_lineno is not None
    lines = text.splitlines(keepends=True)
    said = "".join(lines[: first.end_lineno]).strip().strip('"')
    yield f"# {'-' * 96}"
    yield from (f"# {line}".rstrip() for line in said.splitlines())
    yield from _BESIDE.sub("", "".join(lines[first.end_lineno :])).rstrip().splitlines()


def finding(view: View) -> Iterator[str]:
    """Yield the function that makes the calls, up to the iteration of the violation."""
    _, harness = harness_of(view.trace)
    told, first = calls(view.trace), view.first
    if first and first.iteration is not None and view.trace.commands[-1]["do"] == "step":
        told[-1] = f"engine.step({first.iteration})"
    given = harness.made_with(view.trace).items()
    yield "def finding():"
    yield f"    engine = Engine({', '.join(f'{name}={literal(value)}' for name, value in given)})"
    yield from (f"    {call}" for call in [*told, "engine.show()"] if call)


def scrubbed(said: str) -> str:
    """Return a text without paths of the machine it was seen on.

    >>> scrubbed("No such file: '/home/me/x/site-packages/sglang/a.py', 1/2 of s1")
    "No such file: 'sglang/a.py', 1/2 of s1"
    """

    def short(found: re.Match[str]) -> str:
        path = found[0].replace("\\", "/")
        return path.partition("-packages/")[2] or path.rpartition("/")[2]

    return _PATH.sub(short, said)


def harness_of(trace: Record) -> tuple[Family, Harness]:
    """The scheduler that a trace can be run on alone, and whose. Raises :class:`NoForm`."""
    name = trace.spec.partition("==")[0]
    harness = _HARNESSES.get(name)
    if harness is None or trace.recorded is not None:
        of = "a log" if trace.recorded is not None else repr(trace.spec)
        raise NoForm(f"it is made for {' and '.join(_HARNESSES)}, and this trace is of {of}")
    if (unlike := harness.unlike(trace)) is not None:
        raise NoForm(unlike)
    if not trace.violations or trace.violations[0].fault not in (None, "death"):
        raise NoForm("nothing is violated by the engine itself")
    if trace.patches:
        raise NoForm(f"bugs were patched when it was found ({', '.join(trace.patches)})")
    return FAMILIES[name], harness


def calls(trace: Record) -> list[str | None]:
    """By command, the call; ``None`` where the engine is told nothing. Raises :class:`NoForm`."""
    _, harness = harness_of(trace)
    return [_call(trace, index, harness) for index in range(len(trace.rows))]


def _call(trace: Record, index: int, harness: Harness) -> str | None:
    name = trace.rows[index].command["do"]
    if (lacks := harness.lacks(trace, index)) is not None:
        raise NoForm(lacks)
    if (sent := harness.sent(trace, index)) is None:
        return None
    if name not in harness.words:
        raise NoForm(f"the engine alone has nothing that does what {name!r} does")
    fields = ("rid", "tokens", "max_new") if name == "submit" else FIELDS[name]
    given = [_literal(sent[field]) for field in fields]
    if name == "submit":
        given += [f"{key}={literal(sent[key])}" for key in ("session", "stop") if sent[key]]
    return f"engine.{name}({', '.join(given)})"


def _literal(value: Any) -> str:
    """A long list of tokens in a few characters.

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
