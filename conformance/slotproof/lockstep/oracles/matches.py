"""INV-MATCH: the tree gets what is computed, and what it has of a prompt is found."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated
from slotproof.lockstep.published import PUBLISHES, known_tokens, transitions_where
from slotproof.protocol.snapshot import RequestView

_EVERYS = transitions_where(lambda each: each.course == "every request")
(MATCHES,) = (_EVERYS - PUBLISHES) & transitions_where(lambda each: each.stage == "match")
(SHARES,) = _EVERYS & PUBLISHES & transitions_where(lambda each: each.stage == "run")
(LEAVES,) = _EVERYS & PUBLISHES & transitions_where(lambda each: each.stage == "finish")
"""What a request without a slot does with the tree: it matches, shares its prompt, and leaves what
it has when it ends."""
WHOLE = "whole matches"
"""What an engine names in ``not_observed`` whose cache may be used less than it could."""


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
        if seen.config.logprobs:  # those of a whole prompt take that it is computed
            continue
        seen.coverage.checked["INV-MATCH"] += there > 0
        if matched < there:
            words = "{rid} matched {engine} tokens of its prompt, and {spec} are in the tree"
            yield violated(
                "INV-MATCH.all", words, rid=rid, transition=MATCHES, spec=there, engine=matched
            )
    published.learn(seen.previous, now, seen.client)
    if not seen.config.window:  # what has left its window can't be shared
        yield from _shared(seen)
        yield from _left(seen)


def _shared(seen: Observation) -> Iterator[Violation]:
    """Of who goes on decoding, the prompt. A turn's goes there when, and if, its slot does."""
    if SHARES not in seen.capabilities.transitions:
        return
    now = seen.snapshot
    admitted = {rid for transition, _, rid, _ in now.get("events", ()) if transition == MATCHES}
    for rid, request in now["requests"].items():
        before = seen.previous["requests"].get(rid)
        if before is None or rid in admitted or not _decodes(before) or not _decodes(request):
            continue
        whole = seen.published.whole(request["prompt"])
        if request["Q"] < whole and before["C"] < request["C"]:
            words = "{rid} decodes, {engine} tokens of its prompt are in the tree, not {spec}"
            yield violated("INV-MATCH.prompt", words, rid=rid, spec=whole, engine=request["Q"])


def _decodes(request: RequestView) -> bool:
    return request["kind"] == "plain" and request["phase"] == "running" and request["output"] > 0


def _left(seen: Observation) -> Iterator[Violation]:
    """Of who was answered, all but the last token, which has no KV; and but for the last rounds,
    where a round's tokens become known after it, or after the next one began."""
    draft, overlap = seen.config.draft, seen.config.overlap
    late = 1 + draft + (draft + 1 if overlap else 0)
    for transition, _, rid, params in seen.snapshot.get("events", ()):
        if transition == LEAVES:
            both = known_tokens(rid or "", seen.previous, seen.snapshot, seen.client)
            whole, left = seen.published.whole(sum(map(len, both)) - late), params.get("q", 0)
            if left < whole:
                words = "{rid} ended and left {engine} of its tokens in the tree, not {spec}"
                yield violated(
                    "INV-MATCH.left", words, rid=rid, transition=LEAVES, spec=whole, engine=left
                )
