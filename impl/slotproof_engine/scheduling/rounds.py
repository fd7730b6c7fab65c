"""Decoding rounds: one token per request, or up to ``draft + 1`` with speculative decoding."""

from __future__ import annotations

import hashlib

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Req
from slotproof_engine.requests.results import ResultQueue


def _number(text: str) -> int:
    """Return a pseudo-random number determined by ``text``. A CRC would give only a few sequences:
    its last bits change regularly from one text to the next."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


class DecodeRounds:
    """Decoding rounds. A round continues from a request's state on the device, which may be ahead
    of the processed results."""

    def __init__(self, config: EngineConfig, model: PagedModel, results: ResultQueue) -> None:
        self.config = config
        self.model = model
        self.results = results
        self.asked: dict[str, int] = {}
        """Tokens to accept in the next speculative round, by request ID."""

    def target(self, req: Req) -> int:
        """Return the position up to which a round allocates. It covers the next token and the draft
        tail (slack).

        With overlap scheduling, it is unknown how many tokens each round in flight accepts.
        """
        draft = self.config.draft
        tail = draft * self.config.topk + (self.config.behind * (draft + 1) if draft else 0)
        ahead = min(self.config.context_len, req.kv_committed_len + 1 + tail)
        return max(req.kv_allocated_len, ahead)

    def run(self, batch: ScheduleBatch, reqs: list[Req]) -> list[list[int]]:
        """Write the KV of accepted tokens. Return the sampled tokens of each request."""
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
        """Return the length of valid KV on the device, including the rounds in flight."""
        return req.kv_committed_len + sum(ahead.committed for ahead in self.results.of(req))

    def last_token(self, req: Req) -> list[int]:
        """Return the last sampled token, processed or not, as input of the round."""
        sampled = [ahead.tokens for ahead in self.results.of(req) if ahead.tokens]
        return sampled[-1][-1:] if sampled else req.output_ids[-1:]

    def _accept_count(self, req: Req, start: int) -> int:
        """Return the number of tokens that verification accepts: 0 to ``draft`` draft tokens, plus
        one token.

        The number has no effect on the sampled tokens, and earlier requests do not influence it.
        The round may sample past the request's end. The number is 0 if the row is full, which
        happens to a finished request whose result is not processed yet.
        """
        k = 1
        if self.config.draft:
            text = f"{self.config.seed}:{req.rid}:{start - len(req.origin_input_ids)}"
            k += _number(text) % (self.config.draft + 1)
            k = min(self.asked.pop(req.rid, 0) or k, self.config.draft + 1)
        return min(k, req.kv_allocated_len - start)
