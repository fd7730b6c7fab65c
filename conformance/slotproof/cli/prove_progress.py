"""``slotproof prove --progress``: whoever waits and would fit alone can be brought to run."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import writing
from slotproof.cli.progress_line import progress_bar
from slotproof.environments.families import FAMILIES
from slotproof.support.files import write_whole
from slotproof.support.statuses import CONFORMS, FOUND
from slotproof.support.terminal import json_text, labelled, say, say_all, say_json
from slotproof.traces.itf import decode
from slotproof.traces.spec_trace import spec_document, transitions

if TYPE_CHECKING:
    from slotproof_model.proofs.obligations import Result
    from slotproof_model.proofs.prove import Vacuity
    from slotproof_model.proofs.stuck import Looked, Stuck

OUT = Path("slotproof-traces")
THEOREM = (
    "from every reachable state, with any number of sessions and requests, one that waits and "
    "would fit alone can be brought to run: all of its prompt prefilled, its next token sampled"
)
CHOICE = "T-DISCARD"
NEVER_DROPS = frozenset(
    profile for family in FAMILIES.values() if not family.discards for profile in family.profiles
)
"""Profiles of engines in which nothing drops an idle session: T-DISCARD is no choice there."""


def progress(
    sizes: list[int | None], without: list[str], profile: str | None, as_json: bool
) -> int:
    """Prove that whoever waits can be brought to run; or show who waits for ever."""
    from slotproof_model.proofs.progress import EVICT, HELPERS, prove_progress as proofs
    from slotproof_model.proofs.stuck import look

    for name in without:
        if name not in (*HELPERS, EVICT):
            names = ", ".join((*HELPERS, EVICT))
            raise UsageProblem(f"--without {name!r} changes nothing; what helps is: {names}")
    missing = frozenset(without) | (frozenset([CHOICE]) if profile in NEVER_DROPS else frozenset())
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs(
            page_sizes=tuple(sizes),
            without=missing,
            profile=profile,
            tell=lambda done, count: tell("proving", done, count),
        )
    seen = look(missing, profile or "reference")
    document = _document(results, vacuity, seen, missing, profile)
    document["seconds"] = round(time.perf_counter() - started, 2)
    if seen.stuck is not None:
        document["itf"] = to_itf(seen.stuck, missing)
    if as_json:
        say_json(document)
        return int(document["status"])
    say_all(_text(document))
    if seen.stuck is not None:
        say_all(_counterexample(seen.stuck, document, missing))
        path = OUT / f"spec-{_name(missing).replace(' ', '-')}.itf.json"
        with writing(path, "the trace"):
            write_whole(path, json_text(document["itf"]))
        say(labelled("trace", path))
    return int(document["status"])


def _document(
    results: list[Result],
    vacuity: list[Vacuity],
    seen: Looked,
    missing: frozenset[str],
    profile: str | None,
) -> dict[str, Any]:
    from slotproof_model.proofs.progress import ADMISSIBLE, EVICT, HELPERS, SENTENCES

    failed = [each for each in results if each.status != "proved"]
    empty = [each for each in vacuity if each.vacuous]
    bad = failed or empty or seen.stuck is not None
    return {
        "status": FOUND if bad else CONFORMS,
        "theorem": THEOREM,
        "admissible": list(ADMISSIBLE),
        "rank": list(SENTENCES.values()),
        "steps": [name for name in (*HELPERS, EVICT) if name not in missing],
        "without": sorted(missing),
        "profile": profile,
        "obligations": len(results),
        "proved": len(results) - len(failed),
        "page_sizes": list(dict.fromkeys(str(each.page_size or "any") for each in results)),
        "failed": [asdict(each) for each in failed],
        "vacuous": [asdict(each) for each in empty],
        "explored": {"states": seen.states, "waiting": seen.waiting},
        "itf": None,
    }


def _text(document: dict[str, Any]) -> Iterator[str]:
    yield from _said("theorem", THEOREM)
    yield from _said("rank", ", then ".join(document["rank"]))
    steps = ", ".join(document["steps"])
    rule = "while the rank is not zero one of them can be taken and lowers it"
    yield from _said("steps", f"{steps}: {rule}; then T-MATCH and T-EXTEND")
    if document["profile"] is not None:
        yield from _said("profile", document["profile"])
    if document["without"]:
        own = f"; {CHOICE} drops a slot for its own turn only" * (CHOICE in document["without"])
        yield from _said("without", ", ".join(document["without"]) + own)
    else:
        yield from _said("choice", f"{CHOICE}: a slot at rest is dropped for one that waits")
    for each in document["failed"]:
        size = each["page_size"] or "any"
        yield f"{each['status']}: {each['transition']} / {each['clause']} / P={size}"
    for each in document["vacuous"]:
        yield f"vacuous: {each['transition']} at P={each['page_size'] or 'any'}: {each['problem']}"
    yield from _said("rests on", "the invariants, which `slotproof prove` proves")
    yield (
        f"{document['proved']} of {document['obligations']} obligations proved, "
        f"page sizes {', '.join(document['page_sizes'])}, in {document['seconds']} s"
    )
    explored = document["explored"]
    if document["itf"] is None:
        yield (
            f"explored: {explored['states']} states of one session and one request; in "
            f"{explored['waiting']} cases one waits that would fit, and can be brought to run"
        )


def _said(label: str, text: str) -> Iterator[str]:
    first, *rest = textwrap.wrap(text, 84)
    yield labelled(label, first)
    yield from (labelled("", line) for line in rest)


def _name(missing: frozenset[str]) -> str:
    return f"without {', '.join(sorted(missing))}" if missing else "as it is"


def _counterexample(
    found: Stuck, document: dict[str, Any], missing: frozenset[str]
) -> Iterator[str]:
    yield ""
    who = ("s1", "r1")[found.who]
    yield f"INV-PROGRESS.starved violated by the spec {_name(missing)}: {who} waits for ever"
    yield from transitions(decode(document["itf"]))
    yield (
        f"for ever: scheduler and tree can lead to {found.reachable} states from there, and in "
        f"none of them {who} has run; shortest: {len(found.path)} transitions"
    )


def to_itf(found: Stuck, missing: frozenset[str]) -> dict[str, Any]:
    """Return the way there as an ITF document; ``s1`` is the session, ``r1`` the request."""
    from slotproof_model.proofs.stuck import named
    from slotproof_model.spec import state

    pools = [var.name for var in state.POOLS]
    return spec_document(
        [*pools, *named(found.first)],
        [
            (action, params, dict(zip(pools, at.pools, strict=True)) | named(at))
            for action, params, at in found.steps()
        ],
        mutant=_name(missing),
        again=" ".join(
            ["slotproof prove --progress", *(f"--without {x}" for x in sorted(missing))]
        ),
        page_size=found.bounds.page_size,
        violated=["INV-PROGRESS.starved"],
        minimal={"depth": len(found.path)},
        waits=("s1", "r1")[found.who],
        reachable=found.reachable,
    )
