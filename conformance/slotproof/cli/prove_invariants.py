"""``slotproof prove``: every proof obligation, and the invariants that each transition needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer, jobs_count
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.prove_mutant import written
from slotproof.cli.refutation import table, trace
from slotproof.support.terminal import labelled
from slotproof_model.proofs import prove as proofs
from slotproof_model.proofs.obligations import INIT, Result, framing
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec


def prove(sizes: list[int | None], only: list[str] | None, jobs: int, as_json: bool) -> int:
    """Prove the invariants and print the results. Return 1 unless every obligation is proved."""
    for name in only or ():
        if name != INIT and name not in TRANSITIONS:
            raise UsageProblem(f"there is no transition {name!r}; see `slotproof list transitions`")
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs.prove(
            page_sizes=sizes or proofs.PAGE_SIZES,
            jobs=jobs_count(jobs, 0) or None,
            only=only,
            tell=lambda done, count: tell("proving", done, count),
        )
    failed = [asdict(result) for result in results if result.status != "proved"]
    vacuous = [asdict(check) for check in vacuity if check.vacuous]
    outside = framing(Spec())
    used = sorted({result.page_size for result in results}, key=lambda size: size or 1 << 30)
    document: dict[str, Any] = {
        "status": 1 if failed or vacuous or outside else 0,
        "obligations": len(results),
        "hold": len(results) - len(failed),
        "reasons": proofs.reasons(results),
        "seconds": round(time.perf_counter() - started, 2),
        "page_sizes": [str(size or "any") for size in used],
        "failed": failed,
        "vacuous": vacuous,
        "writes_outside": outside,
        "results": [
            {
                **{
                    key: getattr(result, key)
                    for key in ("name", "page_size", "status", "reason", "core")
                },
                "seconds": round(result.seconds, 4),
            }
            for result in results
        ],
    }
    return answer(document, _text(results, document), as_json)


def _text(results: list[Result], document: dict[str, Any]) -> Iterator[str]:
    yield f"{'transition':<20} {'hold':>11} {'seconds':>8}  invariants used, besides the guard"
    by_transition: dict[str, list[Result]] = {}
    for result in results:
        by_transition.setdefault(result.transition.partition(" [")[0], []).append(result)
    for name, of in by_transition.items():
        hold, seconds = sum(r.status == "proved" for r in of), sum(r.seconds for r in of)
        yield f"{name:<20} {hold:>5} of {len(of):<4}{seconds:>8.2f}  {', '.join(_needs(of))}"
    yield from failures(document, results)
    for line in document["writes_outside"]:
        yield f"outside its frame: {line}"
    yield (
        f"{document['hold']} of {document['obligations']} obligations hold, "
        f"page sizes {', '.join(document['page_sizes'])}, in {document['seconds']} s"
    )
    figures, size = document["reasons"], proofs.REASONS_AT
    if figures is None:
        yield f"reasons are counted at P={size} only: add --page-size {size}"
        return
    at = f"P={size}:"
    yield (
        f"{at} {figures['proved']} proved: {figures['inductive']} by induction, "
        f"{figures['effect']} by guard and effect alone, {figures['framing']} by framing"
    )
    yield (
        f"{at} {figures['excluded']} not counted as proved: guard and effect exclude every premise"
    )


def failures(document: dict[str, Any], results: Sequence[Result] = ()) -> Iterator[str]:
    """Yield a line for each obligation that is not proved, and for each vacuous transition.

    The first refuted obligation with values among ``results`` also gets a table and a trace.
    """
    for failure in document["failed"]:
        size = failure["page_size"] or "any"
        yield f"{failure['status']}: {failure['transition']} / {failure['clause']} / P={size}"
    # Without a concrete page size the state after the step is unknown, and a proof about other
    # actors has no values at all.
    refuted = [result for result in results if result.model]
    if (first := next((result for result in refuted if result.page_size), None)) is not None:
        itf = trace(first, Spec())
        yield from ("", f"{first.name}, refuted by this step:", *table(itf))
        yield from written(itf, f"{first.transition}-{first.clause}")
    elif refuted:
        id_ = refuted[0].transition.partition(" [")[0]
        yield labelled("table and page", f"slotproof prove --transition {id_} --page-size 4")
    for row in document["vacuous"]:
        yield f"vacuous: {row['transition']} at P={row['page_size'] or 'any'}: {row['problem']}"


def _needs(results: list[Result]) -> list[str]:
    """Return the invariants that the proofs assume in the state before the transition."""
    used = Counter(
        clause.partition(".")[0]
        for result in results
        for clause in result.core
        if clause.startswith("INV-") and clause != result.clause
    )
    return [name for name, _ in used.most_common()]
