"""INV-MATCH: what was published of a prompt, and not evicted since, is found."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.observation import Observation, Violation, violated
from slotproof.conformance.lockstep.published import known_tokens
from slotproof.model.transitions import TRANSITIONS

(MATCHES,) = (
    name
    for name, each in TRANSITIONS.items()
    if each.stage == "match" and each.course == "every request"
)
WHOLE = "whole matches"
"""What an engine names in ``not_observed`` that may lock less of a prompt than its tree has."""


def judge(seen: Observation) -> Iterator[Violation]:
    published, now = seen.published, seen.snapshot
    if now.get("events") is None or WHOLE in seen.capabilities.not_observed:
        return
    published.forget(now)
    reserve = int(seen.world.constants.profile.choices["reserve"])
    for transition, _, rid, params in now["events"]:
        if transition != MATCHES:
            continue
        prompt, _ = known_tokens(rid or "", seen.previous, now, seen.client)
        there, matched = published.longest(prompt, reserve), params.get("m", 0)
        seen.coverage.checked["INV-MATCH"] += there > 0
        if matched < there:
            words = "{rid} matched {engine} tokens of its prompt, and {spec} are in the tree"
            yield violated(
                "INV-MATCH.all", words, rid=rid, transition=MATCHES, spec=there, engine=matched
            )
    published.learn(seen.previous, now, seen.client)
