"""Bugs in answers to clients and in the handling of sessions. The memory is always correct."""

from __future__ import annotations

import dataclasses
from typing import Any

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Phase, Req
from slotproof_engine.scheduling.scheduler import ABORT, Scheduler
from slotproof_engine.sessions.session_controller import SessionController


class _Answers(Scheduler):
    """Scheduler with wrong answers to requests without a session."""

    def _finish_if_done(self, req: Req) -> None:
        tokens, told = list(req.output_ids), len(self.outbox.messages)
        super()._finish_if_done(req)
        if req.session is None and len(self.outbox.messages) > told:
            answer = self.outbox.messages[-1]
            if answer["reason"] != ABORT:
                answer.update(self.told(answer, tokens))

    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Return the changed fields of the answer. ``sampled``: all tokens that the request
        sampled."""
        raise NotImplementedError


class TellsOvershoot(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Also send the tokens that a speculative round sampled past the end."""
        del answer
        return {"tokens": sampled}


class LosesLastToken(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Leave out the last token of an answer that ended by length."""
        del sampled
        return {"tokens": answer["tokens"][:-1]} if answer["reason"] == "length" else {}


class LengthToldAsStop(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Report a stop token as the end of every answer."""
        del answer, sampled
        return {"reason": "stop"}


class EmptyReason(_Answers):
    def told(self, answer: dict[str, Any], sampled: list[int]) -> dict[str, Any]:
        """Report no reason for an answer with a single token."""
        return {"reason": "none"} if len(answer["tokens"]) == len(sampled) == 1 else {}


class IgnoresStop(Scheduler):
    def add(self, req: Req) -> None:
        """Ignore the stop tokens of a request without a session."""
        if req.session is None:
            req.stop_token_ids = frozenset()
        super().add(req)


class ShortQueue(Scheduler):
    def step(self) -> None:
        """If more than two requests wait, abort the last of them."""
        if len(self.waiting_queue) > 2:
            self.abort(self.waiting_queue[-1], "the queue is full")
        super().step()


class DeafWhileDecoding(Scheduler):
    def abort(self, req: Req, message: str, *, out_of_memory: bool = False) -> None:
        """Ignore a client's abort of a decoding request."""
        if out_of_memory or req.phase != Phase.RUNNING or not req.output_ids:
            super().abort(req, message, out_of_memory=out_of_memory)


class DeafToRetracts(Scheduler):
    def running_reqs(self) -> list[Req]:
        """Report no running requests, so that nothing is retracted."""
        return []


class RetractsUnheard(Scheduler):
    def step(self) -> None:
        """Retract a request whose first token is in flight: the request begins again, forever."""
        for req in self.running_reqs():
            if self.config.overlap and req.session is None and not req.output_ids:
                self.retract_decode(req)
                break
        super().step()


class OneMoreRuns(Scheduler):
    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Admit one request more than ``max_running`` allows."""
        config = self.config
        self.config = dataclasses.replace(config, max_running=config.max_running + 1)
        try:
            return super()._get_new_batch_prefill()
        finally:
            self.config = config


class LongFirstChunk(Scheduler):
    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Double the chunk length while nothing else runs."""
        config = self.config
        if config.chunk and not self.running_batch.reqs:
            self.config = dataclasses.replace(config, chunk=2 * config.chunk)
        try:
            return super()._get_new_batch_prefill()
        finally:
            self.config = config


class OpenedTwice(SessionController):
    def open(self, sid: str) -> None:
        """Answer an open command twice if the session ID was open and closed before."""
        known = sid in self.sessions and self.get(sid) is None
        super().open(sid)
        if known:
            self.outbox.tell_session("opened", sid, "")


class SilentClose(SessionController):
    def close(self, sid: str) -> None:
        """Leave a close command unanswered if the session is not open."""
        if self.get(sid) is not None:
            super().close(sid)


class FastClock(SessionController):
    def tick(self, seconds: float) -> None:
        """Close an idle session after a tenth of its timeout."""
        super().tick(10 * seconds)


class NeverReapsSlots(SessionController):
    def tick(self, seconds: float) -> None:
        """Treat a session with a slot as never idle."""
        for sid in self.cache.slots:
            self.sessions[sid].last_active = self.clock + seconds
        super().tick(seconds)


def _plain(name: str, sentence: str, breaks: str, needs: dict[str, Any], **part: Any) -> Mutant:
    return Mutant(name, "a plain fault", sentence, (breaks,), swap(**part), needs)


_ANSWER, _SESSION, _LIMIT = "INV-ANSWER", "INV-SESSION", "INV-LIMIT"
MUTANTS = (
    _plain(
        "answer-overshoot",
        "an answer includes tokens that a speculative round sampled past its end",
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
        "an answer that ended by length reports a stop token as its end",
        _ANSWER,
        {},
        scheduler=LengthToldAsStop,
    ),
    _plain(
        "answer-no-reason",
        "an answer with a single token reports no reason for its end",
        _ANSWER,
        {},
        scheduler=EmptyReason,
    ),
    _plain(
        "answer-past-stop",
        "a request without a session continues after its stop token",
        _ANSWER,
        {},
        scheduler=IgnoresStop,
    ),
    _plain(
        "abort-unasked",
        "if more than two requests wait, the last is aborted",
        _ANSWER,
        {},
        scheduler=ShortQueue,
    ),
    _plain(
        "abort-unheard",
        "an abort of a decoding request is ignored",
        _ANSWER,
        {},
        scheduler=DeafWhileDecoding,
    ),
    _plain("retract-unheard", "a retract changes nothing", _ANSWER, {}, scheduler=DeafToRetracts),
    _plain(
        "overlap-retracts-unheard",
        "a request whose first token is in flight is retracted and begins again, forever",
        "INV-PROGRESS",
        {"overlap": True},
        scheduler=RetractsUnheard,
    ),
    _plain(
        "limit-one-more",
        "one request more than max_running allows is running",
        _LIMIT,
        {},
        scheduler=OneMoreRuns,
    ),
    _plain(
        "limit-long-chunk",
        "a chunk is twice the allowed length while nothing else runs",
        _LIMIT,
        {"chunk": 1},
        scheduler=LongFirstChunk,
    ),
    _plain(
        "session-opened-twice",
        "opening a session ID that was open before is answered twice",
        _SESSION,
        {},
        controller=OpenedTwice,
    ),
    _plain(
        "session-silent-close",
        "closing a session that is not open gets no answer",
        _SESSION,
        {},
        controller=SilentClose,
    ),
    _plain(
        "session-early-timeout",
        "a session is reaped after a tenth of its timeout",
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
