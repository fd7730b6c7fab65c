"""Events of requests that leave the batch. Wrappers of `release_kv_cache` record them."""

from __future__ import annotations

from typing import Any

from .dialects.base import Dialect, Figures, Kv, swa_dup
from .draft import Drafts
from .tracker import Tracker


class Endings:
    """Wrappers around the release of a request's KV and around the calls inside the release."""

    def __init__(self, dialect: Dialect, tracker: Tracker, drafts: Drafts | None) -> None:
        """``drafts``: drafts to inject, or None."""
        self.dialect = dialect
        self.tracker = tracker
        self.drafts = drafts
        #: True while a plain request is released. A tree insertion is then part of the release.
        self.finishing_plain = False
        self.key_length = 0
        #: Pending finish reason (`to_finish`) of each request before a round of retractions.
        self.retracting: dict[int, Any] = {}

    def retract(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap a round of retractions for lack of memory. It may abort the only request left."""
        self.retracting = {id(req): req.to_finish for req in batch.reqs}
        try:
            return original(batch, *args, **kwargs)
        finally:
            self.retracting = {}

    def _out_of_memory(self, req: Any) -> bool:
        """Return True if the round of retractions aborted the request. For a client's abort, the
        round only retracts the request. The abort takes effect later."""
        return is_abort(req.to_finish) and req.to_finish is not self.retracting.get(
            id(req), req.to_finish
        )

    def key_inserted(self, original: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        """Record the length of the longest key inserted into the tree."""
        self.key_length = max(self.key_length, len(params.key))
        return original(params, *args, **kwargs)

    def release(self, original: Any, req: Any, tree_cache: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap the release of a request's KV, to its session's slot or to the pool."""
        dialect = self.dialect
        kv, before = dialect.kv(req), dialect.figures()
        if kv.row < 0:
            return original(req, tree_cache, *args, **kwargs)
        turn = dialect.is_session_turn(req) and self.tracker.meta(req).kind == "turn"
        if self.drafts and turn and req.finished() and not is_abort(req.finished_reason):
            self.drafts.inject(req)
            kv, before = dialect.kv(req), dialect.figures()
        count = len(self.tracker.events)
        self.finishing_plain, self.key_length = not turn, 0
        try:
            result = original(req, tree_cache, *args, **kwargs)
        finally:
            self.finishing_plain = False
        change = dialect.figures() - before
        if turn:
            self._turn(req, change, self._published(count))
        else:
            self._plain(req, kv, change)
        return result

    def _published(self, count: int) -> dict[str, int] | None:
        """Remove a release's insert events. Return their sums as parameters of an abort event."""
        events = self.tracker.events
        taken = [event[3] for event in events[count:] if event[0] == "T-INSERT"]
        events[count:] = [event for event in events[count:] if event[0] != "T-INSERT"]
        if not taken:
            return None
        sums = {name: sum(params[name] for params in taken) for name in ("dup", "swa_dup")}
        return {"q": taken[-1]["q"], **sums}

    def _turn(self, req: Any, change: Figures, published: dict[str, int] | None) -> None:
        tracker, dropped = self.tracker, change.dropped
        if req.finished() and not is_abort(req.finished_reason):
            tracker.of(req, "T-SAVE")
            tracker.end(req)
        elif req.finished():
            if published is None:
                tracker.of(req, "T-ABORT", **dropped)
            else:
                tracker.of(req, "T-ABORT-PUBLISH", **dropped, **published)
            tracker.end(req)
        elif self._out_of_memory(req):
            tracker.of(req, "T-OOM", **dropped)
            tracker.end(req)
        elif tracker.meta(req).session in self.dialect.slots():
            tracker.of(req, "T-RETRACT")
        else:
            tracker.of(req, "T-RETRACT-WIPE", **dropped)

    def _plain(self, req: Any, kv: Kv, change: Figures) -> None:
        tracker, dropped = self.tracker, change.dropped
        q = max(kv.Q, self.key_length)
        dup = q - kv.Q - change.grown
        if not req.finished() and not self._out_of_memory(req):
            tracker.of(req, "T-PLAIN-RETRACT", **dropped)
            return
        if self.key_length:
            # An aborted request may also insert its tokens. Memory then changes as at a finish.
            again = swa_dup(self.dialect, kv.Q, kv.E, q, change)
            tracker.of(req, "T-PLAIN-FINISH", q=q, dup=dup, swa_dup=again, **dropped)
        elif is_abort(req.finished_reason or req.to_finish):
            tracker.of(req, "T-PLAIN-ABORT", **dropped)
        else:
            tracker.of(req, "T-PLAIN-FINISH", q=kv.Q, dup=0, swa_dup=0, **dropped)
        tracker.end(req)


def is_abort(reason: Any) -> bool:
    """Return True if the finish reason is an abort."""
    return type(reason).__name__ == "FINISH_ABORT"


def finished_length(req: Any) -> int:
    """Return the number of output tokens up to the stop token or max_new."""
    length = getattr(req, "finished_len", None)
    return int(len(req.output_ids) if length is None else length)
