"""INV-LIMIT: no batch is larger than the configuration allows."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, running, violated


def judge(seen: Observation) -> Iterator[Violation]:
    count, most = len(running(seen.snapshot)), seen.config.max_running
    if count:
        seen.coverage.checked["INV-LIMIT"] += 1
    if count > most:
        words = "{engine} requests run at once, the limit is {spec}"
        yield violated("INV-LIMIT.running", words, spec=most, engine=count)
    # Only a match, or a parked request, shows where a prefill begins.
    parked = seen.previous["requests"].items()
    begins = {rid: view["C"] for rid, view in parked if view["phase"] == "parked"}
    for _, sid, rid, params in seen.snapshot.get("events", []) if seen.config.chunk else ():
        if rid is None:
            continue
        if "m" in params:  # a match
            begins[rid] = params["m"]
        elif "t" in params and rid in begins:  # an extend
            length, most = params["t"] - begins.pop(rid), seen.config.chunk
            if length > most:
                words = "{rid}: {engine} tokens are prefilled at once, the limit is {spec}"
                of = {"session": sid, "rid": rid}
                yield violated("INV-LIMIT.chunk", words, **of, spec=most, engine=length)
        else:
            begins.pop(rid, None)
