"""INV-LIMIT: batches are no larger than the configuration allows."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    config, requests = seen.config, seen.snapshot["requests"]
    running = sum(each["phase"] == "running" for each in requests.values())
    if running:
        seen.coverage.checked["INV-LIMIT"] += 1
    if running > config.max_running:
        words, most = "{engine} requests run; {spec} may", config.max_running
        yield violated("INV-LIMIT.running", words, spec=most, engine=running)
    if config.chunk:
        yield from _chunks(seen)


def _chunks(seen: Observation) -> Iterator[Violation]:
    """A prefill's length where its beginning is known for certain: matched, or parked."""
    parked = seen.previous["requests"].items()
    begins = {rid: view["C"] for rid, view in parked if view["phase"] == "parked"}
    for _, sid, rid, params in seen.snapshot.get("events", []):
        if rid is None:
            continue
        if "m" in params:  # it was matched
            begins[rid] = params["m"]
        elif "t" in params and rid in begins:  # it was extended
            length = params["t"] - begins.pop(rid)
            if length > seen.config.chunk:
                words = "{rid}: {engine} tokens are prefilled at once; {spec} may"
                most = seen.config.chunk
                yield violated(
                    "INV-LIMIT.chunk", words, session=sid, rid=rid, spec=most, engine=length
                )
        else:
            begins.pop(rid, None)
