"""A trace of the spec alone, as ``prove --mutant`` writes it: transitions, no commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from slotproof.conformance.terminal import plain
from slotproof.conformance.traces.itf import BadTrace, decode


def is_one(document: Any) -> bool:
    """Whether the ITF document is such a trace."""
    meta = document.get("#meta") if isinstance(document, dict) else None
    return isinstance(meta, dict) and "slotproof-spec" in meta


def render(document: Any) -> str:
    """It as text. Raises :class:`BadTrace`."""
    try:
        return "\n".join(map(plain, _lines(decode(document)))) + "\n"
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadTrace(f"a trace of the spec, and something is missing: {error}") from None


def _lines(document: Any) -> Iterator[str]:
    meta = document["#meta"]["slotproof-spec"]
    names = document["vars"]
    first, *rest = document["states"]
    yield f"{meta['violated'][0]} violated by the spec with {meta['mutant']}"
    yield f"page size {meta['page_size']}, pool of {first['full.total']} tokens"
    yield ""
    before = first
    for number, state in enumerate(rest, 1):
        params = state["mbt::nondetPicks"].items()
        said = " ".join(f"{k}={v}" for k, v in params if v and not k.startswith("page_"))
        yield f"{number:>3}  {state['mbt::actionTaken']} {said}".rstrip()
        changed = {name: state[name] for name in names if state[name] != before[name]}
        yield "       " + " ".join(f"{name}={value}" for name, value in changed.items())
        before = state
    yield ""
    yield f"violated: {', '.join(meta['violated'])}"
    mutant, size = shlex.quote(str(meta["mutant"])), shlex.quote(str(meta["page_size"]))
    yield f"again: slotproof prove --mutant {mutant} --page-size {size}"
