"""Commands and configurations as calls of a scheduler alone: the harness of a finding's own script.

One to one, or not at all: what the harness does otherwise than the driver is refused, in a line.
"""

from __future__ import annotations

from typing import Any

from slotproof.environments.families import FAMILIES
from slotproof.protocol.commands import FIELDS
from slotproof.protocol.family import Family, Harness
from slotproof.reports.scripted import literal
from slotproof.traces.itf import NoForm
from slotproof.traces.record import Record

_HARNESSES = {name: each.harness for name, each in FAMILIES.items() if each.harness}


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
    if trace.mends:
        raise NoForm(f"bugs were patched when it was found ({', '.join(trace.mends)})")
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
