"""Results of launched batches, not yet processed by the scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from slotproof_engine.requests.req import Req


@dataclass(frozen=True)
class Result:
    """Result of a batch for one request. Before processing, its tokens are on the device only."""

    req: Req
    tokens: list[int]
    """Sampled tokens. The last token is the input of the request's next round."""
    outputs: int
    """Number of tokens appended to the outputs. 0 if the request wants no outputs."""
    at: int
    """Position of the first token, among prompt and output. Determined by the launched batch."""
    committed: int = 0
    """Number of tokens whose KV is committed on processing. 0 if committed at the launch."""
    prefilled: bool = False


class ResultQueue:
    """Queue for overlap scheduling: results wait while the next ``behind`` batches are launched."""

    def __init__(self, behind: int = 1) -> None:
        self.behind = behind
        self._batches: deque[dict[Req, Result]] = deque()

    def put(self, results: Iterable[Result]) -> None:
        """Queue the results of a launched batch."""
        self._batches.append({result.req: result for result in results})

    def take(self) -> list[Result]:
        """Remove and return the results queued before the last ``behind`` puts."""
        due = [self._batches.popleft() for _ in range(len(self._batches) - self.behind)]
        return [result for batch in due for result in batch.values()]

    def of(self, req: Req) -> list[Result]:
        """Return the results in flight for a request, in the order of their launches."""
        return [batch[req] for batch in self._batches if req in batch]

    def drop(self, req: Req) -> None:
        """Drop the results in flight for a request that ended or waits again."""
        for batch in self._batches:
            batch.pop(req, None)
