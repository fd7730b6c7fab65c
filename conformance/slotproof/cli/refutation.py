"""A refuted obligation as a step of the spec: a trace, and a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slotproof.traces.spec_trace import ASSUMED, checked, spec_document
from slotproof_model.evaluation.evaluate import compiled
from slotproof_model.proofs.obligations import Result, tasks
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, Sort, Var, lift, substitute, walk
from slotproof_model.spec.whole import Spec

_SHOWN = [var.name for var in (*state.SEEN, *state.PAGE, *state.LINE)]


def trace(result: Result, spec: Spec) -> dict[str, Any]:
    """Return the refuted step as an ITF document of two states. The page size is a number."""
    model, size = result.model, result.page_size or 1
    id_ = result.transition.partition(" [")[0]
    task = next(task for task in tasks(spec, id_) if task.name == result.transition)
    before = {name: model[name] for name in _SHOWN}
    after = {name: _value(expr, model, size) for name, expr in task.after.items()}
    params = {
        name.removeprefix("param."): value
        for name, value in model.items()
        if name.startswith("param.") and not name.startswith("param.page_")
    }
    return spec_document(
        _SHOWN,
        [(ASSUMED, {}, before), (id_, params, {**before, **after})],
        mutant=f"at {result.transition}",
        again=f"slotproof prove --transition {id_} --page-size {size}",
        page_size=size,
        violated=[result.clause],
    )


def table(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table: the clause's variables and the changed ones, before and after."""
    step = checked(document).steps[-1]
    yield f"    {step.transition} {step.params}".rstrip()
    rows = [("variable", "before", "after", "meaning"), *step.changed, *step.read]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True))
        yield f"      {'  '.join(cells)}  {row[3]}".rstrip()


def _value(expr: Expr, model: dict[str, int], page_size: int) -> int:
    """Return the value of a formula in a model."""
    values = {
        var.name: lift(bool(model[var.name]) if var.sort is Sort.BOOL else model[var.name])
        for var in walk(expr)
        if isinstance(var, Var)
    }
    return int(compiled(substitute(expr, values), page_size)([], {}))
