"""INV-HISTORY and INV-INFLIGHT.one: what sessions remember is what clients were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation, violated
from slotproof.conformance.protocol.snapshot import differ, token_hash

_HASHES = ": the hash is {said}, theirs {right}"


def judge(seen: Observation) -> Iterator[Violation]:
    for sid, session in seen.snapshot["sessions"].items():
        expected = seen.client.history.get(sid)
        if expected is None:
            continue
        seen.coverage.checked["INV-HISTORY"] += 1
        if session["history"] != len(expected):
            words = "{session} remembers {engine} tokens, its client {spec}"
        elif differ(session["hash"], expected):
            words = "{session} remembers other tokens than its client ({spec} of them)" + _HASHES
        else:
            continue
        told, known = len(expected), session["history"]
        hashes = {"said": session["hash"], "right": token_hash(expected)}
        yield violated("INV-HISTORY.history", words, session=sid, spec=told, engine=known, **hashes)
    turns: Counter[str] = Counter()
    for rid, request in seen.snapshot["requests"].items():
        if request["kind"] != "turn" or request["session"] is None:
            continue
        turns[request["session"]] += 1
        prompt = seen.client.prompt_of(rid)
        if prompt is not None and differ(request["hash"], prompt):
            words = "the prompt of {rid} has {engine} tokens; history and new tokens are {spec}"
            yield violated(
                "INV-HISTORY.prompt",
                words + ("" if len(prompt) != request["prompt"] else ", and others" + _HASHES),
                spec=len(prompt),
                engine=request["prompt"],
                said=request["hash"],
                right=token_hash(prompt),
                session=request["session"],
                rid=rid,
            )
    seen.coverage.checked["INV-INFLIGHT"] += 1
    for sid, count in turns.items():
        if count > 1:
            words = "{session} has {engine} unfinished turns"
            yield violated("INV-INFLIGHT.one", words, session=sid, spec=1, engine=count)
