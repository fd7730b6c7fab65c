"""INV-ANSWER: every request gets exactly one final answer."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation


def judge(seen: Observation) -> Iterator[Violation]:
    seen.coverage.checked["INV-ANSWER"] += 1
    for message in seen.snapshot["messages"]:
        if message["type"] != "finish":
            continue
        sent = seen.client.requests.get(message["rid"])
        if sent is None:
            text = f"an answer to {message['rid']}, which nobody sent"
            yield Violation("INV-ANSWER", "once", text)
        elif sent.answers > 1:
            yield Violation(
                "INV-ANSWER", "once", f"{message['rid']} was answered {sent.answers} times"
            )
    if seen.snapshot["requests"] or seen.client.unread:
        return
    for rid, sent in seen.client.requests.items():
        if not sent.answers:
            text = f"{rid} is not in the engine any more and was never answered"
            yield Violation("INV-ANSWER", "never_silent", text)
            return
