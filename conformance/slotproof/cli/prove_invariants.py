"""``slotproof prove`` by itself: every obligation, and what each transition's proof needs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer, jobs_count
from slotproof.cli.progress_line import progress_bar
from slotproof_model.proofs import prove as proofs
from slotproof_model.proofs.obligations import INIT, Result, framing
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec


def prove(sizes: list[int | None], only: list[str] | None, jobs: int, as_json: bool) -> int:
    """Print what is proved of the invariants; return 1 unless all of it is."""
    for name in only or ():
        if name != INIT and name not in TRANSITIONS:
            raise UsageProblem(f"there is no transition {name!r}; `slotproof list transitions`")
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs.prove(
            page_sizes=sizes or proofs.PAGE_SIZES,
            jobs=jobs_count(jobs, 0) or None,
            only=only,
            tell=lambda done, count: tell("proving", done, count),
        )
    failed = [asdict(each) for each in results if each.status != "proved"]
    vacuous = [asdict(each) for each in vacuity if each.vacuous]
    outside = framing(Spec())
    used = sorted({each.page_size for each in results}, key=lambda size: size or 1 << 30)
    document: dict[str, Any] = {
        "status": 1 if failed or vacuous or outside else 0,
        "obligations": len(results),
        "proved": len(results) - len(failed),
        "needed": sum(each.needed for each in results),
        "seconds": round(time.perf_counter() - started, 2),
        "page_sizes": [str(size or "any") for size in used],
        "failed": failed,
        "vacuous": vacuous,
        "writes_outside": outside,
        "results": [
            {
                **{key: getattr(each, key) for key in ("name", "page_size", "status", "core")},
                "seconds": round(each.seconds, 4),
            }
            for each in results
        ],
    }
    return answer(document, _text(results, document), as_json)


def _text(results: list[Result], document: dict[str, Any]) -> Iterator[str]:
    yield f"{'transition':<20} {'proved':>11} {'seconds':>8}  needs, beside its guard"
    by_transition: dict[str, list[Result]] = {}
    for each in results:
        by_transition.setdefault(each.transition.partition(" [")[0], []).append(each)
    for name, of in by_transition.items():
        proved, seconds = sum(each.status == "proved" for each in of), sum(r.seconds for r in of)
        yield f"{name:<20} {proved:>5} of {len(of):<4}{seconds:>8.2f}  {', '.join(_needs(of))}"
    yield from failures(document)
    for line in document["writes_outside"]:
        yield f"outside its frame: {line}"
    yield (
        f"{document['proved']} of {document['obligations']} obligations proved "
        f"({document['needed']} needed a proof, the rest is framing or the effect alone), "
        f"page sizes {', '.join(document['page_sizes'])}, in {document['seconds']} s"
    )


def failures(document: dict[str, Any], with_state: bool = True) -> Iterator[str]:
    """Yield a line for each obligation that is not proved, and each that speaks of no state."""
    for each in document["failed"]:
        size = each["page_size"] or "any"
        yield f"{each['status']}: {each['transition']} / {each['clause']} / P={size}"
        if with_state and (values := {k: value for k, value in each["model"].items() if value}):
            yield f"    in a state with {values}"
    for each in document["vacuous"]:
        yield f"vacuous: {each['transition']} at P={each['page_size'] or 'any'}: {each['problem']}"


def _needs(results: list[Result]) -> list[str]:
    """Return the invariants of the state before that proofs of these obligations used."""
    used = Counter(
        clause.partition(".")[0]
        for result in results
        for clause in result.core
        if clause.startswith("INV-") and clause != result.clause
    )
    return [name for name, _ in used.most_common()]
