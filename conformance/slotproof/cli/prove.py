"""``slotproof prove``: the spec's invariants hold, for any number of sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from slotproof.cli.epilogs import epilog
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JsonOption, jobs_count, z3_missing
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.proof_options import (
    AnyOption,
    PageSizeOption,
    ProofJobsOption,
    TransitionOption,
    known_transitions,
    page_sizes,
)
from slotproof.cli.prove_mutant import mutant
from slotproof.cli.prove_progress import progress
from slotproof.support.statuses import CONFORMS
from slotproof.support.terminal import say_all, say_json

if TYPE_CHECKING:
    from slotproof_model.proofs.prove import Result, Vacuity

prove = typer.Typer(rich_markup_mode="rich")


@prove.callback(invoke_without_command=True, epilog=epilog("prove"))
def proved(
    context: typer.Context,
    page_size: PageSizeOption = None,
    any_page_size: AnyOption = False,
    transition: TransitionOption = None,
    jobs: ProofJobsOption = 0,
    as_json: JsonOption = False,
) -> int:
    """Prove the spec's invariants: counts and pages, at some page sizes or at any."""
    if context.invoked_subcommand is not None:
        if page_size or any_page_size or transition or jobs or as_json:
            name = context.invoked_subcommand
            raise UsageProblem(f"options go after the subcommand: slotproof prove {name} …")
        return CONFORMS
    try:
        from slotproof_model.proofs import prove as proofs
        from slotproof_model.proofs.obligations import framing
        from slotproof_model.spec.whole import Spec
    except ModuleNotFoundError as error:
        raise z3_missing(error) from None
    known_transitions(transition)
    sizes = page_sizes(page_size, any_page_size, proofs.PAGE_SIZES)
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs.prove(
            page_sizes=sizes,
            jobs=jobs_count(jobs, 0) or None,
            only=transition,
            tell=lambda done, count: tell("proving", done, count),
        )
    outside = framing(Spec())
    document = _document(results, vacuity, outside, time.perf_counter() - started)
    if as_json:
        say_json(document)
    else:
        say_all(_text(results, document))
    return int(document["status"])


prove.command("progress", epilog=epilog("prove progress"))(progress)
prove.command("mutant", epilog=epilog("prove mutant"))(mutant)


def _document(
    results: list[Result], vacuity: list[Vacuity], outside: list[str], seconds: float
) -> dict[str, Any]:
    failed = [each for each in results if each.status != "proved"]
    empty = [each for each in vacuity if each.vacuous]
    return {
        "status": 1 if failed or empty or outside else 0,
        "obligations": len(results),
        "proved": len(results) - len(failed),
        "needed": sum(each.needed for each in results),
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
