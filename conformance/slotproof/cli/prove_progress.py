"""``slotproof prove --progress``: a waiting request can be answered if it would fit alone."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import answer
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.prove_invariants import failures
from slotproof.cli.prove_mutant import written
from slotproof.environments.families import FAMILIES
from slotproof.support.statuses import CONFORMS, FOUND
from slotproof.support.terminal import labelled
from slotproof.traces.itf import decode
from slotproof.traces.spec_trace import spec_document, transitions
from slotproof_model.proofs.progress import ADMISSIBLE, EVICT, HELPERS, SENTENCES, prove_progress
from slotproof_model.proofs.prove import PAGE_SIZES
from slotproof_model.proofs.stuck import Looked, Stuck, look, named
from slotproof_model.spec import state

THEOREM = (
    "from every reachable state, with any number of sessions and requests, a waiting request that "
    "would fit alone with its answer can be answered: it is prefilled, gets its tokens and ends"
)
CHOICE = "T-DISCARD"
NEVER_DROPS = frozenset(
    profile for family in FAMILIES.values() if not family.discards for profile in family.profiles
)
"""Profiles of engines that never drop an idle session. These engines can't choose T-DISCARD."""


def prove(sizes: list[int | None], without: list[str], profile: str | None, as_json: bool) -> int:
    """Prove that every waiting request can be answered, or print a counterexample."""
    helpers = (*HELPERS, EVICT)
    for name in without:
        if name not in helpers:
            names = ", ".join(helpers)
            raise UsageProblem(f"--without {name!r} changes nothing; choose from: {names}")
    missing = frozenset(without) | (frozenset([CHOICE]) if profile in NEVER_DROPS else frozenset())
    started = time.perf_counter()
    with progress_bar(not as_json) as tell:
        results, vacuity = prove_progress(
            page_sizes=tuple(sizes or (*PAGE_SIZES, None)),
            without=missing,
            profile=profile,
            tell=lambda done, count: tell("proving", done, count),
        )
    seen = look(missing, profile or "reference")
    failed = [asdict(result) for result in results if result.status != "proved"]
    vacuous = [asdict(check) for check in vacuity if check.vacuous]
    document: dict[str, Any] = {
        "status": FOUND if failed or vacuous or seen.stuck is not None else CONFORMS,
        "theorem": THEOREM,
        "admissible": list(ADMISSIBLE),
        "rank": list(SENTENCES.values()),
        "steps": [name for name in helpers if name not in missing],
        "without": sorted(missing),
        "profile": profile,
        "obligations": len(results),
        "proved": len(results) - len(failed),
        "page_sizes": list(dict.fromkeys(str(result.page_size or "any") for result in results)),
        "failed": failed,
        "vacuous": vacuous,
        "explored": {"states": seen.states, "waiting": seen.waiting},
        "itf": None if seen.stuck is None else to_itf(seen.stuck, missing),
        "seconds": round(time.perf_counter() - started, 2),
    }
    return answer(document, _text(document, seen, _name(missing)), as_json)


def _text(document: dict[str, Any], seen: Looked, name: str) -> Iterator[str]:
    yield from _said("theorem", THEOREM)
    yield from _said("rank", ", then ".join(document["rank"]))
    steps = ", ".join(document["steps"])
    rule = "while the rank is above zero, one of these transitions can be taken and lowers the rank"
    yield from _said(
        "steps",
        f"{steps}: {rule}. At rank zero, T-MATCH and T-EXTEND "
        "follow, then the rounds of the answer and its end",
    )
    if document["profile"] is not None:
        yield from _said("profile", document["profile"])
    if document["without"]:
        own = f"; {CHOICE} drops a slot only for its own turn" * (CHOICE in document["without"])
        yield from _said("without", ", ".join(document["without"]) + own)
    else:
        yield from _said("choice", f"{CHOICE}: an idle slot is dropped for a waiting request")
    yield from failures(document)
    yield from _said("rests on", "the invariants, proved by `slotproof prove`")
    yield (
        f"{document['proved']} of {document['obligations']} obligations proved, "
        f"page sizes {', '.join(document['page_sizes'])}, in {document['seconds']} s"
    )
    if seen.stuck is None:
        yield (
            f"explored: {seen.states} states of one session and one request; in "
            f"{seen.waiting} cases a waiting request would fit, and can be answered"
        )
        return
    who = ("s1", "r1")[seen.stuck.who]
    yield from ("", f"INV-PROGRESS.starved violated by the spec {name}: {who} waits forever")
    yield from transitions(decode(document["itf"]))
    yield (
        f"forever: scheduler and prefix tree can reach {seen.stuck.reachable} states from the last "
        f"state, and {who} is answered in none; shortest: {len(seen.stuck.path)} transitions"
    )
    yield from written(document["itf"], name.replace(" ", "-"))


def _said(label: str, text: str) -> Iterator[str]:
    for index, line in enumerate(textwrap.wrap(text, 84)):
        yield labelled("" if index else label, line)


def _name(missing: frozenset[str]) -> str:
    return f"without {', '.join(sorted(missing))}" if missing else "as it is"


def to_itf(stuck: Stuck, missing: frozenset[str]) -> dict[str, Any]:
    """Return the path to the stuck state in ITF. ``s1`` is the session, ``r1`` is the request."""
    pools = [var.name for var in state.POOLS]
    return spec_document(
        [*pools, *named(stuck.first)],
        [
            (action, params, dict(zip(pools, at.pools, strict=True)) | named(at))
            for action, params, at in stuck.steps()
        ],
        mutant=_name(missing),
        again="slotproof prove --progress" + "".join(f" --without {x}" for x in sorted(missing)),
        page_size=stuck.bounds.page_size,
        violated=["INV-PROGRESS.starved"],
        minimal={"depth": len(stuck.path)},
        waits=("s1", "r1")[stuck.who],
        reachable=stuck.reachable,
    )
