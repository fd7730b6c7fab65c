"""Results of batches: what was launched and is not known to the scheduler yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from slotproof_engine.requests.req import Req


@dataclass(frozen=True)
class Result:
    """What a batch computed for one request. Until it is processed only the device has it."""

    req: Req
    tokens: list[int]
    """The last one is the input of the request's next round."""
    outputs: int
    """How many of the tokens become outputs: none where the request wants none."""
    committed: int = 0
    """KV that counts from now on: a speculative round's. All else counted at the launch."""
    prefilled: bool = False


class ResultQueue:
    """With overlap scheduling: the results of the batch before, while the next is launched."""

    def __init__(self) -> None:
        self._batches: deque[dict[Req, Result]] = deque()

    def put(self, results: Iterable[Result]) -> None:
        """Launch a batch, and keep its results."""
        self._batches.append({result.req: result for result in results})

    def take(self) -> list[Result]:
        """What was launched before the last ``put``."""
        due = [self._batches.popleft() for _ in range(len(self._batches) - 1)]
        return [result for batch in due for result in batch.values()]

    def of(self, req: Req) -> Result | None:
        """What is under way for a request."""
        return next((batch[req] for batch in self._batches if req in batch), None)

    def drop(self, req: Req) -> None:
        """The request ended, or waits again: what is under way for it is of no use."""
        for batch in self._batches:
            batch.pop(req, None)
