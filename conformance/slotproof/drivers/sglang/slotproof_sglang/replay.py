"""Oracle for tokens: each turn is replayed alone, as a plain request on an empty cache.

A separate process serves the replays. The template forks it before any example, so its scheduler
has no sessions, no slots and no traces of an example. The prefix tree is flushed after each replay.

Greedy decoding takes the token with the largest logit. If the two largest logits are almost equal,
rounding decides, and rounding depends on the shape of a batch. The answer ends before such a token.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator
from typing import Any

from slotproof_driver.usage import UsageError

from . import window

MARGIN = 1e-4
"""Largest difference of logits that counts as a tie. Logits are of order 1, rounding is below 1e-6.
"""
RID = "replay"


class Replay:
    """Scheduler that computes plain requests, one at a time."""

    def __init__(self, engine: Any, slides: bool) -> None:
        """``slides``: True if the model has a sliding window."""
        self.engine = engine
        self.scheduler = engine.scheduler
        self.torch: Any = importlib.import_module("torch")
        self.margins: list[float] = []
        self.blind = slides and not window.attended()
        engine.dialect.reserve(0.0)
        if engine.rounds is not None:
            engine.rounds.accepts.always = 1  # A plain request decodes its tokens one by one.
        self._watch(self.scheduler.tp_worker.model_runner)

    def _watch(self, runner: Any) -> None:
        """Record, for each sampled token, the difference of the two largest logits."""
        sample = runner.sample

        def noting(output: Any, *args: Any, **kwargs: Any) -> Any:
            best = self.torch.topk(output.next_token_logits[0].float(), 2).values
            self.margins.append(float(best[0] - best[1]))
            return sample(output, *args, **kwargs)

        runner.sample = noting

    def tokens(self, prompt: list[int], count: int) -> Generator[None, None, list[int] | None]:
        """Return the next ``count`` tokens, up to the first tie. Return None if the engine does not
        finish the request, or if its attention ignores the window."""
        if self.blind:
            return None
        fields = {"session": None, "rid": RID, "tokens": prompt, "max_new": count, "stop": []}
        engine, self.margins = self.engine, []
        send = self.scheduler.process_input_requests
        send([engine.inputs.message({"do": "submit", **fields})])
        finished = yield from self._finish(len(prompt) + count + 8)
        if finished is None:  # The request waits for more memory than the pool has.
            send([engine.inputs.message({"do": "abort", "rid": RID})])
            yield from self._finish(2)
        yield  # The engine flushes only after it has found itself idle.
        send([engine.inputs.message({"do": "flush"})])
        engine.tracker.take()
        if engine.dialect.available() != engine.dialect.total:
            raise RuntimeError("a finished plain request left memory allocated")
        if finished is None or finished["reason"] == "abort":
            return None
        tokens: list[int] = finished["tokens"]
        return tokens[: self._certain(len(tokens))]

    def _finish(self, rounds: int) -> Generator[None, None, dict[str, Any] | None]:
        """Run until the request is answered, or for ``rounds`` iterations. Return the answer."""
        for _ in range(rounds):
            yield
            for message in self.engine.mailbox.take():
                if message["type"] == "finish":
                    return dict(message)
        return None

    def _certain(self, count: int) -> int:
        """Return how many of the last ``count`` sampled tokens come before the first tie."""
        if len(self.margins) < count:
            raise UsageError("this build does not sample in the model runner")
        margins = self.margins[len(self.margins) - count :]
        return next((i for i, margin in enumerate(margins) if margin < MARGIN), count)
