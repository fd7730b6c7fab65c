"""The bounds of ``bounds.py``, each with the reason that is written below it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from slotproof.support import bounds


def limits() -> Iterator[tuple[str, str, str]]:
    """Name, value and reason of every bound, in the order of the module.

    >>> next(limits())[:2]
    ('LINE_BYTES', '8 388 608')
    """
    body = ast.parse(inspect.getsource(bounds)).body
    for statement, below in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr):
            names = [
                node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)
            ]
            values = [f"{getattr(bounds, name):,}".replace(",", " ") for name in names]
            reason = " ".join(str(ast.literal_eval(below.value)).split()).replace("``", "`")
            yield "`, `".join(names), ", ".join(values), reason
