"""``slotproof prove``: the spec's invariants hold, for any number of sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    JsonOption,
    jobs_count,
    number,
    writable_file,
    writing,
    z3_missing,
)
from slotproof.conformance.cli.progressing import prove_progress
from slotproof.conformance.cli.refuting import refute
from slotproof.conformance.cli.scripting import write_scripts
from slotproof.conformance.files import write_whole
from slotproof.conformance.terminal import json_text, say, say_all, say_json
from slotproof.model.cores import needed_a_proof
from slotproof.model.transitions import TRANSITIONS

if TYPE_CHECKING:
    from slotproof.model.prove import Result, Vacuity

INIT = "INIT"


def prove(
    page_size: Annotated[
        list[int] | None,
        typer.Option("--page-size", help="A page size; may be repeated. Default: 1, 4, 16, 64."),
    ] = None,
    any_page_size: Annotated[
        bool, typer.Option("--any", help="All page sizes at once: P is a symbol.")
    ] = False,
    transition: Annotated[
        list[str] | None, typer.Option("--transition", help="Only this one; may be repeated.")
    ] = None,
    mutant: Annotated[
        str | None,
        typer.Option("--mutant", help="Search the shortest counterexample of a known bug."),
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", help="Search so many transitions deep (with --mutant: 9)."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes; 0: one per core.")] = 0,
    export: Annotated[
        Path | None,
        typer.Option("--export", help="Prove everything; keep what the proofs used in this file."),
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="That whoever waits can be brought to run, instead.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help="With --progress: an engine never takes this step."),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="With --progress: engines of this profile.")
    ] = None,
    smtlib: Annotated[
        Path | None,
        typer.Option("--smtlib", help="Prove nothing; write the obligations here as SMT-LIB."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Prove the spec's invariants: counts and pages, at some page sizes or at any."""
    try:
        from slotproof.model import prove as proofs
        from slotproof.model.obligations import Spec, framing
    except ModuleNotFoundError as error:
        raise z3_missing(error) from None
    for name in transition or ():
        if name != INIT and name not in TRANSITIONS:
            raise UsageProblem(f"there is no transition {name!r}; `slotproof list transitions`")
    other = transition or jobs or mutant is not None or depth is not None or export is not None
    if progress and (other or smtlib is not None):
        raise UsageProblem("--progress takes --page-size, --any, --without, --profile, --json")
    if not progress and (without or profile is not None):
        raise UsageProblem("--without and --profile go with --progress")
    if smtlib is not None and (mutant is not None or depth is not None or export is not None):
        raise UsageProblem("--smtlib takes --page-size, --any, --transition, --json")
    if export is not None:
        if transition or any_page_size or page_size or mutant is not None or depth is not None:
            raise UsageProblem("--export proves everything: give it --jobs and --json at most")
        return _export(export, jobs_count(jobs, 0) or None, as_json)
    if mutant is not None or depth is not None:
        if transition or any_page_size or jobs:
            raise UsageProblem("--mutant and --depth search; --transition, --any, --jobs prove")
        small = [number(size, 1, "--page-size") for size in page_size or (1, 4)]
        return refute(mutant, small, number(9 if depth is None else depth, 1, "--depth"), as_json)
    sizes: list[int | None] = [number(size, 1, "--page-size") for size in page_size or ()]
    if any_page_size:
        sizes.append(None)
    if not sizes:
        sizes = [*proofs.PAGE_SIZES, *([None] if progress or smtlib is not None else [])]
    if progress:
        return prove_progress(sizes, without or [], profile, as_json)
    if smtlib is not None:
        return write_scripts(smtlib, sizes, transition, as_json)
    started = time.perf_counter()
    results, vacuity = proofs.prove(
        page_sizes=sizes, jobs=jobs_count(jobs, 0) or None, only=transition
    )
    outside = framing(Spec())
    document = _document(results, vacuity, outside, time.perf_counter() - started)
    if as_json:
        say_json(document)
    else:
        say_all(_text(results, document))
    return int(document["status"])


def _export(path: Path, jobs: int | None, as_json: bool) -> int:
    """Prove everything and every exhibit of the museum; keep what the proofs used."""
    from slotproof.model import cores, prove as proofs
    from slotproof.model.museum import EXHIBITS

    writable_file(path, "--export")
    results, vacuity = proofs.prove(page_sizes=[*proofs.PAGE_SIZES, None], jobs=jobs)
    unproved = [each.name for each in results if each.status != "proved"]
    unproved += [f"{each.transition} / {each.problem}" for each in vacuity if each.vacuous]
    museum = {}
    for name, exhibit in EXHIBITS.items():
        spec = exhibit.spec
        found, _ = proofs.prove(spec, [cores.CORES_AT], jobs, spec.rewritten or None)
        museum[name] = cores.refutations(found)
    document = cores.document(results, unproved, museum)
    with writing(path, "--export"):
        write_whole(path, json_text(document))
    status = int(bool(unproved))
    if as_json:
        say_json({"status": status, "file": str(path), **document})
    else:
        say(f"{len(results)} obligations, {len(unproved)} not proved; written to {path}")
    return status


def _document(
    results: list[Result], vacuity: list[Vacuity], outside: list[str], seconds: float
) -> dict[str, Any]:
    failed = [each for each in results if each.status != "proved"]
    empty = [each for each in vacuity if each.vacuous]
    return {
        "status": 1 if failed or empty or outside else 0,
        "obligations": len(results),
        "proved": len(results) - len(failed),
        "needed": sum(map(needed_a_proof, results)),
        "seconds": round(seconds, 2),
        "page_sizes": [
            str(size or "any")
            for size in sorted(
                {each.page_size for each in results}, key=lambda size: size or 1 << 30
            )
        ],
        "failed": [asdict(each) for each in failed],
        "vacuous": [asdict(each) for each in empty],
        "writes_outside": outside,
        "results": [
            {
                "name": each.name,
                "page_size": each.page_size,
                "status": each.status,
                "core": each.core,
                "seconds": round(each.seconds, 4),
            }
            for each in results
        ],
    }


def _text(results: list[Result], document: dict[str, Any]) -> Iterator[str]:
    yield f"{'transition':<20} {'proved':>11} {'seconds':>8}  needs, beside its guard"
    for name in dict.fromkeys(each.transition.partition(" [")[0] for each in results):
        mine = [each for each in results if each.transition.partition(" [")[0] == name]
        proved = sum(each.status == "proved" for each in mine)
        seconds = sum(each.seconds for each in mine)
        yield (
            f"{name:<20} {proved:>5} of {len(mine):<4}{seconds:>8.2f}  {', '.join(_needs(mine))}"
        )
    for each in document["failed"]:
        size = each["page_size"] or "any"
        yield f"{each['status']}: {each['transition']} / {each['clause']} / P={size}"
        values = {name: value for name, value in each["model"].items() if value}
        if values:
            yield f"    in a state with {values}"
    for each in document["vacuous"]:
        size = each["page_size"] or "any"
        yield f"vacuous: {each['transition']} at P={size}: {each['problem']}"
    for line in document["writes_outside"]:
        yield f"outside its frame: {line}"
    yield (
        f"{document['proved']} of {document['obligations']} obligations proved "
        f"({document['needed']} needed a proof, the rest is framing or the effect alone), "
        f"page sizes {', '.join(document['page_sizes'])}, in {document['seconds']} s"
    )


def _needs(results: list[Result]) -> list[str]:
    """Invariants of the state before that proofs of these obligations used."""
    used = Counter(
        clause.partition(".")[0]
        for result in results
        for clause in result.core
        if clause.startswith("INV-") and clause != result.clause
    )
    return [name for name, _ in used.most_common()]
