"""A refuted obligation as a step of the spec: a table for the terminal, and a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.traces.spec_trace import spec_document
from slotproof_model.evaluation.evaluate import compile_step
from slotproof_model.evaluation.layout import LAYOUT
from slotproof_model.proofs.obligations import Result
from slotproof_model.spec import state
from slotproof_model.spec.expr import Sort, variables
from slotproof_model.spec.whole import Spec
from slotproof_model.text.idioms import words_of
from slotproof_model.text.words import WORDS

_FLAGS = {var.name for var in (*state.SEEN, *state.PAGE) if var.sort is Sort.BOOL}
_SHOWN = [var.name for var in (*state.SEEN, *state.PAGE, *state.LINE)]


def values(result: Result, spec: Spec) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Return a refuted step's parameters, and the values before and after it.

    Without a concrete page size, there are no values after the step. Pages and rows have none.
    """
    model = result.model
    params = {
        name.removeprefix("param."): value
        for name, value in model.items()
        if name.startswith("param.") and not name.startswith("param.page_")
    }
    step = spec.transitions.get(result.transition.partition(" [")[0])
    before = {name: model[name] for name in _SHOWN if name in model}
    if step is None or result.page_size is None or not before.keys() >= set(LAYOUT):
        return params, before, {}
    vector = [before[name] for name in LAYOUT]
    params = {name: params.get(name, 0) for name in step.names}
    compile_step(step, result.page_size).apply(vector, params)
    return params, before, dict(zip(LAYOUT, map(int, vector), strict=True))


def table(result: Result, spec: Spec) -> Iterator[str]:
    """Yield the lines of a table: the clause's variables and the changed ones, before and after."""
    params, before, after = values(result, spec)
    said = " ".join(f"{name}={value}" for name, value in params.items())
    yield f"    {result.transition.partition(' [')[0]} {said}".rstrip()
    wanted = _read(result, spec)
    rows = [
        (name, _word(name, value), _word(name, after[name]) if name in after else "", WORDS[name])
        for name, value in before.items()
        if name in wanted or after.get(name, value) != value
    ]
    heads = ("variable", "before", "after", "meaning")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(3)]
    for row in (heads, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True))
        yield f"      {'  '.join(cells)}  {row[3]}".rstrip()


def trace(result: Result, spec: Spec) -> dict[str, Any]:
    """Return the refuted step as an ITF document of two states."""
    params, before, after = values(result, spec)
    config = {n.removeprefix("config."): v for n, v in before.items() if n.startswith("config.")}
    names = [name for name in before if not name.startswith(("frame.", "config."))]
    clause = result.clause
    return spec_document(
        names,
        [("init", {}, before), (result.transition.partition(" [")[0], params, {**before, **after})],
        mutant=result.name,
        again=f"slotproof prove --transition {result.transition.partition(' [')[0]}",
        page_size=result.page_size or 1,
        config=config,
        violated=[clause],
    )


def _read(result: Result, spec: Spec) -> set[str]:
    """Return the variables that the refuted clause reads."""
    id_, _, name = result.clause.partition(".")
    known = spec.invariants.get(id_)
    clause = None if known is None else known.conjuncts.get(name)
    if clause is not None:
        return {variable.rstrip("'") for variable in variables(clause)}
    step = spec.transitions.get(result.transition.partition(" [")[0])
    formulas: Mapping[str, Any] = {} if step is None else {**step.full_guard, **step.means}
    return {v.rstrip("'") for v in variables(formulas[name])} if name in formulas else set()


def _word(name: str, value: int) -> str:
    if name in _FLAGS:
        return "true" if value else "false"
    return words_of(name).get(value, str(value))
