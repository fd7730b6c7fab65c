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
            yield Violation("INV-ANSWER", "once", rid=message["rid"]).says(
                "an answer to {rid}, which nobody sent"
            )
        elif sent.answers > 1:
            found = Violation("INV-ANSWER", "once", rid=message["rid"], spec=1, engine=sent.answers)
            yield found.says("{rid} was answered {engine} times")
    if seen.snapshot["requests"] or seen.client.unread:
        return
    for rid, sent in seen.client.requests.items():
        if not sent.answers:
            found = Violation("INV-ANSWER", "never_silent", rid=rid)
            yield found.says("{rid} is not in the engine any more and was never answered")
            return
