"""INV-HISTORY and INV-INFLIGHT.one: a session's history has the tokens that its client received,
and a turn's prompt continues that history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated
from slotproof.protocol.snapshot import differ, token_hash

_HASHES = ": the hash is {said}, expected {right}"


def judge(seen: Observation) -> Iterator[Violation]:
    for sid, session in seen.snapshot["sessions"].items():
        if (expected := seen.client.history.get(sid)) is None:
            continue
        seen.coverage.checked["INV-HISTORY"] += 1
        if session["history"] != len(expected):
            words = "{session} has {engine} tokens of history, expected {spec}"
        elif differ(session["hash"], expected):
            words = "{session} has {spec} tokens of history, but not those of its client" + _HASHES
        else:
            continue
        yield violated(
            "INV-HISTORY.history",
            words,
            session=sid,
            spec=len(expected),
            engine=session["history"],
            said=session["hash"],
            right=token_hash(expected),
        )
    turns: Counter[str] = Counter()
    for rid, request in seen.snapshot["requests"].items():
        whose = request["session"]
        if request["kind"] == "turn" and whose is not None:
            turns[whose] += 1
        elif not _whole(seen, rid):
            continue
        if (prompt := seen.client.prompt_of(rid)) is not None and differ(request["hash"], prompt):
            words = "the prompt of {rid} has {engine} tokens, history and new tokens are {spec}"
            words += "" if len(prompt) != request["prompt"] else " other tokens" + _HASHES
            yield violated(
                "INV-HISTORY.prompt",
                words,
                session=whose,
                rid=rid,
                spec=len(prompt),
                engine=request["prompt"],
                said=request["hash"],
                right=token_hash(prompt),
            )
    seen.coverage.checked["INV-INFLIGHT"] += 1
    for sid, count in turns.items():
        if count > 1:
            words = "{session} has {engine} unfinished turns, expected at most one"
            yield violated("INV-INFLIGHT.one", words, session=sid, spec=1, engine=count)


def _whole(seen: Observation, rid: str) -> bool:
    """Return True for a request without a session whose prompt fits into context and pool. An
    engine may truncate a longer prompt before refusing the request."""
    sent = seen.client.requests.get(rid)
    most = min(seen.config.context_len, seen.config.total_tokens) - seen.capabilities.margin
    return sent is not None and sent.session is None and len(sent.tokens) <= most
