"""What the page of bounds shows: each with the reason that is written below it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from slotproof.conformance import bounds


@dataclass(frozen=True)
class Limit:
    """A bound on what a file or a driver may ask for."""

    name: str
    value: str
    reason: str


def limits() -> Iterator[Limit]:
    """Every bound, in the order of its module, with the reason that is written below it.

    >>> next(limits()).name
    'LINE_BYTES'
    """
    body = ast.parse(inspect.getsource(bounds)).body
    for statement, below in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr):
            names = [
                node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)
            ]
            values = [f"{getattr(bounds, name):,}".replace(",", " ") for name in names]
            reason = " ".join(str(ast.literal_eval(below.value)).split()).replace("``", "`")
            yield Limit("`, `".join(names), ", ".join(values), reason)
