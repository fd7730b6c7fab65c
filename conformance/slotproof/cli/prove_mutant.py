"""``slotproof prove --mutant``: why a known bug breaks the spec, as shortly as possible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import writing
from slotproof.support.files import write_whole
from slotproof.support.terminal import json_text, labelled, say, say_all, say_json
from slotproof.traces.itf import decode
from slotproof.traces.spec_trace import spec_document, transitions

if TYPE_CHECKING:
    from slotproof_model.proofs.bounded import Counterexample

OUT = Path("slotproof-traces")
ITSELF = "spec"


def mutant(name: str, sizes: list[int], depth: int, as_json: bool) -> int:
    """Search the shortest counterexample of a known bug, at the first page size that has one.

    Where a bug can't be seen at a page size at all, that is proved first, by induction.
    """
    from slotproof_model.bugs.museum import EXHIBITS
    from slotproof_model.proofs.bounded import Inconclusive, replay, shortest, suspects
    from slotproof_model.proofs.obligations import framing
    from slotproof_model.spec.whole import Spec

    if name != ITSELF and name not in EXHIBITS:
        raise UsageProblem(f"the spec has no mutant {name!r}; there are: {', '.join(EXHIBITS)}")
    spec, sentence = Spec(), "as it is"
    if name != ITSELF:
        spec, sentence = EXHIBITS[name].spec, EXHIBITS[name].sentence
    found: Counterexample | None = None
    nothing: dict[int, str] = {}
    try:
        for size in sizes:
            last = suspects(spec, size)
            if framing(spec):
                last = None
            elif last is not None and not last:
                nothing[size] = (
                    "no counterexample of any length: what differs keeps every invariant"
                )
                continue
            if (found := shortest(spec, size, depth, last)) is not None:
                break
            nothing[size] = f"no counterexample of up to {depth} transitions"
    except Inconclusive as gave_up:
        raise UsageProblem(f"Z3 gave up on {gave_up}: lower --depth") from None
    if found is not None and not replay(spec, found):
        raise AssertionError(f"{name}: the evaluate reading does not follow what Z3 found")
    document = None if found is None else to_itf(found)
    if as_json:
        bounded = {str(size): why for size, why in nothing.items()}
        say_json({"status": int(found is not None), "nothing": bounded, "itf": document})
        return int(found is not None)
    for size, why in nothing.items():
        say(f"{name}, page size {size}: {why}")
    if found is not None and document is not None:
        say_all(_text(found, document, sentence))
        path = OUT / f"spec-{name}.itf.json"
        with writing(path, "the trace"):
            write_whole(path, json_text(document))
        say(labelled("trace", path))
    return int(found is not None)


def _text(found: Counterexample, document: dict[str, Any], sentence: str) -> Iterator[str]:
    yield f"{found.clauses[0]} violated by the spec with {found.spec}: {sentence}"
    yield from transitions(decode(document))
    yield (
        f"shortest: {found.depth} transitions; every shorter way of one session alone is proved "
        "to keep them all"
    )


def to_itf(found: Counterexample) -> dict[str, Any]:
    """Return the counterexample as an ITF document of transitions."""
    names = [name for name in found.start if not name.startswith(("frame.", "config."))]
    ways = [(each.transition, each.params, each.after) for each in found.moves]
    config = {
        name.removeprefix("config."): value
        for name, value in found.start.items()
        if name.startswith("config.")
    }
    return spec_document(
        names,
        [("init", {}, found.start), *ways],
        mutant=found.spec,
        page_size=found.page_size,
        pool=found.pool,
        config=config,
        violated=list(found.clauses),
        minimal={"depth": found.depth, "unsat_below": found.depth - 1},
    )
