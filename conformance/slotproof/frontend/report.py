"""What a run on a front end comes to: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotproof.frontend.oracle import NOT_OBSERVED
from slotproof.frontend.running import Outcome, Plan
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import duration, labelled


def status(outcome: Outcome) -> int:
    """The exit status: what was interrupted, or played no round, shows nothing."""
    if outcome.found:
        return FOUND
    return INCONCLUSIVE if outcome.interrupted or not outcome.rounds else CONFORMS


def summary(outcome: Outcome, plan: Plan, engine: str, files: list[Path]) -> dict[str, Any]:
    """Everything, as JSON. ``status`` is the exit status."""
    counts = outcome.counts
    return {
        "status": status(outcome),
        "engine": engine,
        "version": outcome.version,
        "mends": list(plan.build.mends),
        "configurations": list(plan.configs),
        "clients": plan.clients,
        "seed": plan.seed,
        "seconds": round(outcome.seconds, 1),
        "interrupted": outcome.interrupted,
        "rounds": outcome.rounds,
        "engines": outcome.lives,
        "sessions": counts["opened"],
        "requests": counts["sent"],
        "heard": {
            "answered": counts["length"] + counts["stop"],
            "aborted": counts["abort"],
            "refused": counts["refused"],
            "errors": counts["raised"],
            "left": counts["left"],
        },
        "asked": {"aborts": counts["aborts"], "closes": counts["closes"]},
        "log": {
            "lines": outcome.lines,
            "iterations": outcome.iterations,
            "transitions": dict(sorted(outcome.transitions.items())),
        },
        "known": dict(sorted(outcome.known.items())),
        "not_observed": {**plan.build.front_end.not_observed, **NOT_OBSERVED},
        "found": [
            {
                "id": each.id,
                "sentence": each.sentence,
                "also": each.also,
                "configuration": each.round.config,
                "round": each.round.number,
                "replayed": {"times": each.replayed, "seen": each.again},
                "file": str(file),
                "log": str(each.log),
            }
            for each, file in zip(outcome.found, files, strict=True)
        ],
    }


def text(told: dict[str, Any]) -> Iterator[str]:
    """For people, line by line; the last line says what it comes to."""
    mended = f", mended: {', '.join(told['mends'])}" if told["mends"] else ""
    yield labelled("engine", f"{told['engine']} ({told['version'] or 'did not start'}{mended})")
    yield labelled(
        "played",
        f"{told['rounds']} rounds with {told['clients']} clients on {told['engines']} engines in "
        f"{duration(told['seconds'])}",
    )
    yield labelled("clients", f"{told['sessions']} sessions, {told['requests']} requests")
    yield labelled("heard", ", ".join(f"{n} {what}" for what, n in told["heard"].items()))
    yield labelled("asked", ", ".join(f"{n} {what}" for what, n in told["asked"].items()))
    log = told["log"]
    yield labelled(
        "log", f"{log['iterations']} iterations, {len(log['transitions'])} transitions seen"
    )
    for number, (part, why) in enumerate(told["not_observed"].items()):
        yield labelled("" if number else "not observed", f"{part}: {why}")
    if told["known"]:
        yield labelled("known", ", ".join(f"{k} × {n}" for k, n in told["known"].items()))
    for each in told["found"]:
        again = each["replayed"]
        yield labelled("found", f"{each['sentence']}")
        if each["also"]:
            yield labelled("", f"in the same round: {', '.join(each['also'])}")
        yield labelled("", f"{each['file']}: seen in {again['seen']} of {again['times']} replays")
        yield labelled("", f"slotproof validate {each['log']}")
    if told["found"]:
        if told["interrupted"]:
            yield labelled("ended early", "interrupted")
        yield f"counterexample: {told['found'][0]['id']}"
    elif told["interrupted"]:
        yield "inconclusive: interrupted"
    elif not told["rounds"]:
        yield "inconclusive: no round was played"
    else:
        yield f"conforms: both judges explain all {told['rounds']} rounds"
