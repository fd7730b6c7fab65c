"""INV-ECONOMY: the tree evicts only memory that is needed, and window KV is given back."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated
from slotproof.lockstep.oracles.matches import SHARES
from slotproof.lockstep.published import EVICTS, moving, transitions_where
from slotproof.protocol.snapshot import Event
from slotproof_model.spec.memory import Move

_GIVES_BACK = moving(Move.FREE) | moving(Move.EVICT)
_GIVES_UP = transitions_where(lambda spec: spec.stage in ("retract", "abort")) - EVICTS
"""Transitions of an engine whose eviction freed too little memory."""


def judge(seen: Observation) -> Iterator[Violation]:
    if (events := seen.snapshot.get("events")) is None:
        return
    yield from _evicted(seen, events)
    if seen.config.window:
        yield from _left_behind(seen)


def _evicted(seen: Observation, events: list[Event]) -> Iterator[Violation]:
    """Check that the iteration needed the memory of its last eviction."""
    last = max((at for at, event in enumerate(events) if event[0] in EVICTS), default=None)
    asked = any(command["do"] in ("flush", "flush_all", "evict") for command in seen.client.heard)
    if last is None or asked or any(event[0] in _GIVES_UP for event in events):
        return
    if any(map(_gives_back, events[last + 1 :])):
        return  # The pools do not show how much was free before.
    seen.coverage.checked["INV-ECONOMY"] += 1
    # An engine may estimate the need of each request: a whole round, and one page.
    most = seen.config.page_size + seen.world.constants.slack - 1
    rounded = most * len({event[2] for event in events if event[2]})
    gone = {"full": events[last][3].get("n", 0), "swa": events[last][3].get("swa_n", 0)}
    pools = seen.snapshot["pools"]
    spare = {name: pools[name]["available"] for name, n in gone.items() if n and name in pools}
    if spare and all(spare[name] >= gone[name] + rounded for name in spare):
        name = next(iter(spare))
        yield violated(
            "INV-ECONOMY.evicts",
            "{pool}: {engine} tokens were evicted, and {free} are free afterwards",
            transition=events[last][0],
            pool=name,
            engine=gone[name],
            free=spare[name],
        )


def _gives_back(event: Event) -> bool:
    """Return True if the event frees memory. An insert without duplicates frees none."""
    duplicates = event[0] != SHARES or event[3].get("dup") or event[3].get("swa_dup")
    return event[0] in _GIVES_BACK and bool(duplicates)


def _left_behind(seen: Observation) -> Iterator[Violation]:
    """Check that the cursor of a decoding request follows its window."""
    config, waits = seen.config, seen.client.behind
    for rid, request in seen.snapshot["requests"].items():
        before = seen.previous["requests"].get(rid)
        decodes = before is not None and before["C"] < request["C"] and request["output"] > 1
        kept = request["C"] - max(request["E"], request["Q"])
        far = kept >= config.window + 2 * config.page_size  # at least a page too many
        if before is None or not far or request["E"] > before["E"]:
            waits.pop(rid, None)
        elif decodes:
            waits[rid] += 1
            seen.coverage.checked["INV-ECONOMY"] += 1
            if waits[rid] == config.window + config.page_size:
                words = "{rid} has C {engine} and E {cursor} after {n} rounds"
                told = {"engine": request["C"], "cursor": request["E"], "n": waits[rid]}
                yield violated("INV-ECONOMY.cursor", words, rid=rid, **told)
