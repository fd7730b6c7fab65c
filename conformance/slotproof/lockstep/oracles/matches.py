"""INV-MATCH: computed KV enters the tree, and a request matches every prompt token in the tree."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import Observation, Violation, violated
from slotproof.lockstep.published import PUBLISHES, known_tokens, transitions_where
from slotproof.protocol.snapshot import RequestView
from slotproof_model.spec.state import req

_EVERYS = transitions_where(lambda spec: spec.course == "every request")
(MATCHES,) = (_EVERYS - PUBLISHES) & transitions_where(lambda spec: spec.stage == "match")
(SHARES,) = _EVERYS & PUBLISHES & transitions_where(lambda spec: spec.stage == "run")
(LEAVES,) = _EVERYS & PUBLISHES & transitions_where(lambda spec: spec.stage == "finish")
"""Transitions of a request without a slot: to match, to publish its prompt, and to end."""
(ADVANCES,) = transitions_where(lambda spec: set(spec.effect) == {req.E.name})
"""Transition that frees window KV."""
WHOLE = "whole matches"
"""Key in the ``not_observed`` of an engine that may match fewer tokens than its tree has."""


def judge(seen: Observation) -> Iterator[Violation]:
    published, now = seen.published, seen.snapshot
    unseen = seen.config.no_tree or WHOLE in seen.capabilities.not_observed
    if now.get("events") is None or unseen:
        return
    published.forget(now)
    reserve = int(seen.world.constants.profile.choices["reserve"])
    for transition, _, rid, params in now["events"]:
        if transition != MATCHES:
            continue
        prompt, _ = known_tokens(rid or "", seen.previous, now, seen.client)
        in_tree, matched = published.longest(prompt, reserve), params.get("m", 0)
        if seen.config.logprobs:  # For its logprobs, a prompt is computed as a whole.
            continue
        seen.coverage.checked["INV-MATCH"] += in_tree > 0
        if matched < in_tree:
            words = "{rid} matched {engine} tokens of its prompt, but {spec} are in the tree"
            yield violated(
                "INV-MATCH.all", words, rid=rid, transition=MATCHES, spec=in_tree, engine=matched
            )
    published.learn(seen.previous, now, seen.client)
    yield from _shared(seen)
    yield from _left(seen)


def _shared(seen: Observation) -> Iterator[Violation]:
    """Check that the tree has the prompt of each decoding request without a session."""
    if SHARES not in seen.capabilities.transitions:
        return
    now = seen.snapshot
    admitted = {rid for transition, _, rid, _ in now.get("events", ()) if transition == MATCHES}
    for rid, request in now["requests"].items():
        before = seen.previous["requests"].get(rid)
        if before is None or rid in admitted or not _decodes(before) or not _decodes(request):
            continue
        if _past_window(seen, rid):
            continue
        whole = seen.published.whole(request["prompt"])
        # The prompt is published with the prefill's result, which a later batch may precede.
        if request["Q"] < whole and before["output"] < request["output"]:
            words = "{rid} decodes with {engine} tokens of its prompt in the tree, expected {spec}"
            yield violated("INV-MATCH.prompt", words, rid=rid, spec=whole, engine=request["Q"])


def _decodes(request: RequestView) -> bool:
    return request["kind"] == "plain" and request["phase"] == "running" and request["output"] > 0


def _past_window(seen: Observation, rid: str) -> bool:
    """Return True if window KV past the request's prefix was freed. The engine then need not
    publish more: few requests can use a page with KV in one pool only."""
    views = (side["requests"].get(rid) for side in (seen.previous, seen.snapshot))
    moves = (event for event in seen.snapshot.get("events", ()) if event[0] == ADVANCES)
    return any(view and view["E"] > view["Q"] for view in views) or any(e[2] == rid for e in moves)


def _left(seen: Observation) -> Iterator[Violation]:
    """Check that a finished request left its tokens in the tree. Two groups are exempt: the last
    token, which has no KV, and tokens of the last rounds, which may be known too late."""
    late = (1 + seen.config.draft) * seen.config.depth
    for transition, _, rid, params in seen.snapshot.get("events", ()):
        if transition == LEAVES and not _past_window(seen, rid or ""):
            both = known_tokens(rid or "", seen.previous, seen.snapshot, seen.client)
            whole, left = seen.published.whole(sum(map(len, both)) - late), params.get("q", 0)
            if left < whole:
                words = "{rid} ended and left {engine} of its tokens in the tree, expected {spec}"
                yield violated(
                    "INV-MATCH.left", words, rid=rid, transition=LEAVES, spec=whole, engine=left
                )
