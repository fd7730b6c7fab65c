"""``slotproof prove --mutant``: the shortest counterexample of a known bug of the spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer, writing
from slotproof.support.files import slug, write_whole
from slotproof.support.terminal import json_text, labelled
from slotproof.traces.spec_trace import spec_document, transitions
from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.proofs.bounded import Counterexample, Inconclusive, replay, shortest, suspects
from slotproof_model.proofs.obligations import framing
from slotproof_model.spec.whole import Spec


def refute(name: str, sizes: list[int], depth: int, as_json: bool) -> int:
    """Find the shortest counterexample of a known bug, at the first page size with a
    counterexample. Induction first tries to prove that a size has none."""
    if name == "spec":
        spec, sentence = Spec(), "as it is"
    elif name in EXHIBITS:
        spec, sentence = EXHIBITS[name].spec, EXHIBITS[name].sentence
    else:
        raise UsageProblem(f"the spec has no mutant {name!r}; there are: {', '.join(EXHIBITS)}")
    minimal: Counterexample | None = None
    nothing: dict[str, str] = {}
    try:
        for size in sizes:
            last = suspects(spec, size)
            if framing(spec):
                last = None
            if last is not None and not last:
                why = "no counterexample of any length: the spec preserves every invariant"
            elif minimal := shortest(spec, size, depth, last):
                break
            else:
                why = f"no counterexample of up to {depth} transitions"
            nothing[str(size)] = why
    except Inconclusive as gave_up:
        raise UsageProblem(f"Z3 gave up on {gave_up}: lower --depth") from None
    if minimal is not None and not replay(spec, minimal):
        raise AssertionError(f"{name}: evaluating the spec does not reproduce Z3's counterexample")
    itf = None if minimal is None else to_itf(minimal)

    def lines() -> Iterator[str]:
        for at, why in nothing.items():
            yield f"{name}, page size {at}: {why}"
        if minimal is not None and itf is not None:
            yield f"{minimal.clauses[0]} violated by the spec with {minimal.spec}: {sentence}"
            yield from transitions(itf)
            yield (
                f"shortest: {minimal.depth} transitions; every shorter run of one session alone "
                "is proved to preserve all invariants"
            )
            yield from written(itf, name)

    document = {"status": int(minimal is not None), "nothing": nothing, "itf": itf}
    return answer(document, lines(), as_json)


def written(document: dict[str, Any], name: str) -> Iterator[str]:
    """Write a counterexample. Yield a line with its path, and one with the command for its page."""
    path = Path("slotproof-traces", f"spec-{slug(name, also='_')}.itf.json")
    with writing(path, "the trace"):
        write_whole(path, json_text(document))
    yield labelled("trace", path)
    yield labelled("page", f"slotproof show {path} --out page.html")


def to_itf(counterexample: Counterexample) -> dict[str, Any]:
    """Return the counterexample as an ITF document of transitions."""
    start = counterexample.start
    config = {k.removeprefix("config."): v for k, v in start.items() if k.startswith("config.")}
    moves = [(move.transition, move.params, move.after) for move in counterexample.moves]
    return spec_document(
        [name for name in start if not name.startswith("frame.")],
        [("init", {}, start), *moves],
        mutant=counterexample.spec,
        page_size=counterexample.page_size,
        pool=counterexample.pool,
        config=config,
        violated=list(counterexample.clauses),
        minimal={"depth": counterexample.depth, "unsat_below": counterexample.depth - 1},
    )
