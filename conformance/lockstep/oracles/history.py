"""INV-HISTORY and INV-INFLIGHT.one: what sessions remember is what clients were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation
from slotproof.conformance.protocol.snapshot import token_hash


def judge(seen: Observation) -> Iterator[Violation]:
    for sid, session in seen.snapshot["sessions"].items():
        expected = seen.client.history.get(sid)
        if expected is None:
            continue
        seen.coverage.checked["INV-HISTORY"] += 1
        if session["history"] != len(expected):
            yield _history(sid, expected, session["history"]).says(
                "{session} remembers {engine} tokens, its client {spec}"
            )
        elif session["hash"] is not None and session["hash"] != token_hash(expected):
            yield _history(sid, expected, session["history"]).says(
                "{session} remembers other tokens than its client ({spec} of them)"
            )
    turns: Counter[str] = Counter()
    for rid, request in seen.snapshot["requests"].items():
        if request["kind"] != "turn" or request["session"] is None:
            continue
        turns[request["session"]] += 1
        prompt = seen.client.prompt_of(rid)
        if prompt is None or request["hash"] is None:
            continue
        if request["hash"] != token_hash(prompt):
            found = Violation(
                "INV-HISTORY",
                "prompt",
                variable="turn.prompt",
                spec=len(prompt),
                engine=request["prompt"],
                session=request["session"],
                rid=rid,
            )
            yield found.says(
                "the prompt of {rid} has {engine} tokens; history and new tokens are {spec}"
            )
    seen.coverage.checked["INV-INFLIGHT"] += 1
    for sid, count in turns.items():
        if count > 1:
            found = Violation("INV-INFLIGHT", "one", session=sid, spec=1, engine=count)
            yield found.says("{session} has {engine} unfinished turns")


def _history(sid: str, expected: list[int], remembered: int) -> Violation:
    return Violation(
        "INV-HISTORY",
        "history",
        variable="session.history",
        spec=len(expected),
        engine=remembered,
        session=sid,
    )
