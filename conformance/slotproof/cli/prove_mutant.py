"""``slotproof prove --mutant``: why a known bug breaks the spec, as shortly as possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer, writing
from slotproof.support.files import write_whole
from slotproof.support.terminal import json_text, labelled
from slotproof.traces.itf import decode
from slotproof.traces.spec_trace import spec_document, transitions
from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.proofs.bounded import Counterexample, Inconclusive, replay, shortest, suspects
from slotproof_model.proofs.obligations import framing
from slotproof_model.spec.whole import Spec


def refute(name: str, sizes: list[int], depth: int, as_json: bool) -> int:
    """Search the shortest counterexample of a known bug, at the first page size that has one.

    Where a bug can't be seen at a page size at all, that is proved first, by induction.
    """
    if name == "spec":
        spec, sentence = Spec(), "as it is"
    elif name in EXHIBITS:
        spec, sentence = EXHIBITS[name].spec, EXHIBITS[name].sentence
    else:
        raise UsageProblem(f"the spec has no mutant {name!r}; there are: {', '.join(EXHIBITS)}")
    found: Counterexample | None = None
    nothing: dict[str, str] = {}
    try:
        for size in sizes:
            last = suspects(spec, size)
            if framing(spec):
                last = None
            if last is not None and not last:
                why = "no counterexample of any length: what differs keeps every invariant"
            elif found := shortest(spec, size, depth, last):
                break
            else:
                why = f"no counterexample of up to {depth} transitions"
            nothing[str(size)] = why
    except Inconclusive as gave_up:
        raise UsageProblem(f"Z3 gave up on {gave_up}: lower --depth") from None
    if found is not None and not replay(spec, found):
        raise AssertionError(f"{name}: the evaluate reading does not follow what Z3 found")
    itf = None if found is None else to_itf(found)

    def lines() -> Iterator[str]:
        for at, why in nothing.items():
            yield f"{name}, page size {at}: {why}"
        if found is not None and itf is not None:
            yield f"{found.clauses[0]} violated by the spec with {found.spec}: {sentence}"
            yield from transitions(decode(itf))
            yield (
                f"shortest: {found.depth} transitions; every shorter way of one session alone is "
                "proved to keep them all"
            )
            yield kept(itf, name)

    document = {"status": int(found is not None), "nothing": nothing, "itf": itf}
    return answer(document, lines(), as_json)


def kept(document: dict[str, Any], name: str) -> str:
    """Write a counterexample; return the line that says where."""
    path = Path("slotproof-traces", f"spec-{name}.itf.json")
    with writing(path, "the trace"):
        write_whole(path, json_text(document))
    return labelled("trace", path)


def to_itf(found: Counterexample) -> dict[str, Any]:
    """Return the counterexample as an ITF document of transitions."""
    start = found.start
    config = {k.removeprefix("config."): v for k, v in start.items() if k.startswith("config.")}
    moves = [(each.transition, each.params, each.after) for each in found.moves]
    return spec_document(
        [name for name in start if not name.startswith(("frame.", "config."))],
        [("init", {}, start), *moves],
        mutant=found.spec,
        page_size=found.page_size,
        pool=found.pool,
        config=config,
        violated=list(found.clauses),
        minimal={"depth": found.depth, "unsat_below": found.depth - 1},
    )
