"""INV-ANSWER: an answer has the length and the ending that its client asked for, or is an abort."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Sent
from slotproof.lockstep.observation import Observation, Violation, violated

PATIENCE = 8
"""Number of unpaused iterations within which an aborted request must be answered."""
ON_ITS_WAY = 2
"""Number of iterations after an abort in which the request may still finish normally. With overlap
scheduling, a decoding round is in flight when the engine reads the abort. With more batches under
way, the number of batches counts."""

WITHOUT_SESSION = "requests without a session"
WITHOUT_TOKENS = "turns without new tokens"
FOR_NOTHING = "requests for no token"
"""Keys in ``not_observed`` for refused requests. A request for no token has ``max_new`` 0."""

ROOM = "room that idle slots make"
"""Key in the ``not_observed`` of an engine that never discards an idle slot to make room."""


def judge(seen: Observation) -> Iterator[Violation]:
    for message in seen.snapshot["messages"]:
        if message["type"] == "finish":
            sent = seen.client.requests.get(message["rid"])
            if sent is not None and sent.answers == 1 and sent.read:
                yield from _answer(seen, message["rid"], sent)
    if seen.client.paused or seen.snapshot["iter"] == seen.previous["iter"]:
        return
    for rid, sent in seen.client.unanswered.items():
        if sent.aborted is None:
            continue
        sent.aborted += 1
        if sent.aborted == PATIENCE:
            words = "{rid} is not answered {engine} iterations after the engine read its abort"
            yield violated("INV-ANSWER.aborts", words, rid=rid, engine=PATIENCE)


def _answer(seen: Observation, rid: str, sent: Sent) -> Iterator[Violation]:
    count, asked = len(sent.output), max(0, sent.max_new)
    if sent.reason == "abort":
        unasked = _unasked(seen, sent)
        too_long = sent.most > seen.config.context_len and not _ended(seen, sent)
        refused = sent.refusable is True or too_long
        maybe = unasked and (count > asked if _large(seen, sent) else sent.refusable is None)
        if count and (refused or maybe):
            words = "{rid} was refused but got {engine} tokens, expected none"
            yield violated("INV-ANSWER.nothing", words, rid=rid, spec=0, engine=count)
            return
        if aborted_unasked(seen, sent):
            words = "{rid} was aborted, but no client ended it and no limit was reached"
            yield violated("INV-ANSWER.unasked", words, rid=rid)
    elif sent.reason not in ("length", "stop", *seen.capabilities.answers):
        words = "{rid} ended with the unknown reason {reason}"
        yield violated("INV-ANSWER.reason", words, rid=rid, reason=repr(sent.reason))
    elif sent.aborted is not None and sent.aborted > max(ON_ITS_WAY, seen.config.depth):
        words = "{rid} ran for {engine} iterations after the engine read its abort"
        yield violated("INV-ANSWER.aborts", words, rid=rid, engine=sent.aborted)
    if count > asked:
        words = "{rid} asked for {spec} tokens at most and got {engine}"
        yield violated("INV-ANSWER.most", words, rid=rid, spec=asked, engine=count)
    elif sent.reason == "length" and count < asked and not _large(seen, sent):
        words = "{rid} ended by length after {engine} tokens, expected {spec}"
        yield violated("INV-ANSWER.length", words, rid=rid, spec=asked, engine=count)
    if isinstance(sent.output, list):
        yield from _stop(rid, sent, sent.output)


def aborted_unasked(seen: Observation, sent: Sent) -> bool:
    """Return True if the engine aborted the request for no reason. The output is no answer."""
    aborted = sent.reason == "abort" and sent.refusable is False
    return aborted and _unasked(seen, sent) and not _large(seen, sent)


def _unasked(seen: Observation, sent: Sent) -> bool:
    """Return True if no client ended the request, and the engine serves requests of its kind."""
    return not _ended(seen, sent) and _served(seen, sent)


def _ended(seen: Observation, sent: Sent) -> bool:
    return sent.aborted is not None or sent.closed or _turned_away(seen, sent)


def _turned_away(seen: Observation, sent: Sent) -> bool:
    """Return True if a server option may have ended the request. The queue may have been full, a
    time limit may have passed, or a later request may have replaced it."""
    config, client = seen.config, seen.client
    ended = sum(message["type"] == "finish" for message in seen.snapshot["messages"])
    full = 0 < config.queue < len(client.unanswered) + ended
    limits = [limit for limit in (config.waiting_timeout, config.running_timeout) if limit]
    replaced = config.branching and sent.session is None and client.later(sent)
    return full or replaced or any(client.clock - sent.since >= limit for limit in limits)


def _served(seen: Observation, sent: Sent) -> bool:
    """Return True if the engine serves requests of the kind of ``sent``."""
    kinds = {
        WITHOUT_SESSION: sent.session is None,
        WITHOUT_TOKENS: not len(sent.tokens),
        FOR_NOTHING: sent.max_new <= 0,
    }
    return not any(kinds[kind] for kind in kinds.keys() & seen.capabilities.not_observed.keys())


def _stop(rid: str, sent: Sent, output: list[int]) -> Iterator[Violation]:
    """Check that an output ends at its first stop token, and that its reason is right."""
    stops = [number for number, token in enumerate(output, 1) if token in sent.stop]
    count = len(output)
    if stops and stops[0] < count:
        words = "{rid} got {engine} tokens, but token {spec} is its stop token"
        yield violated("INV-ANSWER.past_stop", words, rid=rid, spec=stops[0], engine=count)
    elif sent.reason == "stop" and not stops:
        words = "{rid} ended by stop, but its output has no stop token"
        yield violated("INV-ANSWER.stop", words, rid=rid)
    elif sent.reason == "length" and stops and count < sent.max_new:
        words = "{rid} ended at a stop token with reason length, expected stop"
        yield violated("INV-ANSWER.reason", words, rid=rid)


def _large(seen: Observation, sent: Sent) -> bool:
    """Return True if the request may not fit into the context or a pool, even with no other
    request. Slots reduce the room only in an engine that never discards idle slots."""
    config = seen.config
    ahead = (config.draft * config.topk + 1) * config.depth + config.page_size
    wanted = sent.most + seen.capabilities.margin
    slots = [*seen.snapshot["slots"].values(), *seen.previous["slots"].values()]
    stay = ROOM in seen.capabilities.not_observed
    kept = sum(slot["A"] + config.page_size for slot in slots if stay)
    room = min(pool["total"] for pool in seen.snapshot["pools"].values()) - kept
    return wanted > config.context_len or wanted + ahead > room
