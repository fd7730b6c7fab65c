"""A trace of the spec alone: transitions, without an engine or commands. ``prove`` writes such a
trace for a refuted obligation, for a mutant, and for a request that waits forever."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Count, Int, Name, Shape, open_shape
from slotproof.support import bounds
from slotproof.support.terminal import plain
from slotproof.traces.itf import BadTrace, decode, document_of, encode
from slotproof_model.spec.expr import Expr, Sort, variables
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.state import PAGE, SEEN
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text.idioms import words_of
from slotproof_model.text.words import WORDS

FLAGS = frozenset(var.name for var in (*SEEN, *PAGE) if var.sort is Sort.BOOL)
ASSUMED = "assumed"
"""Action of a first state that satisfies a proof's hypotheses, and may be unreachable."""
Value = Int | bool | Name
"""Value of a variable or a parameter."""


@open_shape
class SpecMeta(TypedDict):
    mutant: Name
    violated: Annotated[list[Name], Field(min_length=1)]
    page_size: Count
    again: NotRequired[Name]
    """Command that finds the trace again. Left out for ``prove --mutant``."""


Meta = TypedDict("Meta", {"slotproof-spec": SpecMeta})
States = Annotated[
    list[dict[Name, Value | dict[Name, Value]]],
    FailFast(),
    Field(min_length=1, max_length=bounds.COMMANDS),
]
Document = TypedDict("Document", {"#meta": open_shape(Meta), "vars": list[Name], "states": States})  # type: ignore[misc]
SPEC_TRACE = Shape("the document", open_shape(Document))


def spec_document(
    names: list[str], steps: Iterable[tuple[str, dict[str, Any], Mapping[str, Any]]], **meta: object
) -> dict[str, Any]:
    """Return an ITF document. A step is a transition, its parameters, and the state after it."""
    states = ((by, params, encode({n: after[n] for n in names})) for by, params, after in steps)
    return document_of({"slotproof-spec": meta}, names, states)


def is_one(document: Any) -> bool:
    """Return True if the ITF document is a trace of the spec alone."""
    meta = document.get("#meta") if isinstance(document, dict) else None
    return isinstance(meta, dict) and "slotproof-spec" in meta


class Row(NamedTuple):
    """A variable in a step's table, in the words of the spec's pages."""

    name: str
    before: str
    after: str
    meaning: str

    def __str__(self) -> str:
        """Return the variable and its new value. A flag appears as its name.

        >>> print(Row("req.phase", "parked", "running", ""), Row("slot.lent", "true", "false", ""))
        req.phase=running not slot.lent
        """
        flags = {"true": self.name, "false": f"not {self.name}"}
        return flags.get(self.after, f"{self.name}={self.after}")


class Step(NamedTuple):
    """A transition, with the variables that it changed."""

    transition: str
    params: str
    changed: list[Row]
    read: list[Row]
    """Unchanged variables of the violated clause, in the last step."""


class SpecTrace(NamedTuple):
    """A trace of the spec, checked. The first of the steps sets up the first state."""

    of: str
    """The spec and its change: ``the spec with 22862-no-free-tail``."""
    again: str
    """Command that finds the trace again."""
    violated: list[str]
    page_size: int
    total: int
    steps: list[Step]
    formula: Expr | None
    """Formula of the violated clause, if the spec of today has the clause."""


def checked(document: Any) -> SpecTrace:
    """Return the trace of an ITF document. Raises :class:`BadTrace`."""
    decoded = decode(document)
    SPEC_TRACE.demand(decoded, lambda wrong: BadTrace(f"a trace of the spec: {wrong}"))
    meta: SpecMeta = decoded["#meta"]["slotproof-spec"]
    mutant, size, violated = meta["mutant"], meta["page_size"], meta["violated"]
    again = f"slotproof prove --mutant {shlex.quote(mutant)} --page-size {size}"
    of = f"the spec {mutant}" if "again" in meta else f"the spec with {mutant}"
    first, last = decoded["states"][0], decoded["states"][-1]
    try:
        formula = _formula(violated[0], last["mbt::actionTaken"])
        steps, total = list(_steps(decoded, formula)), first["full.total"]
    except KeyError as missing:
        raise BadTrace(f"a trace of the spec: a state has no {missing}") from None
    return SpecTrace(of, meta.get("again", again), violated, size, total, steps, formula)


def render(document: Any) -> str:
    """Return the trace of the spec as text. Raises :class:`BadTrace`."""
    trace = checked(document)
    head = f"{trace.violated[0]} violated by {trace.of}"
    lines = [head, *transitions(document), f"again: {trace.again}"]
    return "\n".join(map(plain, lines)) + "\n"


def transitions(document: Any) -> Iterator[str]:
    """Yield lines: the sizes, each transition with its changed variables, the violated clauses."""
    trace = checked(document)
    yield from (f"page size {trace.page_size}, pool of {trace.total} tokens", "")
    for number, step in enumerate(trace.steps[1:], 1):
        yield f"{number:>3}  {step.transition} {step.params}".rstrip()
        yield "       " + " ".join(map(str, step.changed))
    yield from ("", f"violated: {', '.join(trace.violated)}")


def _steps(document: Any, formula: Expr | None) -> Iterator[Step]:
    states = document["states"]
    wanted = set() if formula is None else {name.rstrip("'") for name in variables(formula)}
    for number, (before, state) in enumerate(pairwise([{}, *states])):
        params = state["mbt::nondetPicks"]
        if not isinstance(params, dict):
            raise BadTrace(f"a trace of the spec: state {number} has no parameters")
        said = " ".join(f"{k}={v}" for k, v in params.items() if v and not k.startswith("page_"))
        changed, read = [], []
        for name in document["vars"]:
            own = name.removeprefix("s1.").removeprefix("r1.")
            value, old = state[name], before.get(name, 0)
            row = Row(name, _word(own, old), _word(own, value), WORDS.get(own, ""))
            if value != old:
                changed.append(row)
            elif state is states[-1] and own in wanted:
                read.append(row)
        yield Step(str(state["mbt::actionTaken"]), said, changed, read)


def _word(name: str, value: Any) -> str:
    """Return a value in words.

    >>> _word("req.phase", 4), _word("slot.lent", 0), _word("slot.row", -1), _word("slot.C", 2)
    ('running', 'false', 'no_row', '2')
    """
    if name in FLAGS:
        return "true" if value else "false"
    word = words_of(name).get(value) if type(value) is int else None
    return str(value) if word is None else word


def _formula(clause: str, transition: Any) -> Expr | None:
    """Return the formula of a clause of the spec, or of a transition's guard or meaning."""
    id_, _, name = clause.partition(".")
    if id_ in INVARIANTS:
        return INVARIANTS[id_].conjuncts.get(name)
    step = TRANSITIONS.get(str(transition))
    return None if step is None else {**step.full_guard, **step.means}.get(name)
