"""Decoding rounds: plain, one token per request; speculative, up to ``draft + 1``."""

from __future__ import annotations

import hashlib

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Req
from slotproof_engine.requests.results import ResultQueue


def _number(text: str) -> int:
    """Looks like chance, and is always the same. (Of a CRC the last bits follow from those of the
    text before: a few sequences would be all there are.)"""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


class DecodeRounds:
    """Each goes on from where a request is on the device, ahead of what is known of it."""

    def __init__(self, config: EngineConfig, model: PagedModel, results: ResultQueue) -> None:
        self.config = config
        self.model = model
        self.results = results
        self.asked: dict[str, int] = {}
        """How many tokens the next speculative round of a request is to accept."""

    def target(self, req: Req) -> int:
        """What a round allocates up to: the next token and the draft tail, kept as slack.

        With overlap scheduling nobody knows yet how much the round under way accepts.
        """
        draft = self.config.draft
        tail = draft * self.config.topk + (draft + 1 if draft and self.config.overlap else 0)
        ahead = min(self.config.context_len, req.kv_committed_len + 1 + tail)
        return max(req.kv_allocated_len, ahead)

    def run(self, batch: ScheduleBatch, reqs: list[Req]) -> list[list[int]]:
        """Write the KV of what is accepted; the tokens that it gives, by request."""
        starts = [self.start(req) for req in reqs]
        inputs = [self.last_token(req) for req in reqs]
        accepted = [self._accept_count(req, lo) for req, lo in zip(reqs, starts, strict=True)]
        given: list[list[int]] = [[] for _ in reqs]
        for index in range(max(accepted)):
            live = [i for i, k in enumerate(accepted) if k > index]
            spans = [(reqs[i], starts[i] + index, given[i][-1:] or inputs[i]) for i in live]
            batch.prepare(spans, self.config.device)
            for i, token in zip(live, self.model.forward(batch), strict=True):
                given[i].append(token)
        return given

    def start(self, req: Req) -> int:
        """KV that is valid on the device: also what the round under way accepted."""
        ahead = self.results.of(req)
        return req.kv_committed_len + (ahead.committed if ahead is not None else 0)

    def last_token(self, req: Req) -> list[int]:
        """The last token sampled, known or not: the round's input."""
        ahead = self.results.of(req)
        return ahead.tokens[-1:] if ahead is not None else req.output_ids[-1:]

    def _accept_count(self, req: Req, start: int) -> int:
        """How many tokens verification accepts: any number of drafts, and one of its own.

        Which tokens does not depend on it, nor does it depend on what came before the request. It
        may overshoot the request's end; none where the row is full, of a request that has finished
        and is not known to.
        """
        k = 1
        if self.config.draft:
            text = f"{self.config.seed}:{req.rid}:{start - len(req.origin_input_ids)}"
            k += _number(text) % (self.config.draft + 1)
            k = min(self.asked.pop(req.rid, 0) or k, self.config.draft + 1)
        return min(k, req.kv_allocated_len - start)
