"""Bugs of what clients are told and owed: the memory is in order throughout."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from slotproof_engine.kv.kv_cache import KVCache
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Phase, Req, Session
from slotproof_engine.scheduling.intake import Intake
from slotproof_engine.scheduling.rounds import DecodeRounds
from slotproof_engine.scheduling.scheduler import ABORT, Scheduler
from slotproof_engine.sessions.session_controller import SessionController


class _Answers(Scheduler):
    """Tells something else than the scheduler does, of requests without a session."""

    def _finish_if_done(self, req: Req) -> None:
        tokens, told = list(req.output_ids), len(self.outbox.messages)
        super()._finish_if_done(req)
        if req.session is None and len(self.outbox.messages) > told:
            answer = self.outbox.messages[-1]
            if answer["reason"] != ABORT:
                answer.update(self.told(answer, tokens))
            elif req.doomed:
                answer.update(self.refused())

    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """What to tell instead; ``sampled`` are all tokens there are."""
        del answer, sampled
        return {}

    def refused(self) -> dict[str, Any]:
        """What a turn that is doomed is told instead."""
        return {}


class TellsOvershoot(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """What a speculative round sampled past the end, too."""
        del answer
        return {"tokens": sampled}


class LosesLastToken(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """The last token of an answer that ended by length is not sent."""
        del sampled
        return {"tokens": answer["tokens"][:-1]} if answer["reason"] == "length" else {}


class StopToldAsLength(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Whatever ended it."""
        del answer, sampled
        return {"reason": "length"}


class LengthToldAsStop(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Whatever ended it."""
        del answer, sampled
        return {"reason": "stop"}


class EmptyReason(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """An answer of one token has none."""
        return {"reason": "none"} if len(answer["tokens"]) == len(sampled) == 1 else {}


class DoomedToken(_Answers):
    def refused(self) -> dict[str, Any]:
        """It gets a token all the same."""
        return {"tokens": [1]}


class IgnoresStop(Scheduler):
    def add(self, req: Req) -> None:
        """Without a session only the length counts."""
        if req.session is None:
            req.stop_token_ids = frozenset()
        super().add(req)


class ShortQueue(Scheduler):
    def step(self) -> None:
        """Of more than two that wait, the last is aborted."""
        if len(self.waiting_queue) > 2:
            self.abort(self.waiting_queue[-1], "the queue is full")
        super().step()


class KeepsIdleSlots(Scheduler):
    def make_room(self, tokens: int) -> bool:
        """No slot is discarded for a request that needs the memory."""
        fits = self.kv.shortage(tokens) <= self.kv.tree.evictable
        return fits and super().make_room(tokens)


class DeafWhileDecoding(Scheduler):
    def abort(self, req: Req, message: str, *, out_of_memory: bool = False) -> None:
        """A request that decodes is not aborted by its client."""
        if out_of_memory or req.phase != Phase.RUNNING or not req.output_ids:
            super().abort(req, message, out_of_memory=out_of_memory)


class DeafToRetracts(Scheduler):
    def running_reqs(self) -> list[Req]:
        """Says to who wants one of them retracted that nobody runs."""
        return []


class NeverPauses(Scheduler):
    def step(self) -> None:
        """A pause is forgotten before it takes effect."""
        self.paused = False
        super().step()


class EvictsLess(KVCache):
    def evict(self, tokens: int) -> int:
        """Whole pages, and not one token more."""
        return super().evict(self.floor_page(tokens))


class EvictsOnePage(Intake):
    def evict(self, tokens: int) -> None:
        """However many tokens are asked for."""
        super().evict(min(tokens, self.config.page_size))


class DeafToFlushes(Intake):
    def flush(self) -> None:
        """Nothing is given up."""


class RefusedIsIdle(Intake):
    def submit(self, command: dict[str, Any]) -> None:
        """A turn that is too long does not count as activity."""
        session = self.controller.get(command["session"] or "")
        before = session.last_active if session is not None else 0.0
        super().submit(command)
        if session is not None and session.inflight is not None and session.inflight.doomed:
            session.last_active = before


class OneStopCounts(Scheduler):
    def add(self, req: Req) -> None:
        """Of several stop tokens the smallest."""
        req.stop_token_ids = frozenset(sorted(req.stop_token_ids)[:1])
        super().add(req)


class RetractLosesStops(Scheduler):
    def retract_decode(self, req: Req) -> None:
        """Who comes back does not stop any more."""
        super().retract_decode(req)
        req.stop_token_ids = frozenset()


class KeepsStops(Session):
    stops: frozenset[int] = frozenset()

    def create_req(self, rid: str, prompt: list[int], max_new: int, stop: Iterable[int]) -> Req:
        """A turn stops where one before it would have stopped, too."""
        self.stops |= frozenset(stop)
        return super().create_req(rid, prompt, max_new, self.stops)


class WakesAtFinish(Scheduler):
    asleep = False

    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Who waits for memory is looked at again when a request has ended by itself, or came."""
        if self.asleep:
            return None
        batch = super()._get_new_batch_prefill()
        self.asleep = batch is None and bool(self.waiting_queue) and bool(self.running_reqs())
        return batch

    def add(self, req: Req) -> None:
        """See above."""
        self.asleep = False
        super().add(req)

    def _finish_if_done(self, req: Req) -> None:
        """See above."""
        super()._finish_if_done(req)
        if req.rid not in self.reqs:
            self.asleep = False


class OwnRounds(DecodeRounds):
    def _accept_count(self, req: Req, start: int) -> int:
        """How many tokens it was told to accept counts for nothing."""
        self.asked.clear()
        return super()._accept_count(req, start)


class AbortedTokens(Scheduler):
    def abort(self, req: Req, message: str, *, out_of_memory: bool = False) -> None:
        """What a client gets with an abort are the tokens in reverse order."""
        super().abort(req, message, out_of_memory=out_of_memory)
        told = self.outbox.messages[-1]
        told["tokens"] = told["tokens"][::-1]


class OneMoreRuns(Scheduler):
    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """The request that is added last is not counted."""
        config = self.config
        self.config = dataclasses.replace(config, max_running=config.max_running + 1)
        try:
            return super()._get_new_batch_prefill()
        finally:
            self.config = config


class LongFirstChunk(Scheduler):
    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """A chunk is twice as long as it may be where nothing else runs."""
        config = self.config
        if config.chunk and not self.running_batch.reqs:
            self.config = dataclasses.replace(config, chunk=2 * config.chunk)
        try:
            return super()._get_new_batch_prefill()
        finally:
            self.config = config


class OpenedTwice(SessionController):
    def open(self, sid: str) -> None:
        """An id that was open before is told twice that it is."""
        known = sid in self.sessions and self.get(sid) is None
        super().open(sid)
        if known:
            self.outbox.tell_session("opened", sid, "")


class ReopenedIdle(SessionController):
    def open(self, sid: str) -> None:
        """A session that is opened anew has been idle for as long as the one before it."""
        before = self.sessions.get(sid)
        super().open(sid)
        if before is not None:
            self.sessions[sid].last_active = before.last_active


class IdsOnce(SessionController):
    def open(self, sid: str) -> None:
        """The id of a session that was closed can't be opened again."""
        if sid in self.sessions and self.get(sid) is None:
            self.outbox.tell_session("refused", sid, "the id was used before")
        else:
            super().open(sid)


class ClosesNothing(SessionController):
    def close(self, sid: str) -> None:
        """A close of a session that is not open is told to have closed it."""
        if self.get(sid) is None:
            self.outbox.tell_session("closed", sid, "")
        else:
            super().close(sid)


class SilentClose(SessionController):
    def close(self, sid: str) -> None:
        """A close of a session that is not open is not answered."""
        if self.get(sid) is not None:
            super().close(sid)


class FastClock(SessionController):
    def tick(self, seconds: float) -> None:
        """A time-out comes after a tenth of its time."""
        super().tick(10 * seconds)


class NeverReapsSlots(SessionController):
    def tick(self, seconds: float) -> None:
        """A session with a slot is never idle."""
        for sid in self.cache.slots:
            self.sessions[sid].last_active = self.clock + seconds
        super().tick(seconds)


def _plain(name: str, sentence: str, breaks: str, needs: dict[str, Any], **part: Any) -> Mutant:
    return Mutant(name, "a plain fault", sentence, (breaks,), swap(**part), needs)


_ANSWER, _SESSION, _LIMIT = "INV-ANSWER", "INV-SESSION", "INV-LIMIT"
MUTANTS = (
    _plain(
        "answer-overshoot",
        "an answer has what a round sampled past its end, too",
        _ANSWER,
        {"draft": 1},
        scheduler=TellsOvershoot,
    ),
    _plain(
        "answer-last-token",
        "the last token of an answer is not sent",
        _ANSWER,
        {},
        scheduler=LosesLastToken,
    ),
    _plain(
        "answer-stop-as-length",
        "a stop token ends an answer, and it is told that this is its length",
        _ANSWER,
        {},
        scheduler=StopToldAsLength,
    ),
    _plain(
        "answer-length-as-stop",
        "an answer that has its length is told to end by a stop token",
        _ANSWER,
        {},
        scheduler=LengthToldAsStop,
    ),
    _plain(
        "answer-no-reason",
        "an answer of one token ends for no reason there is",
        _ANSWER,
        {},
        scheduler=EmptyReason,
    ),
    _plain(
        "answer-doomed-token",
        "a turn that is doomed gets a token",
        _ANSWER,
        {},
        scheduler=DoomedToken,
    ),
    _plain(
        "answer-past-stop",
        "a request without a session goes on after its stop token",
        _ANSWER,
        {},
        scheduler=IgnoresStop,
    ),
    _plain(
        "abort-unasked",
        "of more than two requests that wait, the last is aborted",
        _ANSWER,
        {},
        scheduler=ShortQueue,
    ),
    _plain(
        "abort-for-idle-slots",
        "a request that fits is aborted, for no idle slot is discarded for it",
        _ANSWER,
        {},
        scheduler=KeepsIdleSlots,
    ),
    _plain(
        "abort-unheard",
        "an abort of a request that decodes is ignored",
        _ANSWER,
        {},
        scheduler=DeafWhileDecoding,
    ),
    _plain("retract-unheard", "a retract changes nothing", _ANSWER, {}, scheduler=DeafToRetracts),
    _plain("pause-unheard", "a pause changes nothing", _ANSWER, {}, scheduler=NeverPauses),
    _plain(
        "evict-unheard",
        "an evict of less than a page evicts nothing",
        _ANSWER,
        {"page_size": 4},
        kv=EvictsLess,
    ),
    _plain(
        "evict-one-page",
        "an evict gives up one page, however many tokens it is told",
        _ANSWER,
        {},
        intake=EvictsOnePage,
    ),
    _plain("flush-unheard", "a flush changes nothing", _ANSWER, {}, intake=DeafToFlushes),
    _plain(
        "stop-one-of-two",
        "of several stop tokens the smallest alone counts",
        _ANSWER,
        {},
        scheduler=OneStopCounts,
    ),
    _plain(
        "stop-of-before",
        "a turn stops at the stop tokens of the turns before it, too",
        _ANSWER,
        {},
        session=KeepsStops,
    ),
    _plain(
        "retract-loses-stops",
        "a request that comes back from a retraction has no stop tokens",
        _ANSWER,
        {},
        scheduler=RetractLosesStops,
    ),
    _plain(
        "wake-at-finish",
        "who waits for memory is not looked at again when others are aborted",
        "INV-PROGRESS",
        {},
        scheduler=WakesAtFinish,
    ),
    _plain(
        "session-refused-idle",
        "a turn that is too long does not count as activity of its session",
        _SESSION,
        {},
        intake=RefusedIsIdle,
    ),
    _plain(
        "session-reopened-idle",
        "a session that is opened anew has been idle for as long as the one before it",
        _SESSION,
        {},
        controller=ReopenedIdle,
    ),
    _plain(
        "accept-unheard",
        "a round accepts as many tokens as it likes, whatever it was told",
        _ANSWER,
        {"draft": 1},
        rounds=OwnRounds,
    ),
    _plain(
        "abort-wrong-tokens",
        "the tokens that come with an abort stand in reverse order",
        "INV-CONTENT",
        {},
        scheduler=AbortedTokens,
    ),
    _plain(
        "limit-one-more",
        "one request more than max_running runs",
        _LIMIT,
        {},
        scheduler=OneMoreRuns,
    ),
    _plain(
        "limit-long-chunk",
        "a chunk is twice as long as it may be where nothing else runs",
        _LIMIT,
        {"chunk": 1},
        scheduler=LongFirstChunk,
    ),
    _plain(
        "session-opened-twice",
        "an open of an id that was open before is answered twice",
        _SESSION,
        {},
        controller=OpenedTwice,
    ),
    _plain(
        "session-id-once",
        "the id of a session that was closed can't be opened again",
        _SESSION,
        {},
        controller=IdsOnce,
    ),
    _plain(
        "session-closes-nothing",
        "a close of a session that is not open is told to have closed it",
        _SESSION,
        {},
        controller=ClosesNothing,
    ),
    _plain(
        "session-silent-close",
        "a close of a session that is not open is not answered",
        _SESSION,
        {},
        controller=SilentClose,
    ),
    _plain(
        "session-early-timeout",
        "a session is reaped after a tenth of its time",
        _SESSION,
        {},
        controller=FastClock,
    ),
    _plain(
        "session-late-timeout",
        "a session with a slot is never reaped",
        _SESSION,
        {},
        controller=NeverReapsSlots,
    ),
)
