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
            text = f"{sid} remembers {session['history']} tokens, its client {len(expected)}"
            yield Violation("INV-HISTORY", "history", text, actor=sid)
        elif session["hash"] is not None and session["hash"] != token_hash(expected):
            text = f"{sid} remembers other tokens than its client ({len(expected)} of them)"
            yield Violation("INV-HISTORY", "history", text, actor=sid)
    turns: Counter[str] = Counter()
    for rid, request in seen.snapshot["requests"].items():
        if request["kind"] != "turn" or request["session"] is None:
            continue
        turns[request["session"]] += 1
        prompt = seen.client.prompt_of(rid)
        if prompt is None or request["hash"] is None:
            continue
        if request["hash"] != token_hash(prompt):
            text = (
                f"the prompt of {rid} has {request['prompt']} tokens; history and new tokens "
                f"are {len(prompt)}"
            )
            yield Violation("INV-HISTORY", "prompt", text, actor=request["session"])
    seen.coverage.checked["INV-INFLIGHT"] += 1
    for sid, count in turns.items():
        if count > 1:
            text = f"{sid} has {count} unfinished turns"
            yield Violation("INV-INFLIGHT", "one", text, actor=sid)
