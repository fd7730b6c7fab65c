"""A trace as a pytest file of literal calls. The test fails on a build with the bug.

The trace's engine is in the file only as a string. By itself the test starts only the reference
engine or a mutant. To run another engine, the user names the engine in ``SLOTPROOF_ENGINE``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from slotproof.engines.registry import is_ours
from slotproof.environments.families import FIRST
from slotproof.protocol.commands import FIELDS
from slotproof.support.markup import templates
from slotproof.support.terminal import plain
from slotproof.traces.itf import NoForm
from slotproof.traces.record import Record


def render(trace: Record) -> str:
    """Return the file's text. The trace's data appears only in literals and comments. Raises
    :class:`NoForm`."""
    if trace.recorded is not None:
        raise NoForm("the commands of a log can't be run again")
    environment = templates("reports")
    environment.filters |= {"call": _call, "comment": comment, "literal": literal}
    return environment.get_template("counterexample.py.jinja").render(
        trace=trace, name=name_of(trace), ours=is_ours(trace.found_on), first=FIRST.name
    )


def name_of(trace: Record) -> str:
    """Return the test's name, made from the broken clause.

    ``INV-SUM-FULL.equation`` gives ``test_inv_sum_full_equation``.
    """
    clause = trace.violations[0].clause if trace.violations else "nothing_is_violated"
    return "test_" + re.sub(r"[^a-z0-9]+", "_", clause.lower()).strip("_")[:80]


def _call(command: dict[str, Any]) -> str:
    name = {"continue": "continue_"}.get(command["do"], command["do"])
    given = {key: command[key] for key in FIELDS[command["do"]]}
    if command["do"] == "submit":
        given = {"rid": given.pop("rid"), **given}
        given = {key: value for key, value in given.items() if not (key == "stop" and not value)}
    return f"{name}({', '.join(f'{key}={literal(value)}' for key, value in given.items())})"


def literal(value: Any) -> str:
    r"""Return the value as a Python literal.

    >>> literal('a"b'), literal("s1"), literal([1, 2]), literal(None)
    ('\'a"b\'', '"s1"', '[1, 2]', 'None')
    """
    if isinstance(value, str):
        simple = value.isascii() and value.isprintable() and not set(value) & {'"', "\\"}
        return json.dumps(value) if simple else ascii(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    raise TypeError(f"{value!r} can't be written as a literal of a command")


def comment(text: str) -> str:
    """Return the text as one line that is safe in a comment."""
    return plain(" ".join(text.split()))
