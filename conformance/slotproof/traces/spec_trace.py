"""A trace of the spec alone: transitions, without an engine or commands. ``prove --mutant`` and
``prove --progress`` write such traces."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Count, Int, Name, Shape, open_shape
from slotproof.support import bounds
from slotproof.support.terminal import plain
from slotproof.traces.itf import BadTrace, decode, document_of, encode
from slotproof_model.spec.expr import Sort
from slotproof_model.spec.state import ACTOR, PAGE
from slotproof_model.text.idioms import words_of

FLAGS = frozenset(var.name for var in (*ACTOR, *PAGE) if var.sort is Sort.BOOL)
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
    states = (
        (action, params, encode({name: after[name] for name in names}))
        for action, params, after in steps
    )
    return document_of({"slotproof-spec": meta}, names, states)


def is_one(document: Any) -> bool:
    """Return True if the ITF document is a trace of the spec alone."""
    meta = document.get("#meta") if isinstance(document, dict) else None
    return isinstance(meta, dict) and "slotproof-spec" in meta


def render(document: Any) -> str:
    """Return the trace of the spec as text. Raises :class:`BadTrace`."""
    decoded = decode(document)
    SPEC_TRACE.demand(decoded, lambda wrong: BadTrace(f"a trace of the spec: {wrong}"))
    meta = decoded["#meta"]["slotproof-spec"]
    mutant, size = shlex.quote(meta["mutant"]), meta["page_size"]
    again = meta.get("again", f"slotproof prove --mutant {mutant} --page-size {size}")
    head = f"{meta['violated'][0]} violated by the spec with {meta['mutant']}"
    try:
        lines = [head, *transitions(decoded), f"again: {again}"]
    except KeyError as missing:
        raise BadTrace(f"a trace of the spec: a state has no {missing}") from None
    return "\n".join(map(plain, lines)) + "\n"


def transitions(document: Any) -> Iterator[str]:
    """Yield lines: the sizes, each transition with its changed variables, the violated clauses."""
    meta = document["#meta"]["slotproof-spec"]
    first, *rest = document["states"]
    yield from (f"page size {meta['page_size']}, pool of {first['full.total']} tokens", "")
    before = first
    for number, state in enumerate(rest, 1):
        params = state["mbt::nondetPicks"]
        if not isinstance(params, dict):
            raise BadTrace(f"a trace of the spec: state {number} has no parameters")
        said = " ".join(f"{k}={v}" for k, v in params.items() if v and not k.startswith("page_"))
        yield f"{number:>3}  {state['mbt::actionTaken']} {said}".rstrip()
        changed = {name: state[name] for name in document["vars"] if state[name] != before[name]}
        yield "       " + " ".join(map(_said, changed, changed.values()))
        before = state
    yield from ("", f"violated: {', '.join(meta['violated'])}")


def _said(name: str, value: Any) -> str:
    """Return a variable and its value as text. A flag appears as its name, and a kind as a word.

    >>> _said("req.phase", 4), _said("s1.slot.lent", 0), _said("slot.row", -1), _said("slot.C", 2)
    ('req.phase=running', 'not s1.slot.lent', 'slot.row=no_row', 'slot.C=2')
    """
    of = name.removeprefix("s1.").removeprefix("r1.")
    if of in FLAGS:
        return name if value else f"not {name}"
    word = words_of(of).get(value) if type(value) is int else None
    return f"{name}={value if word is None else word}"
