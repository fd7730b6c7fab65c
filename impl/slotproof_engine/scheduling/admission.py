"""PrefillAdder: chooses the requests of a prefill batch and the length of each prefill."""

from __future__ import annotations

from collections.abc import Callable

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.memory.rows import NO_ROW
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Req
from slotproof_engine.sessions.session_cache import SessionCache

UNLIMITED = 1 << 60


class PrefillAdder:
    """Builder of a prefill batch. It checks memory, which is allocated when the batch runs."""

    def __init__(
        self,
        config: EngineConfig,
        cache: SessionCache,
        running: ScheduleBatch,
        waiting: list[Req],
        make_room: Callable[[int], bool],
        out_of_memory: Callable[[Req], None],
    ) -> None:
        """Start an empty batch. ``make_room`` and ``out_of_memory`` are scheduler methods."""
        self.config = config
        self.cache = cache
        self.kv = cache.kv
        self.running = running
        self.waiting = waiting
        self.make_room = make_room
        self.out_of_memory = out_of_memory
        self.can_run: list[Req] = []
        self.tokens_left = config.chunk or UNLIMITED
        self.promised = 0
        self.promised_swa = 0
        self.promised_rows = 0

    def add_chunked_req(self, req: Req) -> bool:
        """Add the next chunk of the parked request. Return False if the chunk waits for memory.

        May evict and discard idle slots. Aborts the request if it does not fit even alone.
        """
        hi = min(req.seqlen, req.kv_committed_len + self.tokens_left)
        if self.make_room(self.kv.new_pages(req, hi)):
            self._take(req, hi, *self._whole_need(req))
            return True
        if self.running.reqs:
            return False
        self.out_of_memory(req)
        return True

    def add_one_req(self, req: Req) -> bool:
        """Match a waiting request and add it if the budget allows. Return False to end admission.

        Changes the cache as ``match_prefix`` does. A refusal undoes the change.
        """
        if self.tokens_left == 0:
            return False
        self.cache.match_prefix(req)
        hi = min(req.seqlen, req.kv_committed_len + self.tokens_left)
        need, swa_need = self._whole_need(req)
        if self._batch_has_room() and self._has_row(req) and self._fits(req, need, swa_need):
            self._admit(req, hi, need, swa_need)
            return True
        if self._others_hold_memory():
            self.cache.refuse(req)
            return False
        # No other request is running that could free memory: discard idle slots.
        while not self._has_row(req) and self.cache.discard_one():
            pass
        need = self.kv.new_pages(req, hi)
        if self._has_row(req) and self.make_room(need):
            self._admit(req, hi, need, need)
        else:
            self.out_of_memory(req)
        return True

    def _whole_need(self, req: Req) -> tuple[int, int]:
        """Return the tokens of each pool needed to complete the prefill.

        Between chunks, sliding-window KV is freed once it is out of reach of every later window.
        """
        need = self.kv.new_pages(req, req.seqlen)
        page, config = self.kv.page_size, self.config
        at_once = self.kv.ceil_page(config.chunk) + self.kv.ceil_page(config.window) + page
        return need, min(need, at_once) if config.chunk else need

    def _fits(self, req: Req, need: int, swa_need: int) -> bool:
        """Return True if the prompt fits along with the reserve for tokens to be generated."""
        others = (*self.running.reqs, *self.can_run)
        new_tokens = sum(request.remaining_new_tokens for request in (req, *others))
        reserved = new_tokens * self.config.reserve // 100
        short = self.kv.shortage(
            self.promised + need + self.kv.ceil_page(reserved), self.promised_swa + swa_need
        )
        return short <= self.kv.tree.evictable

    def _has_row(self, req: Req) -> bool:
        free = self.kv.req_to_token_pool.available_size()
        return req.req_pool_idx != NO_ROW or free > self.promised_rows

    def _batch_has_room(self) -> bool:
        return len(self.running.reqs) + len(self.can_run) < self.config.max_running

    def _others_hold_memory(self) -> bool:
        return bool(self.can_run or self.running.reqs)

    def _admit(self, req: Req, hi: int, need: int, swa_need: int) -> None:
        self.waiting.remove(req)

        self._take(req, hi, need, swa_need)

    def _take(self, req: Req, hi: int, need: int, swa_need: int) -> None:
        self.tokens_left -= hi - req.kv_committed_len
        self.promised += need
        self.promised_swa += swa_need
        self.promised_rows += req.req_pool_idx == NO_ROW
        req.extend_to = hi
        self.can_run.append(req)
