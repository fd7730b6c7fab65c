"""``slotproof prove --mutant``: why a known bug breaks the spec, as shortly as possible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.traces.itf import encode

if TYPE_CHECKING:
    from slotproof.model.bounded import Counterexample

OUT = Path("slotproof-traces")


def refute(name: str, page_sizes: list[int], depth: int, as_json: bool) -> int:
    """The shortest counterexample over the page sizes; status 1 if there is one, else 0."""
    from slotproof.model.bounded import Inconclusive, replay, shortest
    from slotproof.model.museum import EXHIBITS

    if name not in EXHIBITS:
        raise UsageProblem(f"the spec has no mutant {name!r}; there are: {', '.join(EXHIBITS)}")
    spec = EXHIBITS[name].spec
    best: Counterexample | None = None
    tried: dict[int, int | None] = {}
    try:
        for size in page_sizes:
            limit = depth if best is None else best.depth - 1
            found = shortest(spec, size, limit)
            tried[size] = found.depth if found else None
            best = found or best
    except Inconclusive as gave_up:
        raise UsageProblem(f"Z3 gave up on {gave_up}: lower --depth") from None
    if best is not None and not replay(spec, best):
        raise AssertionError(f"{name}: the evaluate reading does not follow what Z3 found")
    document = None if best is None else to_itf(best)
    if as_json:
        typer.echo(json.dumps({"status": int(best is not None), "itf": document}, indent=1))
    elif best is None:
        sizes = ", ".join(map(str, page_sizes))
        typer.echo(f"{name}: no counterexample of up to {depth} transitions at page size {sizes}")
    else:
        for line in _text(best, EXHIBITS[name].sentence, tried):
            typer.echo(line)
        path = OUT / f"spec-{name}.itf.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        typer.echo(f"trace           {path}")
    return int(best is not None)


def _text(found: Counterexample, sentence: str, tried: dict[int, int | None]) -> Iterator[str]:
    yield f"{found.clauses[0]} violated by the spec with {found.spec}: {sentence}"
    totals = f"{found.start['full.total']} tokens"
    yield f"page size {found.page_size}, pool of {totals}"
    yield ""
    before = found.start
    for number, move in enumerate(found.moves, 1):
        params = {k: v for k, v in move.params.items() if v and not k.startswith("page_")}
        said = " ".join(f"{key}={value}" for key, value in params.items())
        yield f"{number:>3}  {move.transition} {said}".rstrip()
        changed = {k: v for k, v in move.after.items() if v != before[k]}
        yield "       " + " ".join(f"{key}={value}" for key, value in changed.items())
        before = move.after
    yield ""
    yield f"violated: {', '.join(found.clauses)}"
    yield f"shortest: {found.depth} transitions; every shorter sequence is proved to keep them all"
    for size, depth in tried.items():
        if depth is None and size != found.page_size:
            yield f"at page size {size}: nothing as short or shorter"


def to_itf(found: Counterexample) -> dict[str, Any]:
    """The counterexample as an ITF document of transitions."""
    names = [name for name in found.start if not name.startswith(("frame.", "config."))]
    states = [
        {
            "#meta": {"index": 0},
            "mbt::actionTaken": "init",
            "mbt::nondetPicks": {},
            **encode({name: found.start[name] for name in names}),
        }
    ]
    states += [
        {
            "#meta": {"index": index},
            "mbt::actionTaken": move.transition,
            "mbt::nondetPicks": encode(move.params),
            **encode({name: move.after[name] for name in names}),
        }
        for index, move in enumerate(found.moves, 1)
    ]
    return {
        "#meta": {
            "format": "ITF",
            "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
            "slotproof-spec": {
                "mutant": found.spec,
                "page_size": found.page_size,
                "pool": found.pool,
                "violated": list(found.clauses),
                "minimal": {"depth": found.depth, "unsat_below": found.depth - 1},
            },
        },
        "vars": names,
        "states": states,
    }
