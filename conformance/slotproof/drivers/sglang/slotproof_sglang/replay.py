"""Tokens as an oracle: a turn once more, alone, as a plain request on an empty cache.

Served by a process of its own, forked from the template before any example ran: the same
scheduler, without sessions, slots or anything that an example left behind. The prefix tree
is flushed after each replay.

Greedy decoding takes the largest logit. Where the two largest are almost equal, rounding
decides, and rounding differs with the shape of a batch: the answer ends before such a token.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from typing import Any

from slotproof_driver.usage import UsageError

from . import boot, window

MARGIN = 1e-4
"""Logits closer than this are a tie. They are of order 1, in 32 bits: rounding is below 1e-6."""
RID = "replay"


class Replay:
    """One scheduler that computes one plain request after the other."""

    def __init__(self, engine: Any, slides: bool) -> None:
        """``slides``: its model has a sliding window."""
        self.engine = engine
        self.scheduler = engine.scheduler
        self.torch: Any = importlib.import_module("torch")
        self.margins: list[float] = []
        self.blind = slides and not window.attended()
        engine.dialect.reserve(0.0)
        if engine.rounds is not None:
            engine.rounds.always = 1  # a plain request's tokens, one by one
        self._watch(boot.model_runner(self.scheduler))

    def _watch(self, runner: Any) -> None:
        """Note by how much each sampled token won."""
        sample = runner.sample

        def noting(output: Any, *args: Any, **kwargs: Any) -> Any:
            best = self.torch.topk(output.next_token_logits[0].float(), 2).values
            self.margins.append(float(best[0] - best[1]))
            return sample(output, *args, **kwargs)

        runner.sample = noting

    def tokens(self, prompt: list[int], count: int) -> Generator[None, None, list[int] | None]:
        """The ``count`` tokens that follow, up to the first tie; None where the engine does
        not run the request to its end, or where they say nothing."""
        if self.blind:
            return None
        fields = {"session": None, "rid": RID, "tokens": prompt, "max_new": count, "stop": []}
        engine, self.margins = self.engine, []
        send = self.scheduler.process_input_requests
        send([engine.inputs.message({"do": "submit", **fields})])
        finished = yield from self._finish(len(prompt) + count + 8)
        if finished is None:  # it waits for more memory than there is
            send([engine.inputs.message({"do": "abort", "rid": RID})])
            yield from self._finish(2)
        yield  # a flush is for an engine that has found itself idle
        send([engine.inputs.message({"do": "flush"})])
        engine.tracker.take()
        if engine.dialect.available() != engine.dialect.total:
            raise RuntimeError("a plain request that is over left memory behind")
        if finished is None or finished["reason"] == "abort":
            return None
        tokens: list[int] = finished["tokens"]
        return tokens[: self._certain(len(tokens))]

    def _finish(self, rounds: int) -> Generator[None, None, dict[str, Any] | None]:
        """Run until a request is answered."""
        for _ in range(rounds):
            yield
            for message in self.engine.mailbox.take():
                if message["type"] == "finish":
                    return dict(message)
        return None

    def _certain(self, count: int) -> int:
        """How many of the last ``count`` sampled tokens come before the first tie."""
        if len(self.margins) < count:
            raise UsageError("this build samples elsewhere than in the model runner")
        margins = self.margins[len(self.margins) - count :]
        return next((i for i, margin in enumerate(margins) if margin < MARGIN), count)
