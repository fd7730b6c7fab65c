"""INV-ANSWER: every request gets exactly one final answer."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated


def judge(seen: Observation) -> Iterator[Violation]:
    seen.coverage.checked["INV-ANSWER"] += 1
    for message in seen.snapshot["messages"]:
        if message["type"] != "finish":
            continue
        rid = message["rid"]
        if (sent := seen.client.requests.get(rid)) is None:
            yield violated("INV-ANSWER.once", "{rid} was answered, but no client sent it", rid=rid)
        elif sent.answers > 1:
            words, times = "{rid} was answered {engine} times, expected once", sent.answers
            yield violated("INV-ANSWER.once", words, rid=rid, spec=1, engine=times)
    if seen.snapshot["requests"] or seen.client.unread:
        return
    for rid, sent in seen.client.requests.items():
        if not sent.answers:
            words = "{rid} left the engine without an answer, expected one"
            yield violated("INV-ANSWER.never_silent", words, rid=rid)
            return
