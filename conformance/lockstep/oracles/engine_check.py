"""INV-CHECKER: the engine's own check ran, covers every pool, and is right."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation
from slotproof.conformance.lockstep.oracles import owners
from slotproof.conformance.lockstep.oracles.counts import expected_report


def judge(seen: Observation) -> Iterator[Violation]:
    check = seen.snapshot["checker"]
    if check["verdict"] == "crash":
        yield Violation("INV-CHECKER", "verdict", f"the check raised: {check['message']}")
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
            yield Violation("INV-CHECKER", "covers", f"the check does not look at the {pool} pool")
            continue
        figures = check["pools"][pool]
        start = 0 if pool == "full" else 4
        total, available, evictable, protected = seen.figures[start : start + 4]
        mine = (
            available,
            evictable,
            protected,
            *expected_report(seen, pool, figures["held"]),
            total,
        )
        theirs = (
            figures["available"],
            figures["evictable"],
            figures["protected"],
            figures["held"],
            figures["uncached"],
            figures["total"],
        )
        if mine != theirs:
            yield Violation(
                "INV-CHECKER",
                "figures",
                f"{pool}: the check says {theirs}, ownership gives {mine} "
                "(available, evictable, protected, held, uncached, total)",
            )
    broken = {invariant for _, invariant, _ in seen.broken}
    if broken & {"INV-SUM-FULL", "INV-SUM-SWA"} and check["verdict"] == "ok":
        yield Violation("INV-CHECKER", "verdict", "memory does not add up, the check says ok")
    if check["verdict"] == "leak" and not broken and not list(owners.judge(seen)):
        said = check["message"] or "leak"
        yield Violation("INV-CHECKER", "alarm", f"nothing is wrong, the check says: {said}")
