"""Layout of 0.5.10: similar to `wrapper.py`, but sessions have no flag for a turn in flight.

Differences from `wrapper.py`:

| spec | protocol | where |
|---|---|---|
| slot.holding | `slots` | entries of `SessionAwareCache.slots[sid]` with a row |
| session.inflight | `sessions[s].inflight` | the turn in `req_nodes` while it is alive |
| session.closing | `sessions[s].closing` | never: no close is deferred |
| session.history | `sessions[s].history`, `hash` | the turn in `req_nodes`, the *current* \
turn from its creation on: the prompt without new tokens while it runs, prompt and output \
after its end |
"""

from __future__ import annotations

from typing import Any

from .base import finished_output
from .wrapper import WrapperDialect, is_tree


class FlatDialect(WrapperDialect):
    """Dialect for a `SessionAwareCache` around a radix tree."""

    layout = "SessionAwareCache (no flag for a turn in flight)"

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        return type(cache).__name__ == "SessionAwareCache" and is_tree(cache.inner)

    def _current(self, session: Any) -> Any | None:
        return next(iter(session.req_nodes.values())).req if session.req_nodes else None

    def claimed(self, session: Any) -> bool:
        return self.inflight(session) is not None

    def accepted(self, session: Any, req: Any, claimed: bool) -> bool:
        return bool(session.req_nodes) and self._current(session) is req

    def inflight(self, session: Any) -> str | None:
        req = self._current(session)
        alive = req is not None and any(other is req for other, _ in self.live())
        return str(req.rid) if req is not None and alive and not req.finished() else None

    def history_place(self, session: Any, new_tokens: dict[str, int]) -> tuple[Any, int, int]:
        req = self._current(session)
        if req is None:
            return None, 0, 0
        length = len(req.origin_input_ids)
        if self.inflight(session) is not None:
            return req, max(0, length - new_tokens.get(req.rid, 0)), 0
        return req, length, finished_output(req)
