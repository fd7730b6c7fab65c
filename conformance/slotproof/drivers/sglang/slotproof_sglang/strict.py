"""Strict stand-in worker: each batch is checked before its forward, as a GPU worker would read it.

A worker on a CPU forgives a batch with a wrong sum of lengths, a page in use by another request, or
a token of another request. A GPU worker then computes wrong tokens or writes to memory of others.
For such a batch the stand-in raises `Misread` inside the engine's step. The message names the
worker's file and function. The driver's README has a table of the checks.

Some misreadings follow from an owner's record, such as two records with the same row. Snapshots
show these records, so the stand-in waits for the judgement. It raises at the next `step`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .dialects.base import Dialect
from .messages import outer_rid

NEXT = "_slotproof_next"
"""Attribute of a request: the position and the value of the token that its last forward sampled."""

BATCH = "model_executor/forward_batch_info.py ForwardBatch.init_new"
ROW = "layers/attention/triton_backend.py init_forward_metadata"
PAGES = "layers/attention/flashattention_backend.py init_forward_metadata"
WRITE = "mem_cache/memory_pool.py MHATokenToKVPool.set_kv_buffer"
SWA = "mem_cache/swa_memory_pool.py SWAKVPool.set_kv_buffer"
POSITIONS = "model_executor/forward_batch_info.py compute_position"
TOKENS = "managers/tp_worker.py TpModelWorker.forward_batch_generation"
SAMPLER = "layers/sampler.py Sampler.forward"
LOGITS = "layers/logits_processor.py LogitsMetadata.from_forward_batch"
ADDER = "managers/schedule_policy.py PrefillAdder"
ROUND = "kernels/ops/speculative/cache_locs.py assign_extend_cache_locs"


class Misread(RuntimeError):
    """A batch that the real worker would misread."""


def demand(fact: object, where: str, text: str) -> None:
    """Raise `Misread` if ``fact`` is false. ``where``: the worker's file and function."""
    if not fact:
        raise Misread(f"the worker misreads the batch in {where}: {text}")


class Part(NamedTuple):
    """One request's part of a batch: the positions from ``start`` to ``end`` are computed."""

    req: Any
    row: int
    start: int
    end: int
    written: list[int]
    """KV indices to which the worker writes."""
    ids: list[int]
    """Input tokens."""

    @property
    def name(self) -> str:
        return outer_rid(str(self.req.rid))


class Worker:
    """Checks of the batches of one scheduler."""

    def __init__(self, scheduler: Any, dialect: Dialect) -> None:
        self.scheduler = scheduler
        self.dialect = dialect
        self.speculates = not scheduler.spec_algorithm.is_none()
        #: Limits of the configuration: largest batch, and tokens of a prefill (0: no limit).
        self.max_running, self.chunk = 0, 0
        self.reqs: Sequence[Any] = ()
        self.parts: list[Part] = []
        #: First misreading that follows from the records of owners. The next `step` raises it.
        self.recorded: Misread | None = None

    def install(self, rounds: Any) -> None:
        """Check each batch of this scheduler. ``rounds``: its scripted rounds, or None."""
        worker = self.scheduler.tp_worker
        self._before(self.scheduler, "run_batch", self._batch)
        self._before(worker.model_runner, "forward", self._positions)
        forward = worker.forward_batch_generation

        def forward_batch_generation(batch: Any, *args: Any, **kwargs: Any) -> Any:
            self.check(batch)
            result = forward(batch, *args, **kwargs)
            self._sampled(result)
            return result

        worker.forward_batch_generation = forward_batch_generation
        if rounds is not None:
            rounds.check = self.round

    @staticmethod
    def _before(owner: Any, name: str, look: Any) -> None:
        original = getattr(owner, name)

        def wrapped(batch: Any, *args: Any, **kwargs: Any) -> Any:
            look(batch)
            return original(batch, *args, **kwargs)

        setattr(owner, name, wrapped)

    def _batch(self, batch: Any) -> None:
        self.reqs = tuple(batch.reqs)

    def begin(self) -> None:
        """Raise `Misread` if the records misled the worker in an earlier step."""
        if self.recorded is not None:
            raise self.recorded

    def _recorded(self, fact: object, where: str, text: str) -> None:
        try:
            demand(fact, where, text)
        except Misread as misread:
            self.recorded = self.recorded or misread

    def check(self, batch: Any) -> None:
        """Raise `Misread` if the worker would misread the batch."""
        if not self.reqs:
            return
        self.parts = list(self._parts(batch))
        self._sizes(batch)
        writers = self._writers()
        free = set(self.dialect.free.pages())
        for part in self.parts:
            self._row(part, free, writers)
            self._ids(part)
        if self.dialect.swa is not None:
            self._window(self.dialect.swa)

    def _parts(self, batch: Any) -> Iterator[Part]:
        """Yield each request's part. Check that all lists of the batch have one entry for each."""
        lengths, rows = batch.seq_lens.tolist(), batch.req_pool_indices.tolist()
        counts = [1] * len(lengths)
        if batch.forward_mode.is_extend():
            # Up to 0.5.1x a copy of the batch renames two of its lists.
            counts = batch.extend_lens if hasattr(batch, "extend_lens") else batch.extend_seq_lens
            names = "prefix_lens", "extend_prefix_lens"
            starts = next(list(getattr(batch, name)) for name in names if hasattr(batch, name))
            sums = [start + count for start, count in zip(starts, counts, strict=True)]
            demand(sums == lengths, BATCH, f"prefix_lens + extend_lens is {sums}, not {lengths}")
        written, ids = batch.out_cache_loc.tolist(), batch.input_ids.tolist()
        for name, entries in (("seq_lens", lengths), ("req_pool_indices", rows)):
            text = f"{len(entries)} {name} for {len(self.reqs)} requests"
            demand(len(entries) == len(self.reqs), BATCH, text)
        for name, entries in (("out_cache_loc", written), ("input_ids", ids)):
            text = f"{len(entries)} {name} for {sum(counts)} tokens"
            demand(len(entries) == sum(counts), BATCH, text)
        at = 0
        for req, row, end, count in zip(self.reqs, rows, lengths, counts, strict=True):
            span = slice(at, at + count)
            yield Part(req, row, end - count, end, written[span], ids[span])
            at += count

    def _sizes(self, batch: Any) -> None:
        """Check the rows, and the figures that the worker reads for the batch as a whole."""
        size, lengths = len(self.parts), [part.end for part in self.parts]
        rows = [part.row for part in self.parts]
        pool = self.dialect.rows
        free = {int(row) for row in pool.free_slots}
        known = range(int(pool.req_to_token.shape[0]) - int(pool.size), pool.req_to_token.shape[0])
        demand(all(row in known for row in rows), ROW, f"{rows} are not all rows")
        self._recorded(len(set(rows)) == size, ROW, f"two requests share a row of {rows}")
        self._recorded(not free & {*rows}, ROW, f"a free row in {rows}")
        host = batch.seq_lens_cpu
        if host is not None:
            demand(host.tolist() == lengths, BATCH, f"seq_lens_cpu {host.tolist()}, not {lengths}")
        total = batch.seq_lens_sum
        demand(total in (None, sum(lengths)), ROW, f"seq_lens_sum {total}, not {sum(lengths)}")
        heat = len(batch.sampling_info.temperatures)
        demand(heat == size, SAMPLER, f"{heat} temperatures for {size} requests")
        limit = self.max_running
        demand(not limit or size <= limit, ADDER, f"{size} requests in a batch, at most {limit}")
        if batch.forward_mode.is_extend():
            sent = sum(len(part.ids) for part in self.parts)
            text = f"{sent} tokens in a prefill of at most {self.chunk}"
            demand(not self.chunk or sent <= self.chunk, ADDER, text)
            for part, first in zip(self.parts, batch.extend_logprob_start_lens or (), strict=False):
                text = f"{part.name}: logprobs from {first} of {len(part.ids)} tokens"
                demand(0 <= first <= len(part.ids), LOGITS, text)

    def _writers(self) -> dict[int, set[str]]:
        """Return the names of the holders of each page: rows, and the tree."""
        dialect, holders = self.dialect, defaultdict[int, set[str]](set)
        for page, _ in dialect.tree_pages():
            holders[page].add("the tree")
        owners = [dialect.kv(req) for req, _ in dialect.live()]
        owners += [slot.kv for slot in dialect.slots().values()]
        ends = {part.row: part.end for part in self.parts}
        for kv in owners:
            if kv.row >= 0:
                ends[kv.row] = max(kv.A if kv.row not in ends else 0, ends.get(kv.row, 0))
        for row, end in ends.items():
            for page in dialect.pages_of(dialect.row_indices(row, end)):
                holders[page].add(f"row {row}")
        return holders

    def _row(self, part: Part, free: set[int], holders: dict[int, set[str]]) -> None:
        """Check a request's row: its KV is allocated, in order, and written only by the request."""
        dialect, size, name = self.dialect, self.dialect.page_size, part.name
        kv = dialect.kv(part.req)
        demand(kv.row == part.row, BATCH, f"{name} has row {kv.row}, the batch row {part.row}")
        self._recorded(part.end <= kv.A, ROW, f"{name} reads {part.end} positions of {kv.A}")
        if self.recorded is not None:
            return  # Wrong records explain all further differences.
        indices = dialect.row_indices(part.row, part.end)
        demand(indices[part.start :] == part.written, WRITE, f"{name} writes outside its row")
        last = dialect.total // size
        for position, index in enumerate(indices):
            page, first = index // size, indices[position - position % size]
            text = f"{name} reads page {page} at position {position}, which is free"
            self._recorded(0 < page <= last and page not in free, ROW, text)
            text = f"{name} has index {index} at position {position}, on a wrong place of its page"
            demand(index == first + position % size, PAGES, text)
        for page in dialect.pages_of(part.written):
            others = " and ".join(sorted(holders[page] - {f"row {part.row}"}))
            self._recorded(not others, WRITE, f"{name} writes to page {page} of {others}")

    def _ids(self, part: Part) -> None:
        """Check the input tokens: prompt, output, then the token that the last forward sampled."""
        known = [*part.req.origin_input_ids, *part.req.output_ids]
        position, token = getattr(part.req, NEXT, (-1, -1))
        if self.speculates and part.start >= len(part.req.origin_input_ids):
            return  # The scripted round itself chooses the tokens.
        for at, given in enumerate(part.ids, part.start):
            wanted = known[at] if at < len(known) else token if at == position else None
            text = f"{part.name} has token {given} at position {at}, not {wanted}"
            demand(given == wanted, TOKENS, text)

    def _window(self, swa: Any) -> None:
        """Check the sliding-window KV: that of new positions, and that within the window."""
        free, seen = set(swa.pages()), set[int]()
        for part in self.parts:
            low = max(0, part.start - swa.window)
            indices = swa.indices(self.dialect.row_indices(part.row, part.end)[low:])
            for at, index in enumerate(indices, low):
                text = f"{part.name} has no sliding-window KV at position {at}"
                self._recorded(index > 0 and index // swa.page_size not in free, SWA, text)
            written = set(indices[part.start - low :])
            text = f"{part.name} shares sliding-window KV"
            own = len(written) == part.end - part.start and not written & seen
            self._recorded(own, SWA, text)
            seen |= written

    def _positions(self, forward: Any) -> None:
        """Check the positions that the worker has computed."""
        wanted = [at for part in self.parts for at in range(part.start, part.end)]
        given = forward.positions.tolist()
        demand(not self.reqs or given == wanted, POSITIONS, f"positions {given}, not {wanted}")

    def _sampled(self, result: Any) -> None:
        if self.parts and result.next_token_ids is not None:
            tokens = result.next_token_ids.tolist()
            for part, token in zip(self.parts, tokens, strict=True):
                setattr(part.req, NEXT, (part.end, int(token)))

    def round(self, batch: Any, width: int) -> None:
        """Check a speculative round: each position of its drafts has allocated KV."""
        for req, start in zip(batch.reqs, batch.seq_lens.tolist(), strict=True):
            allocated = self.dialect.kv(req).A
            text = (
                f"{outer_rid(str(req.rid))} drafts up to {start + width} of {allocated} positions"
            )
            demand(start + width <= allocated, ROUND, text)
