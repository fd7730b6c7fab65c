"""``slotproof prove``: the spec's invariants hold, for any number of sessions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, jobs_count, known_profile, number, option
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.prove_mutant import ITSELF, mutant as prove_mutant
from slotproof.cli.prove_progress import progress as prove_progress
from slotproof.support.terminal import say_all, say_json
from slotproof_model.spec.transitions import TRANSITIONS

if TYPE_CHECKING:
    from slotproof_model.proofs.prove import Result, Vacuity

INIT = "INIT"
SIZE_HELP = "A page size; repeatable. Default: 1, 4, 16, 64; --mutant: 1, 4; --progress: also any."
WITHOUT_HELP = "With --progress: assume that the engine never takes this step; may be repeated."
PROFILE_HELP = "With --progress: the profile of an engine."
DEPTH_HELP = "With --mutant: transitions at most. Default: 9."
MUTANT_HELP = f"Search for a counterexample of a known bug, or of the spec itself ({ITSELF})."

_MODES = {
    "--transition": ("",),
    "--jobs": ("",),
    "--any": ("", "--progress"),
    "--without": ("--progress",),
    "--profile": ("--progress",),
    "--depth": ("--mutant",),
}
"""The proofs that an option goes with."""


def prove(
    page_size: list[int] | None = option("--page-size N", "Proof", SIZE_HELP),
    any_page_size: bool = option("--any", "Proof", "All page sizes: P is a symbol.", False),
    transition: list[str] | None = option("--transition ID", "Proof", "Only this one; repeatable."),
    jobs: int = option("--jobs N", "Proof", "Processes at once; 0 is one per core.", 0),
    progress: bool = option("--progress", "Proof", "Prove that no request waits for ever.", False),
    without: list[str] | None = option("--without TRANSITION", "Proof", WITHOUT_HELP),
    profile: str | None = option("--profile PROFILE", "Proof", PROFILE_HELP),
    mutant: str | None = option("--mutant NAME", "Proof", MUTANT_HELP),
    depth: int | None = option("--depth N", "Proof", DEPTH_HELP),
    as_json: bool = JSON,
) -> int:
    """Prove the spec's invariants, at some page sizes or at any."""
    if progress and mutant:
        raise UsageProblem("--mutant goes alone: leave out --progress")
    mode = "--progress" if progress else "--mutant" if mutant else ""
    given: dict[str, object] = {"--transition": transition, "--jobs": jobs, "--any": any_page_size}
    given |= {"--without": without, "--profile": profile, "--depth": depth is not None}
    for name, value in given.items():
        if value and mode not in _MODES[name]:
            fits = " and ".join(each or "the proof of the invariants" for each in _MODES[name])
            raise UsageProblem(f"{name} goes with {fits}")
    try:
        from slotproof_model.proofs import prove as proofs
        from slotproof_model.proofs.obligations import framing
        from slotproof_model.spec.whole import Spec
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        raise UsageProblem("proofs need Z3: pip install z3-solver") from None
    sizes: list[int | None] = [number(size, 1, "--page-size") for size in page_size or ()]
    sizes += [None] * any_page_size
    if mutant is not None:
        some = [size for size in sizes if size is not None]
        most = 9 if depth is None else number(depth, 1, "--depth")
        return prove_mutant(mutant, some or [1, 4], most, as_json)
    if progress:
        default = [*proofs.PAGE_SIZES, None]
        return prove_progress(sizes or default, without or [], known_profile(profile), as_json)
    for name in transition or ():
        if name != INIT and name not in TRANSITIONS:
            raise UsageProblem(f"there is no transition {name!r}; `slotproof list transitions`")
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs.prove(
            page_sizes=sizes or [*proofs.PAGE_SIZES],
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
        if values := {name: value for name, value in each["model"].items() if value}:
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
