"""INV-CHECKER: the engine's own check ran, covers every pool, and is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.conformance.lockstep.observation import Observation, Violation, violated
from slotproof.conformance.lockstep.oracles import owners
from slotproof.conformance.lockstep.oracles.counts import EQUATIONS, expected_report


def judge(seen: Observation) -> Iterator[Violation]:
    check = seen.snapshot["checker"]
    if check["verdict"] == "crash":
        message = check["message"]
        yield violated("INV-CHECKER.verdict", "the check raised: {message}", message=message)
        return
    busy = any(
        request["in_last"] or request["in_running"]
        for request in seen.snapshot["requests"].values()
    )
    if not check["ran"]:
        if busy and check["level"] > 0:
            yield Violation("INV-CHECKER", "ran", "a batch was there and the check did not run")
        return
    seen.coverage.checked["INV-CHECKER"] += 1
    for pool in seen.snapshot["pools"]:
        if pool not in check["pools"]:
            words = "the check does not look at the {pool} pool"
            yield violated("INV-CHECKER.covers", words, pool=pool)
            continue
        theirs: Mapping[str, Any] = check["pools"][pool]
        held, uncached = expected_report(seen, pool, theirs["held"])
        mine = {**seen.figures(pool), "held": held, "uncached": uncached}
        wrong = [name for name in mine if mine[name] != theirs[name]]
        if wrong:
            yield violated(
                "INV-CHECKER.figures",
                "{pool}: the check says {theirs}, ownership gives {mine} ({names})",
                theirs=tuple(theirs[name] for name in mine),
                mine=tuple(mine.values()),
                names=", ".join(mine),
                pool=pool,
                variable=f"{pool}.{wrong[0]}",
                spec=mine[wrong[0]],
                engine=theirs[wrong[0]],
            )
    broken = {invariant for _, invariant, _ in seen.broken}
    if broken & EQUATIONS.keys() and check["verdict"] == "ok":
        yield Violation("INV-CHECKER", "verdict", "memory does not add up, the check says ok")
    if check["verdict"] == "leak" and not broken and not list(owners.judge(seen)):
        words, said = "nothing is wrong, the check says: {said}", check["message"] or "leak"
        yield violated("INV-CHECKER.alarm", words, said=said)
