"""Bugs of what clients are told and owed: the memory is in order throughout."""

from __future__ import annotations

import dataclasses
from typing import Any

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Phase, Req
from slotproof_engine.scheduling.scheduler import ABORT, Scheduler
from slotproof_engine.sessions.session_controller import SessionController


class _Answers(Scheduler):
    """Sends other answers than the scheduler does, to requests without a session."""

    def _finish_if_done(self, req: Req) -> None:
        tokens, told = list(req.output_ids), len(self.outbox.messages)
        super()._finish_if_done(req)
        if req.session is None and len(self.outbox.messages) > told:
            answer = self.outbox.messages[-1]
            if answer["reason"] != ABORT:
                answer.update(self.told(answer, tokens))

    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Return the fields of the answer that change; ``sampled`` are all tokens there are."""
        raise NotImplementedError


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


class LengthToldAsStop(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Whatever ended it."""
        del answer, sampled
        return {"reason": "stop"}


class EmptyReason(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """An answer of one token has none."""
        return {"reason": "none"} if len(answer["tokens"]) == len(sampled) == 1 else {}


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


class DeafWhileDecoding(Scheduler):
    def abort(self, req: Req, message: str, *, out_of_memory: bool = False) -> None:
        """A request that decodes is not aborted by its client."""
        if out_of_memory or req.phase != Phase.RUNNING or not req.output_ids:
            super().abort(req, message, out_of_memory=out_of_memory)


class DeafToRetracts(Scheduler):
    def running_reqs(self) -> list[Req]:
        """Says to who wants one of them retracted that nobody runs."""
        return []


class RetractsUnheard(Scheduler):
    def step(self) -> None:
        """Retracts a request whose first token is under way: it begins again, for ever."""
        for req in self.running_reqs():
            if self.config.overlap and req.session is None and not req.output_ids:
                self.retract_decode(req)
                break
        super().step()


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
        "abort-unheard",
        "an abort of a request that decodes is ignored",
        _ANSWER,
        {},
        scheduler=DeafWhileDecoding,
    ),
    _plain("retract-unheard", "a retract changes nothing", _ANSWER, {}, scheduler=DeafToRetracts),
    _plain(
        "overlap-retracts-unheard",
        "a request whose first token is under way is retracted: it begins again, for ever",
        "INV-PROGRESS",
        {"overlap": True},
        scheduler=RetractsUnheard,
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
