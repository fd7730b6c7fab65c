"""INV-SUM-*, INV-ONCE and every other state invariant, evaluated on the snapshot.

Two figures of each kind: those that ownership gives (slots, requests and their
lengths), and those that the engine's own checker reported. The equation must
hold for both, and they must be the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation
from slotproof.conformance.protocol.snapshot import POOL_NAMES

_EQUATION = {"full": "INV-SUM-FULL", "swa": "INV-SUM-SWA"}
_OF_ALL = {"INV-SUM-FULL", "INV-SUM-SWA", "INV-ROWS", "INV-DRAIN", "INV-LOCK"}
"""Broken for every actor at once: they say nothing of the one that is looked at first."""


def judge(seen: Observation) -> Iterator[Violation]:
    for actor, invariant, conjunct in seen.broken:
        yield Violation(
            invariant,
            conjunct,
            _figures(seen, invariant, actor),
            seen.world.writers.get(actor or ""),
            actor=None if invariant in _OF_ALL else actor,
        )
    for pool in POOL_NAMES:
        if pool not in seen.snapshot["pools"]:
            continue
        seen.coverage.checked[_EQUATION[pool]] += 1
        reported = seen.snapshot["checker"]["pools"].get(pool)
        if not seen.snapshot["checker"]["ran"] or reported is None:
            continue
        terms = ("available", "evictable", "protected", "held", "uncached")
        values = [reported[term] for term in terms]  # type: ignore[literal-required]
        if sum(values) != reported["total"] or min(values) < 0:
            text = f"{' + '.join(map(str, values))} = {sum(values)}, not {reported['total']}"
            yield Violation(_EQUATION[pool], "reported", f"{pool}: {text} ({' + '.join(terms)})")
        expected = expected_report(seen, pool, reported["held"])
        if (reported["held"], reported["uncached"]) != expected:
            yield Violation(
                "INV-ONCE",
                "reported",
                f"{pool}: the engine counts held {reported['held']} and uncached "
                f"{reported['uncached']}, ownership gives {expected[0]} and {expected[1]}",
            )
    _count(seen)


def _count(seen: Observation) -> None:
    """Which clauses there was something to evaluate on."""
    checked = seen.coverage.checked
    snapshot = seen.snapshot
    checked["INV-ROWS"] += 1
    if seen.world.actors:
        checked["INV-CLEAN"] += 1
    else:
        checked["INV-DRAIN"] += 1
    if snapshot["slots"]:
        checked["INV-ONCE"] += 1
    if seen.owners:
        for invariant in ("INV-ORDER", "INV-ALIGN", "INV-COVER"):
            checked[invariant] += 1
        if seen.config.window:
            checked["INV-CURSOR"] += 1
            checked["INV-WINDOW"] += 1


def expected_report(seen: Observation, pool: str, reported_held: int) -> tuple[int, int]:
    """held and uncached as this engine's profile reports KV on loan.

    Where KV on loan is reported as held, so may be that of a turn which has no
    slot yet: the session's record is there from the first prefill on. What is
    reported as held then decides, within those bounds.
    """
    held, uncached = seen.share(pool)
    if seen.world.constants.profile.choices["loan"] == "uncached":
        return held, uncached
    index = 1 if pool == "full" else 3
    turns = {key: share[index] for key, share in seen.world.shares.items() if key[0] != "/"}
    least = sum(tokens for key, tokens in turns.items() if key in seen.lent_slots)
    moved = min(max(reported_held - held, least), sum(turns.values()))
    return held + moved, uncached - moved


def _figures(seen: Observation, invariant: str, actor: str | None) -> str:
    if invariant in ("INV-SUM-FULL", "INV-SUM-SWA"):
        pool = "full" if invariant == "INV-SUM-FULL" else "swa"
        start = 0 if pool == "full" else 4
        total, available, evictable, protected = seen.figures[start : start + 4]
        held, uncached = seen.share(pool)
        terms = [available, evictable, protected, held, uncached]
        text = f"{' + '.join(map(str, terms))} = {sum(terms)}, not {total}"
        return f"{pool}: {text} (available + evictable + protected + held + uncached)"
    if actor is None:
        return "in the pools"
    if actor.startswith("/"):
        return f"{actor[1:]}: {_lengths(seen.snapshot['requests'].get(actor[1:]))}"
    slot = _lengths(seen.snapshot["slots"].get(actor))
    turn = next((r for r in seen.snapshot["requests"].values() if r["session"] == actor), None)
    return f"{actor}: slot {slot}, turn {_lengths(turn)}"


def _lengths(view: object) -> str:
    if not isinstance(view, dict):
        return "none"
    names = ("phase", "lent", "row", "C", "A", "Q", "E", "prompt", "output")
    return " ".join(f"{name}={view[name]}" for name in names if name in view)
