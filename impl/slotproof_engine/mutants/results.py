"""Bugs in results of rounds, in histories, and in the economy of memory."""

from __future__ import annotations

from typing import Any

import torch

from slotproof_engine.memory.rows import ReqToTokenPool
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Phase, Req
from slotproof_engine.requests.results import Result
from slotproof_engine.scheduling.rounds import DecodeRounds
from slotproof_engine.scheduling.scheduler import Scheduler
from slotproof_engine.sessions.session_cache import SessionCache


class ResultTwice(Scheduler):
    def process_result(self, result: Result) -> None:
        """Process the result of a speculative round twice, if the row has room."""
        super().process_result(result)
        req, more = result.req, result.committed
        room = req.kv_committed_len + more + self.config.draft < req.kv_allocated_len
        if more and room and req.rid in self.reqs and req.phase is Phase.RUNNING:
            super().process_result(result)


class ResultsOutliveRetracts(Scheduler):
    def drop_results(self, req: Req) -> None:
        """Keep the results of a request that waits again. Apply them when the request runs."""
        late = self.results.of(req) if req.rid in self.reqs else []
        super().drop_results(req)
        self._late = [*self._results_kept(), *late]

    def step(self) -> None:
        super().step()
        kept = self._results_kept()
        due = [late for late in kept if late.req.phase is Phase.RUNNING]
        self._late = [late for late in kept if late not in due and late.req.rid in self.reqs]
        for late in due:
            self.process_result(late)

    def _results_kept(self) -> list[Result]:
        return getattr(self, "_late", [])


class HistoryOfOutput(SessionCache):
    def cache_finished_req(self, req: Req, finished_len: int) -> None:
        """Put all sampled tokens of a turn into the history. The answer ends where it should."""
        turn = req.session is not None
        super().cache_finished_req(req, len(req.output_ids) if turn else finished_len)
        del req.output_ids[finished_len:]


class RetractBeginsAgain(SessionCache):
    def retract_req(self, req: Req) -> None:
        """Drop the output of a retracted turn, although its client was told the output."""
        super().retract_req(req)
        if req.session is not None and self.config.retract == "wipe":
            req.output_ids.clear()


class GreedyRounds(DecodeRounds):
    def target(self, req: Req) -> int:
        """Allocate two positions per round, so that the row grows faster than its KV."""
        return min(self.config.context_len, max(super().target(req), req.kv_allocated_len + 2))


class EphemeralSlot(SessionCache):
    def release_turn(self, req: Req) -> int:
        """Release a first turn through a new slot, without its committed length and cursor."""
        if self.lent_slot(req) is not None:
            return super().release_turn(req)
        slot = self._new_slot(
            req_pool_idx=req.req_pool_idx,
            kv_allocated_len=req.kv_allocated_len,
            cache_protected_len=req.cache_protected_len,
            last_node=req.last_node,
        )
        req.clear_kv()
        return self.kv.release(slot)


class RowsByPosition(ReqToTokenPool):
    """Rows that still find the page of a position whose window KV was freed.

    A second free of the position frees the page twice. A correct cache frees no position twice. In
    SGLang, the second free has no effect.
    """

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self._freed: dict[tuple[int, int], int] = {}
        """Page last freed below the cursor, by row and by number of the page in the row."""

    def take_back(
        self, pool: str, row: int, lo: int, hi: int, *, forget: bool = False
    ) -> torch.Tensor:
        """Return the pages at ``[lo, hi)``, also where the row no longer shows them."""
        places = [(row, position // self.page_size) for position in range(lo, hi, self.page_size)]
        shown = self.pages(pool, row, lo, hi).tolist()
        super().take_back(pool, row, lo, hi, forget=forget)
        pages = [
            page if page >= 0 else self._freed.get(place, page)
            for place, page in zip(places, shown, strict=True)
        ]
        if forget:
            self._freed.update(zip(places, pages, strict=True))
        return torch.tensor(pages, dtype=torch.int64, device=self._device)


class EagerEviction(Scheduler):
    def make_room(self, tokens: int) -> bool:
        """Evict the requested number of tokens, even if enough are free."""
        enough = super().make_room(tokens)
        if tokens and self.kv.shortage(tokens) <= 0:
            self.cache.inner.evict(tokens)
        return enough


class CursorStays(Scheduler):
    def _advance_swa(self, req: Req) -> None:
        """Free no window KV of a request while it runs."""


def _plain(name: str, sentence: str, needs: dict[str, Any], *breaks: str, **part: Any) -> Mutant:
    return Mutant(name, "a plain fault", sentence, breaks, swap(**part), needs)


MUTANTS = (
    _plain(
        "result-twice",
        "the result of a speculative round is processed twice",
        {"overlap": True, "draft": 1},
        "INV-STEP",
        scheduler=ResultTwice,
    ),
    _plain(
        "result-outlives-retract",
        "a retracted request still takes the result that was in flight",
        {"overlap": True},
        "INV-STEP",
        scheduler=ResultsOutliveRetracts,
    ),
    _plain(
        "history-of-output",
        "a history gets the tokens that a speculative round sampled past the answer's end",
        {"draft": 1},
        "INV-HISTORY",
        "INV-STEP",
        cache=HistoryOfOutput,
    ),
    _plain(
        "retract-begins-again",
        "a retracted turn loses the output that its client was told",
        {"retract": "wipe"},
        "INV-COVER-STEP",
        "INV-STEP",
        cache=RetractBeginsAgain,
    ),
    _plain(
        "round-allocates-more",
        "every decoding round allocates more memory past the KV",
        {},
        "INV-SLACK-STEP",
        "INV-STEP",
        rounds=GreedyRounds,
    ),
    _plain(
        "evicts-unasked",
        "the tree evicts although enough memory is free",
        {},
        "INV-ECONOMY",
        scheduler=EagerEviction,
    ),
    _plain(
        "cursor-stays",
        "the window cursor of a running request never moves",
        {"window": 1},
        "INV-ECONOMY",
        scheduler=CursorStays,
    ),
    Mutant(
        "22790e-ephemeral-slot",
        "sgl-project/sglang#22790",
        "an abort of a first turn builds a slot without the committed length and the cursor",
        ("INV-OWNER", "INV-SUM-SWA"),
        swap(cache=EphemeralSlot, rows=RowsByPosition),
        {"window": 1},
    ),
)
