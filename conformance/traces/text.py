"""A trace as text: what was violated, the steps with their figures, how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from slotproof.conformance.protocol.commands import describe
from slotproof.conformance.traces.trace import Row, Trace
from slotproof.model.invariants import INVARIANTS

SAID = 12
"""Lines shown of what a driver said when it failed; the trace has more."""
_COLUMNS = ("available", "evictable", "protected", "held", "uncached")


def render(trace: Trace, path: str = "TRACE") -> str:
    """The whole trace, ready to print. ``path`` is the file to name in the replay line.

    >>> from slotproof.conformance.protocol.config import EngineConfig
    >>> rows = [Row({"do": "open", "session": "s1"})]
    >>> trace = Trace("mine 1", "cmd:mine", "reference", EngineConfig(), 0, rows, [], minimal=False)
    >>> render(trace).splitlines()[0]
    'mine 1, 1 commands, nothing violated'
    """
    return "\n".join(_lines(trace, path)) + "\n"


def _lines(trace: Trace, path: str) -> Iterator[str]:
    if trace.violations:
        first = trace.violations[0]
        yield f"{first.clause} violated by {trace.engine}, in {len(trace.rows)} commands"
        yield f"  {INVARIANTS[first.invariant].sentence}" if first.invariant in INVARIANTS else ""
    else:
        yield f"{trace.engine}, {len(trace.rows)} commands, nothing violated"
    yield ""
    config = trace.config
    pools = f"{config.total_tokens} tokens"
    if config.window:
        pools += f", sliding window {config.window} with {config.swa_tokens} tokens"
    yield f"page size {config.page_size}, pool of {pools}, configuration {trace.config_name or '-'}"
    yield ""
    yield from table(trace.rows)
    yield ""
    if trace.violations:
        yield "At the last command:"
        for violation in trace.violations:
            yield f"  {violation}"
            yield from (f"    | {line}" for line in violation.said.splitlines()[-SAID:])
        yield ""
    if trace.set_aside:
        yield f"set aside: {', '.join(trace.set_aside)}"
    short = (
        "no command can be dropped, no number lowered by one" if trace.minimal else "not minimised"
    )
    yield f"seed {trace.seed}, profile {trace.profile}; {short}"
    again = f"again: slotproof replay {shlex.quote(path)} --engine {shlex.quote(trace.spec)}"
    yield again + (" --python ENV/bin/python" if trace.spec == "sglang" else "")


def table(rows: Sequence[Row], before: int = 0) -> Iterator[str]:
    """One line per command, then its transitions and the figures that changed.

    ``before``: commands that came before these and are not shown.
    """
    previous = Row({})
    for number, row in enumerate(rows, before + 1):
        yield f"{number:>3}  {describe(row.command)}"
        if row.transitions:
            yield from _wrapped("       ", row.transitions)
        for name, figures in row.pools.items():
            if figures != previous.pools.get(name):
                yield f"       {name}: {_equation(figures)}"
        for kind in ("slots", "requests"):
            now, then = getattr(row, kind), getattr(previous, kind)
            for key in sorted(now.keys() | then.keys()):
                if now.get(key) != then.get(key):
                    noun = "slot of " if kind == "slots" else ""
                    yield f"       {noun}{key}: {_fields(now.get(key))}"
        previous = row


def _equation(figures: dict[str, int]) -> str:
    terms = [f"{figures[name]} {name}" for name in _COLUMNS if name in figures]
    if "held" not in figures:
        return " + ".join(terms) + f" of {figures['total']} (no check ran)"
    total = sum(figures[name] for name in _COLUMNS)
    sign = "=" if total == figures["total"] else "≠"
    return " + ".join(terms) + f" = {total} {sign} {figures['total']}"


def _fields(view: dict[str, object] | None) -> str:
    if view is None:
        return "gone"
    words = []
    for name, value in view.items():
        if isinstance(value, bool):
            words += [name] if value else []
        elif name in ("kind", "phase"):
            words.append(str(value))
        elif not (name == "row" and value == -1):
            words.append(f"{name}={value}")
    return " ".join(words)


def _wrapped(indent: str, words: list[str], width: int = 96) -> Iterator[str]:
    line = indent
    for word in words:
        if len(line) + len(word) + 1 > width and line.strip():
            yield line.rstrip()
            line = indent
        line += word + " "
    yield line.rstrip()
