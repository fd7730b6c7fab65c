"""Scheduler: a ``step`` picks a batch, runs the batch and handles finished requests.

Batching is continuous as in real engines. Prefill comes before decode, and only one request may be
between two chunks of its prefill. When memory runs out, the newest request is retracted.

With overlap scheduling, a batch is launched before earlier results are processed. Tokens sampled by
a round become known some iterations later, so a finished request still runs in further batches. KV
is written at the launch. The device writes in launch order, so a later owner of a page overwrites
an earlier owner's KV. If a retraction wipes a request, results in flight arrive while it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.base.events import Outbox
from slotproof_engine.memory.rows import NO_ROW
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.requests.batch import ScheduleBatch
from slotproof_engine.requests.req import Phase, Req
from slotproof_engine.requests.results import Result, ResultQueue
from slotproof_engine.scheduling.admission import PrefillAdder
from slotproof_engine.scheduling.rounds import DecodeRounds
from slotproof_engine.sessions.session_cache import SessionCache

ABORT = "abort"
ExtendSpan: TypeAlias = tuple[Req, int, list[int]]
"""A request, a position, and the tokens whose KV is written from the position on."""


class Scheduler:
    """Scheduler of all requests in progress: waiting, between chunks, just prefilled, running."""

    def __init__(
        self,
        config: EngineConfig,
        model: PagedModel,
        cache: SessionCache,
        rounds: type[DecodeRounds],
        outbox: Outbox,
    ) -> None:
        self.config = config
        self.cache = cache
        self.kv = cache.kv
        self.outbox = outbox
        self.model = model
        self.reqs: dict[str, Req] = {}
        """Requests that have no final answer yet, by ID, in order of arrival."""
        self.waiting_queue: list[Req] = []
        self.chunked_req: Req | None = None
        """Request parked between two chunks, in no batch."""
        self.running_batch = ScheduleBatch()
        self.last_batch: ScheduleBatch | None = None
        """Batch of the last iteration. A prefill batch joins the running batch one iteration later.
        """
        self.paused = False
        self.results = ResultQueue(config.behind)
        self.rounds = rounds(config, model, self.results)
        self._prefilled_last = False

    # One iteration -------------------------------------------------------------

    def step(self) -> None:
        """Run the next batch, if any, and process the results that are due."""
        results: Iterable[Result] = () if self.paused else self._launch()
        if self.config.overlap:
            self.results.put(results)
            results = self.results.take()
        for result in results:
            self.process_result(result)

    def _launch(self) -> Iterator[Result]:
        """Pick a batch and run it. Yield a result per request."""
        self._merge_last_batch()
        batch = self._get_new_batch_prefill()
        self._prefilled_last = batch is not None
        if batch is not None:
            self.last_batch = batch
            yield from self._run_prefill(batch)
        elif self._update_running_batch():
            self.last_batch = self.running_batch
            yield from self._run_decode(self.running_batch)

    def _merge_last_batch(self) -> None:
        if self.last_batch is not None and self.last_batch is not self.running_batch:
            self.running_batch.merge_batch(self.last_batch)
        self.last_batch = None

    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        """Return the next prefill batch. ``None`` leaves the iteration to decoding."""
        if self.chunked_req is not None and self._prefilled_last and self.running_batch.reqs:
            return None  # the chunks of a long prompt alternate with decoding
        adder = PrefillAdder(
            self.config,
            self.cache,
            self.running_batch,
            self.waiting_queue,
            self.make_room,
            self.out_of_memory,
        )
        if self.chunked_req is not None and not adder.add_chunked_req(self.chunked_req):
            return None
        for req in tuple(self.waiting_queue):
            if self.results.of(req) or not adder.add_one_req(req):
                break  # A wiped request waits for its results in flight.
        return ScheduleBatch(reqs=adder.can_run) if adder.can_run else None

    def _run_prefill(self, batch: ScheduleBatch) -> Iterator[Result]:
        """Allocate pages, write KV and sample. Admission ensured that eviction frees enough."""
        reqs = list(batch.reqs)
        self.make_room(sum(self.kv.new_pages(req, req.extend_to) for req in reqs))
        for req in reqs:
            if req.req_pool_idx == NO_ROW:
                self.kv.take_row(req)
        self.kv.alloc([(req, req.extend_to) for req in reqs])
        batch.prepare([self.extend_span(req) for req in reqs], self.config.device)
        for req, token in zip(reqs, self.model.forward(batch), strict=True):
            complete = req.extend_to == req.seqlen
            sampled = int(complete and req.max_new_tokens > 0)
            req.kv_committed_len = req.extend_to
            req.phase = Phase.RUNNING
            reported = [] if self.config.overlap else [token][:sampled]
            self.outbox.emit(
                "T-EXTEND",
                req.session_id,
                req.rid,
                t=req.extend_to,
                ahead=0,
                sampled=len(reported),
                told=req.told(reported),
                row=req.req_pool_idx,
            )
            if complete:
                if req is self.chunked_req:
                    self.chunked_req = None
                yield Result(req, [token], sampled, at=req.extend_to, prefilled=True)
            else:
                self._advance_swa(req)
                batch.remove(req)
                self._park(req)

    def extend_span(self, req: Req) -> ExtendSpan:
        """Return the tokens before ``extend_to`` that have no KV. The prefill writes their KV."""
        lo = req.kv_committed_len
        return req, lo, req.fill_ids[lo : req.extend_to]

    def _park(self, req: Req) -> None:
        """Park a request between two chunks: in no batch, with its KV preserved (#37502)."""
        self.chunked_req = req
        req.phase = Phase.PARKED
        self.outbox.emit("T-PARK", req.session_id, req.rid)

    def _run_decode(self, batch: ScheduleBatch) -> Iterator[Result]:
        """Allocate pages and run a decoding round. With overlap, plain rounds commit at launch."""
        reqs = list(batch.reqs)
        overlap = self.config.overlap
        if overlap:
            # Advance the cursor before this round commits: a retract may have to return to the
            # present length.
            for req in reqs:
                self._advance_swa(req)
        before = [(req.kv_allocated_len, self.rounds.start(req) + 1) for req in reqs]
        self.kv.alloc([(req, self.rounds.target(req)) for req in reqs])
        rounds = self.rounds.run(batch, reqs)
        for req, (old, at), tokens in zip(reqs, before, rounds, strict=True):
            d, k, actor = req.kv_allocated_len - old, len(tokens), (req.session_id, req.rid)
            if not overlap:
                self.outbox.emit("T-DECODE", *actor, at=at, d=d, k=k, told=req.told(tokens))
                yield Result(req, tokens, k, at, committed=k)
                continue
            counts = 0 if self.config.draft else k
            req.kv_committed_len += counts
            self.outbox.emit("T-LAUNCH", *actor, d=d, k=counts)
            yield Result(req, tokens, k, at, committed=k - counts)

    def process_result(self, result: Result) -> None:
        """Apply a batch's result to a request. Changes the cache if the request ends."""
        req, tokens = result.req, result.tokens[: result.outputs]
        if req.phase is Phase.WAITING:
            self._process_late(req, tokens, result.at)
            return
        told = req.told(tokens)
        req.output_ids += tokens
        req.kv_committed_len += result.committed
        if not self.config.overlap:
            if not result.prefilled:
                self._advance_swa(req)
        elif tokens:
            k, n = result.committed, len(tokens)
            actor = (req.session_id, req.rid)
            self.outbox.emit("T-RESULT", *actor, at=result.at, k=k, sampled=n, told=told)
        if result.prefilled and req.finished_len() is None:
            self.cache.cache_unfinished_req(req)
        self._finish_if_done(req)

    def _process_late(self, req: Req, tokens: list[int], at: int) -> None:
        """Apply the result of a request that a retraction wiped. It may complete the answer."""
        told = req.told(tokens)
        if not told:
            return
        req.output_ids += tokens[:told]
        self.outbox.emit("T-LATE-RESULT", req.session_id, req.rid, at=at, sampled=told)
        self._finish_if_done(req)

    def drop_results(self, req: Req) -> None:
        """Drop the results in flight of a request that ended, or was retracted and keeps its KV."""
        self.results.drop(req)

    def _advance_swa(self, req: Req) -> None:
        cursor = self.kv.advance_swa(req)
        if cursor is not None:
            self.outbox.emit("T-SWA-ADVANCE", req.session_id, req.rid, e=cursor)

    # Memory pressure ------------------------------------------------------------

    def make_room(self, tokens: int) -> bool:
        """Free ``tokens`` in every pool. Return False if discarding all idle slots is not enough.

        Changes the cache: while the tree has too little to evict, discards slots not on loan, least
        recently used first. Then evicts.
        """
        while self.kv.shortage(tokens) > self.kv.tree.evictable:
            if not self.cache.discard_one():
                return False
        short = self.kv.shortage(tokens)
        if short > 0:
            self.cache.inner.evict(short)
        return True

    def _update_running_batch(self) -> bool:
        """Make room for decoding by retracting the newest requests. Return False if none remain.

        A parked request is the newest. If it stayed, two requests could retract each other forever.
        """
        reqs = self.running_batch.reqs
        while reqs:
            need = sum(self.kv.new_pages(req, self.rounds.target(req)) for req in reqs)
            if self.make_room(need):
                return True
            if len(reqs) == 1 and self.chunked_req is None:
                self.out_of_memory(reqs[0])
            else:
                self.retract_decode(self.chunked_req or reqs[-1])
        return False

    def retract_decode(self, req: Req) -> None:
        """Take a request out of the batch, and put it first in the queue."""
        self._remove(req)
        self.cache.retract_req(req)
        if self.config.retract == "keep":
            self.drop_results(req)
        self.waiting_queue.insert(0, req)

    def out_of_memory(self, req: Req) -> None:
        """Abort a request that is alone and does not fit: no other request can make room."""
        self.abort(req, "out of memory: the request does not fit even alone", out_of_memory=True)

    # Arrival and end of requests --------------------------------------------------

    def add(self, req: Req) -> None:
        self.reqs[req.rid] = req
        self.waiting_queue.append(req)

    def running_reqs(self) -> list[Req]:
        """Return requests that decode now or after the merge of their batch, oldest first."""
        last = self.last_batch
        joining = last.reqs if last is not None and last is not self.running_batch else []
        return [*self.running_batch.reqs, *joining]

    def _finish_if_done(self, req: Req) -> None:
        done = req.finished_len()
        if done is None:
            return
        finished_len, reason = done
        self._remove(req)
        if req.doomed:
            reason = ABORT
        self._end(req, finished_len)
        self.cache.cache_finished_req(req, finished_len)
        self.drop_results(req)
        self.outbox.tell_finish(req.rid, reason, list(req.output_ids), req.doomed)

    def abort(self, req: Req, message: str, *, out_of_memory: bool = False) -> None:
        """End a request in any state. Changes the cache as ``abort_req`` does."""
        self._remove(req)
        self._end(req, len(req.output_ids))
        self.cache.abort_req(req, out_of_memory=out_of_memory)
        self.drop_results(req)
        self.outbox.tell_finish(req.rid, ABORT, list(req.output_ids), message)

    def _remove(self, req: Req) -> None:
        """Remove a request from the queue, or from its batch."""
        if req in self.waiting_queue:
            self.waiting_queue.remove(req)
        if req is self.chunked_req:
            self.chunked_req = None
        for batch in (self.running_batch, self.last_batch):
            if batch is not None:
                batch.remove(req)

    def _end(self, req: Req, finished_len: int) -> None:
        self.reqs.pop(req.rid, None)
        self.outbox.ended.append(
            {
                "rid": req.rid,
                "C": req.kv_committed_len,
                "A": req.kv_allocated_len,
                "E": req.swa_evicted_seqlen,
                "finished": finished_len,
            }
        )
