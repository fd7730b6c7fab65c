"""The layout of 0.5.10: as `wrapper.py`, but sessions do not know what is in flight.

Where it differs from `wrapper.py`:

| spec | protocol | where |
|---|---|---|
| slot.holding | `slots` | `SessionAwareCache.slots[sid]`, those with a row |
| session.inflight | `sessions[s].inflight` | the turn in `req_nodes` while it is alive |
| session.closing | `sessions[s].closing` | there is no deferred close: never |
| session.history | `sessions[s].history`, `hash` | of the turn in `req_nodes`, which is the \
*current* one from its creation on: its prompt less its new tokens while it lives, prompt and \
output when it is over |
"""

from __future__ import annotations

from typing import Any

from .wrapper import WrapperDialect


class FlatDialect(WrapperDialect):
    """`SessionAwareCache` around a radix tree."""

    layout = "SessionAwareCache (no flag for what is in flight)"

    @classmethod
    def fits(cls, scheduler: Any) -> bool:
        cache = scheduler.tree_cache
        return type(cache).__name__ == "SessionAwareCache" and hasattr(cache.inner, "root_node")

    def _current(self, session: Any) -> Any | None:
        return next(iter(session.req_nodes.values())).req if session.req_nodes else None

    def accepted(self, session: Any, req: Any, busy: bool) -> bool:
        return bool(session.req_nodes) and self._current(session) is req

    def inflight(self, session: Any) -> str | None:
        req = self._current(session)
        alive = req is not None and any(other is req for other, _ in self.live())
        return str(req.rid) if req is not None and alive and not req.finished() else None

    def history(self, session: Any, new_tokens: dict[str, int]) -> list[int]:
        req = self._current(session)
        if req is None:
            return []
        prompt = [int(x) for x in req.origin_input_ids]
        if self.inflight(session) is not None:
            return prompt[: max(0, len(prompt) - new_tokens.get(req.rid, 0))]
        return prompt + [int(x) for x in req.output_ids[: req.sampling_params.max_new_tokens]]
