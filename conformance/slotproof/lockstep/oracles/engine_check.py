"""INV-CHECKER: the engine's own memory check runs, covers every pool, and reports the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from slotproof.lockstep.observation import TERMS, Observation, Violation, all_of, violated
from slotproof.lockstep.oracles import owners
from slotproof.lockstep.oracles.counts import EQUATIONS, expected_report
from slotproof.lockstep.published import moving, transitions_where
from slotproof.protocol.snapshot import CheckerView
from slotproof_model.spec.memory import Move
from slotproof_model.spec.state import NO_ROW

BATCHES = transitions_where(lambda transition: transition.stage == "run") & moving(Move.ALLOC)
"""Transitions that show a batch. Its requests may have finished since, or may await a chunk."""
KEPT = 100
"""Number of log lines that an engine must store before it may drop the oldest."""


def judge(seen: Observation) -> Iterator[Violation]:
    check = seen.snapshot["checker"]
    if check["verdict"] == "crash":
        message = check["message"]
        yield violated("INV-CHECKER.verdict", "the check raised: {message}", message=message)
        return
    ran = [rid for rid, request in seen.snapshot["requests"].items() if request["in_last"]] or [
        f"{name} of {rid}" for name, _, rid, _ in seen.snapshot.get("events", []) if name in BATCHES
    ]
    if not check["ran"]:
        if ran and check["level"] > 0:
            words = "a batch ran ({who}), but the check did not"
            yield violated("INV-CHECKER.ran", words, who=all_of(dict.fromkeys(ran)))
        return
    seen.coverage.checked["INV-CHECKER"] += 1
    for pool in seen.snapshot["pools"]:
        if pool not in check["pools"]:
            words = "the engine's check leaves out the {pool} pool"
            yield violated("INV-CHECKER.covers", words, pool=pool)
            continue
        theirs: Mapping[str, Any] = check["pools"][pool]
        held, uncached = expected_report(seen, pool, theirs["held"])
        ours = {**seen.figures(pool), "held": held, "uncached": uncached}
        if wrong := [name for name in ours if ours[name] != theirs[name]]:
            words = "{pool}: the check reports {theirs}, ownership gives {mine} ({names})"
            yield violated(
                "INV-CHECKER.figures",
                words,
                pool=pool,
                variable=f"{pool}.{wrong[0]}",
                spec=ours[wrong[0]],
                engine=theirs[wrong[0]],
                theirs=tuple(theirs[name] for name in ours),
                mine=tuple(ours.values()),
                names=", ".join(ours),
            )
    yield from _counted(seen, check)
    yield from _log(check, seen.previous["checker"].get("kept", 0))
    broken = {invariant for _, invariant, _ in seen.broken}
    if broken & EQUATIONS.keys() and check["verdict"] == "ok":
        pool = EQUATIONS[min(broken & EQUATIONS.keys())]
        share = seen.figures(pool)
        had, total = sum(share[term] for term in TERMS), share["total"]
        words = "{pool}: {engine} of {spec} tokens are accounted for, but the check reports ok"
        yield violated("INV-CHECKER.verdict", words, pool=pool, spec=total, engine=had)
    if check["verdict"] == "off":
        yield violated("INV-CHECKER.verdict", "the check ran without a verdict")
    if check["verdict"] == "leak" and not broken and not list(owners.judge(seen)):
        words, said = "no clause is broken, the check reports: {said}", check["message"] or "leak"
        yield violated("INV-CHECKER.alarm", words, said=said)


def _counted(seen: Observation, check: CheckerView) -> Iterator[Violation]:
    """Check which requests the engine counts, if KV on loan does not count as the slot's KV."""
    if "counted" not in check or seen.world.constants.profile.choices["loan"] != "uncached":
        return
    times = Counter(check["counted"])
    for rid, request in seen.snapshot["requests"].items():
        due = int(request["row"] != NO_ROW)
        if not due <= times.get(rid, 0) <= 1:
            words = "the check counts {rid} {engine} times, expected {spec}"
            yield violated("INV-CHECKER.counted", words, rid=rid, spec=due, engine=times[rid])


def _log(check: CheckerView, before: int) -> Iterator[Violation]:
    """Check how many lines the check's level logged. ``before``: number of lines stored earlier."""
    logged, kept = check.get("logged"), check.get("kept")
    if logged is None or kept is None:
        return
    level = check["level"]
    words = f"level {level}: {logged} lines logged, {kept} stored, {before} stored before; {{due}}"
    if check["verdict"] == "leak":
        least = min(before + 1, KEPT)
        if logged < least:
            yield violated("INV-CHECKER.dump", words, due=f"expected {least} logged")
    elif (logged, kept) != (0, max(kept, before, 1)) if level == 1 else not logged:
        most = f"expected 0 logged, {max(before, 1)} stored"
        due = most if level == 1 else "expected a line per check"
        yield violated("INV-CHECKER.level", words, due=due)
