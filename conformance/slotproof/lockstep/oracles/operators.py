"""INV-ANSWER.obeyed: the engine obeys retract, accept, evict, flush, flush_all and pause."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, running, violated
from slotproof.lockstep.published import EVICTS, transitions_where
from slotproof_model.spec.state import PARKED, req

RETRACTS = transitions_where(lambda spec: spec.stage == "retract" and req.phase.name in spec.effect)
PARKS = transitions_where(lambda t: getattr(t.effect.get(req.phase.name), "value", None) == PARKED)
ADMITS = transitions_where(lambda spec: spec.stage == "match" and spec.course.startswith("every"))
TOLD = "commands to the engine"
"""Key in the ``not_observed`` of a driver that can't carry out these commands exactly."""
PATIENCE = 5
"""Number of unpaused iterations within which a retract must take effect."""


def judge(seen: Observation) -> Iterator[Violation]:
    if seen.snapshot.get("events") is None or TOLD in seen.capabilities.not_observed:
        return
    said = {command["do"] for command in seen.client.heard}
    if "evict" in said:
        yield from _evict(seen)
    if "flush" in said:
        yield from _flush(seen, said)
    if "flush_all" in said:
        yield from _flush_all(seen, said)
    if seen.client.paused and "pause" not in said:
        for transition, _, rid, _ in seen.snapshot["events"]:
            if transition in ADMITS:
                words = "{rid} was admitted ({transition}) after the engine read a pause"
                yield violated("INV-ANSWER.obeyed", words, rid=rid, transition=transition)
                break
    if "retract" in said or seen.client.retracting:
        yield from _retract(seen, "retract" in said)
    if seen.config.draft:
        yield from _accept(seen)


def _evict(seen: Observation) -> Iterator[Violation]:
    """Check that an evict removes the requested tokens, or all evictable tokens, in whole pages."""
    heard, before = seen.client.heard, seen.previous["pools"].get("full", {"evictable": 0})
    asked = sum(max(0, command["tokens"]) for command in heard if command["do"] == "evict")
    events = seen.snapshot["events"]
    gone = sum(params.get("n", 0) for transition, _, _, params in events if transition in EVICTS)
    owed = min(asked, before["evictable"])
    if gone < owed:
        words = "{pool}: {engine} tokens were evicted, expected {spec} (requested and evictable)"
        yield violated("INV-ANSWER.obeyed", words, pool="full", spec=owed, engine=gone)


def _flush(seen: Observation, said: set[str]) -> Iterator[Violation]:
    """Check that a flush empties the prefix tree. An engine with work or slots may refuse."""
    before = seen.previous
    idle = not (before["requests"] or before["slots"] or before.get("events") or before["messages"])
    if not idle or said & {"submit", "pause"} or seen.client.paused:
        return
    for pool, view in seen.snapshot["pools"].items():
        if view["evictable"]:
            words = "{pool}: {engine} unlocked tokens are in the tree after a flush, expected none"
            yield violated("INV-ANSWER.obeyed", words, pool=pool, spec=0, engine=view["evictable"])


def _flush_all(seen: Observation, said: set[str]) -> Iterator[Violation]:
    """Check that a forced flush retracts the running requests and evicts the unlocked tokens."""
    now, events = seen.snapshot["requests"], seen.snapshot["events"]
    retracted = {rid for transition, _, rid, _ in events if transition in RETRACTS}
    for rid in sorted((running(seen.previous) & now.keys()) - retracted):
        words = "{rid} ran when the engine read a forced flush, and was not retracted"
        yield violated("INV-ANSWER.obeyed", words, rid=rid)
    before = seen.previous["pools"].get("full", {"evictable": 0})["evictable"]
    gone = sum(params.get("n", 0) for transition, _, _, params in events if transition in EVICTS)
    if gone < before and said == {"flush_all"}:
        words = "{pool}: a forced flush evicted {engine} tokens of {spec} unlocked tokens"
        yield violated("INV-ANSWER.obeyed", words, pool="full", spec=before, engine=gone)


def _retract(seen: Observation, heard: bool) -> Iterator[Violation]:
    """Check that a retract takes a running request out of the batch, unless the request ends."""
    client, now = seen.client, running(seen.snapshot)
    if heard:
        client.retracting, client.waited = running(seen.previous) & now, 0
    took_place = any(event[0] in RETRACTS for event in seen.snapshot["events"])
    if took_place or not client.retracting <= now:
        client.retracting = set()
    client.waited += not client.paused and seen.snapshot["iter"] > seen.previous["iter"]
    if client.retracting and client.waited == PATIENCE:
        words = "none of {running} was retracted {engine} iterations after a retract was read"
        ran = " and ".join(sorted(client.retracting))
        yield violated("INV-ANSWER.obeyed", words, running=ran, engine=PATIENCE)
        client.retracting = set()


def _accept(seen: Observation) -> Iterator[Violation]:
    """Check that a decoding round accepts the commanded tokens. Overlap delays the result."""
    client, config, requests = seen.client, seen.config, seen.snapshot["requests"]
    # The budget of a batch may leave a request fewer drafts than a round has.
    budget = config.chunk if seen.capabilities.rounds_in_chunks else 0
    cut = 0 < budget < config.max_running * (config.draft + 1)
    for command in client.heard:
        if command["do"] == "accept":
            client.told[command["rid"]] = command["tokens"]
    extended = set[str]()
    for transition, _, rid, params in seen.snapshot["events"]:
        if rid is None:
            continue
        if transition in RETRACTS:
            client.under_way.pop(rid, None)
        rounds = client.under_way.setdefault(rid, [])
        if "t" in params:  # a prefill
            extended.add(rid)
            if config.overlap:  # the prefill's token is a result, too
                rounds.append(None)
        elif "d" in params and rid not in extended:  # after a prefill, `d` is only an allocation
            rounds.append(client.told.pop(rid, None))
        elif transition in PARKS and rounds:  # a chunk has no result
            rounds.pop()
        told = "d" if not config.overlap else "sampled"  # with overlap a round's result comes later
        tokens = params["k" if told == "d" else "sampled"] if {told, "k"} <= params.keys() else 0
        if not tokens or not rounds:
            continue
        wanted, view = rounds.pop(0), requests.get(rid)
        room = view is not None and view["C"] + 3 * config.draft + 3 <= config.context_len
        room = room and not cut
        if wanted and room and tokens != min(wanted, config.draft + 1):
            words = "{rid} accepted {engine} tokens of a round, but a command set {spec}"
            yield violated("INV-ANSWER.obeyed", words, rid=rid, spec=wanted, engine=tokens)
    client.told = {rid: count for rid, count in client.told.items() if rid in requests}
    client.under_way = {rid: of for rid, of in client.under_way.items() if rid in requests}
