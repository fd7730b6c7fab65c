"""INV-ANSWER: an answer is what its client asked for, and an abort is heard."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Sent
from slotproof.lockstep.observation import Observation, Violation, violated

PATIENCE = 8
"""Iterations, pauses apart, within which an abort that was read is answered."""
ON_ITS_WAY = 2
"""Iterations after which a request that an abort was read for may not finish by itself any more:
with overlap scheduling a round is under way."""

WITHOUT_SESSION = "requests without a session"
WITHOUT_TOKENS = "turns without new tokens"
FOR_NOTHING = "requests for no token"
"""What an engine names in ``not_observed`` that refuses them all: the last, `max_new` 0."""

ROOM = "room that idle slots make"
"""What an engine names there that discards none of them for a request that needs the memory."""


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
            words = "{rid} is not answered {engine} iterations after an abort of it was read"
            yield violated("INV-ANSWER.aborts", words, rid=rid, engine=PATIENCE)


def _answer(seen: Observation, rid: str, sent: Sent) -> Iterator[Violation]:
    count, asked = len(sent.output), max(0, sent.max_new)
    if sent.reason == "abort":
        unasked = _unasked(seen, sent)
        too_long = sent.most > seen.config.context_len and not _ended(seen, sent)
        refused = sent.refusable is True or too_long
        maybe = unasked and (count > asked if _large(seen, sent) else sent.refusable is None)
        if count and (refused or maybe):
            words = "{rid} was refused and got {engine} tokens"
            yield violated("INV-ANSWER.nothing", words, rid=rid, spec=0, engine=count)
            return
        if aborted_unasked(seen, sent):
            words = "{rid} was aborted: nobody asked for it, and nothing stood in its way"
            yield violated("INV-ANSWER.unasked", words, rid=rid)
    elif sent.reason not in ("length", "stop", *seen.capabilities.answers):
        words = "{rid} ended by {reason}, which is no reason"
        yield violated("INV-ANSWER.reason", words, rid=rid, reason=repr(sent.reason))
    elif sent.aborted is not None and sent.aborted > ON_ITS_WAY:
        words = "{rid} went on for {engine} iterations after an abort of it was read"
        yield violated("INV-ANSWER.aborts", words, rid=rid, engine=sent.aborted)
    if count > asked:
        words = "{rid} asked for {spec} tokens at most and got {engine}"
        yield violated("INV-ANSWER.most", words, rid=rid, spec=asked, engine=count)
    elif sent.reason == "length" and count < asked and not _large(seen, sent):
        words = "{rid} ended by length with {engine} tokens of {spec}"
        yield violated("INV-ANSWER.length", words, rid=rid, spec=asked, engine=count)
    if isinstance(sent.output, list):
        yield from _stop(rid, sent, sent.output)


def aborted_unasked(seen: Observation, sent: Sent) -> bool:
    """Whether it was aborted, and there can be no reason: what it got is no answer."""
    aborted = sent.reason == "abort" and sent.refusable is False
    return aborted and _unasked(seen, sent) and not _large(seen, sent)


def _unasked(seen: Observation, sent: Sent) -> bool:
    """Whether nobody asked for its end, and the engine serves its kind."""
    return not _ended(seen, sent) and _served(seen, sent)


def _ended(seen: Observation, sent: Sent) -> bool:
    return sent.aborted is not None or sent.closed or _turned_away(seen, sent)


def _turned_away(seen: Observation, sent: Sent) -> bool:
    """Whether an option of the server may have ended it: more may have waited than may wait, its
    time is over, or a later request may have taken its place."""
    config, client = seen.config, seen.client
    ended = sum(message["type"] == "finish" for message in seen.snapshot["messages"])
    full = 0 < config.queue < len(client.unanswered) + ended
    limits = [each for each in (config.waiting_timeout, config.running_timeout) if each]
    replaced = config.branching and sent.session is None and client.later(sent)
    return full or replaced or any(client.clock - sent.since >= each for each in limits)


def _served(seen: Observation, sent: Sent) -> bool:
    """Whether it is of no kind of which the engine serves none."""
    kinds = {
        WITHOUT_SESSION: sent.session is None,
        WITHOUT_TOKENS: not len(sent.tokens),
        FOR_NOTHING: sent.max_new <= 0,
    }
    return not any(kinds[each] for each in kinds.keys() & seen.capabilities.not_observed.keys())


def _stop(rid: str, sent: Sent, output: list[int]) -> Iterator[Violation]:
    """Whether it went as far as its first stop token, and no further."""
    stops = [number for number, token in enumerate(output, 1) if token in sent.stop]
    count = len(output)
    if stops and stops[0] < count:
        words = "{rid} got {engine} tokens; its stop token is number {spec}"
        yield violated("INV-ANSWER.past_stop", words, rid=rid, spec=stops[0], engine=count)
    elif sent.reason == "stop" and not stops:
        words = "{rid} ended by stop without a stop token"
        yield violated("INV-ANSWER.stop", words, rid=rid)
    elif sent.reason == "length" and stops and count < sent.max_new:
        words = "{rid} ended at a stop token, and it was told that this is its length"
        yield violated("INV-ANSWER.reason", words, rid=rid)


def _large(seen: Observation, sent: Sent) -> bool:
    """Whether it may not fit, though nobody else ran: into the context, or into a pool. What idle
    slots hold is room for whoever needs it, but not in every engine."""
    config = seen.config
    ahead = (config.draft * config.topk + 1) * (2 if config.overlap else 1) + config.page_size
    wanted = sent.most + seen.capabilities.margin
    slots = [*seen.snapshot["slots"].values(), *seen.previous["slots"].values()]
    stay = ROOM in seen.capabilities.not_observed
    kept = sum(each["A"] + config.page_size for each in slots if stay)
    room = min(pool["total"] for pool in seen.snapshot["pools"].values()) - kept
    return wanted > config.context_len or wanted + ahead > room
