"""Model runner without a model. It applies a `SchedulerOutput` as the build's own runner does.

The runner stores each request's tokens and block table, and learns both only from the scheduler's
output. It writes the KV of scheduled tokens to the blocks in the table, and reads all earlier KV
through the table. The KV is a dictionary: (block, offset) → token, position, number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import content
from .worker import Worker

Hashed = Callable[[bytes | None, list[int]], bytes]
Stored = tuple[int, int, int]
"""KV at a position: its token, its position, and a number that stands for the KV's value."""
NOTHING: Stored = (0, -1, 0)
NONE = -1
"""Placeholder for a draft that is unknown to the scheduler or does not exist."""
OTHER = 0
"""Token stored at a rejected position. It is outside the vocabulary."""


@dataclass
class RunnerRequest:
    """State of a request in the model runner."""

    tokens: list[int]
    blocks: list[int]
    computed: int
    prompt: int = 0
    """Number of tokens that came with the request. The runner sampled all others."""
    drafts: list[int] = field(default_factory=list)
    """Drafts that were proposed after the last batch."""
    rejected: int = 0
    """Number of rejected draft positions that the scheduler still counts as computed. The scheduler
    has not processed the output of their batch."""


class Runner:
    """All KV, and the requests that have KV. ``draft``: number of drafts proposed at a time.
    ``accepts``: number of tokens accepted in a round, given the request's ID and its length."""

    def __init__(
        self,
        page_size: int,
        draft: int = 0,
        accepts: Callable[[str, int], int] = lambda *_: 1,
        hashed: Hashed | None = None,
        worker: Worker | None = None,
    ) -> None:
        """``hashed``: the build's hash of a block, as a function of the previous block's hash and
        the block's tokens. None if blocks have no hash. ``worker``: checks of each batch."""
        self.worker = worker
        self.batch: set[str] = set()
        """Requests of the last batch."""
        self.page_size = page_size
        self.draft, self.accepts = draft, accepts
        self.proposes = draft
        """Number of drafts proposed after the batch at hand. 0 if the scheduler wants none."""
        self.rejected: list[tuple[RunnerRequest, int]] = []
        """Requests with rejected positions in the last batch, each with the number rejected."""
        self.firsts: dict[str, int] = {}
        """Position of the first token that each request of the last batch sampled."""
        self.hashed = hashed
        self.hashes: dict[int, bytes] = {}
        """Hash of each block. It covers all tokens up to the block's end, as read or written."""
        self.requests: dict[str, RunnerRequest] = {}
        self.kv: dict[tuple[int, int], Stored] = {}

    def execute(self, output: Any) -> dict[str, list[int]]:
        """Run a batch. Return the sampled tokens of each request."""
        self._update(output)
        drafts = output.scheduled_spec_decode_tokens
        self.proposes = 0 if getattr(output, "skip_drafts", False) else self.draft
        self.rejected, self.firsts = [], {}
        return {
            key: self._run(key, count, drafts.get(key, ()))
            for key, count in output.num_scheduled_tokens.items()
        }

    def settle(self, rejected: list[tuple[RunnerRequest, int]]) -> None:
        """Forget rejected positions once the scheduler has processed the batch's output."""
        for request, count in rejected:
            request.rejected -= count

    def proposed(self, keys: Iterable[str]) -> dict[str, list[int]]:
        """Return the drafts of the requests in a batch."""
        return {key: self.requests[key].drafts for key in keys}

    def stamps(self, blocks: list[int], length: int) -> list[list[int]]:
        """Return the token and position of the KV stored at each position of a block table."""
        size, kv = self.page_size, self.kv
        return [list(kv.get((blocks[at // size], at % size), NOTHING)[:2]) for at in range(length)]

    def _update(self, output: Any) -> None:
        worker, known = self.worker, self.requests
        if worker is not None:
            worker.batch(output)
        gone = set(output.finished_req_ids)
        if worker is not None and worker.v2:
            gone |= set(output.preempted_req_ids or ())
        for key in gone:
            known.pop(key, None)
        for new in output.scheduled_new_reqs:  # A session's next turn also comes as a new request.
            key, computed = new.req_id, new.num_computed_tokens
            tokens = list(getattr(new, "prefill_token_ids", None) or new.prompt_token_ids)
            if worker is not None and key not in known:
                worker.adds(key, known)
            known[key] = RunnerRequest(tokens, list(new.block_ids[0]), computed, len(tokens))
        cached = output.scheduled_cached_reqs
        for index, key in enumerate(cached.req_ids):
            if worker is not None:
                worker.knows(key, known)
            self._continue(key, cached, index)
        self.batch = set(output.num_scheduled_tokens)

    def _continue(self, key: str, cached: Any, index: int) -> None:
        """Update a request that the runner has. ``index``: its place in the lists of ``cached``."""
        worker, request = self.worker, self.requests[key]
        blocks, computed = cached.new_block_ids[index], cached.num_computed_tokens[index]
        outputs = getattr(cached, "num_output_tokens", {index: None})[index]
        resumed = key in cached.resumed_req_ids
        if worker is not None and resumed:
            worker.resumes(key, blocks)
        elif worker is not None:
            worker.continues(key, request, outputs)
        if worker is not None and not worker.v2 and (resumed or key not in self.batch):
            request.tokens = worker.joins(key, request, cached.all_token_ids, outputs)
        if resumed:
            request = RunnerRequest(request.tokens, [], computed, request.prompt)
            self.requests[key] = request
        request.computed = computed - request.rejected
        if blocks is not None:
            request.blocks = [*request.blocks, *blocks[0]]

    def _run(self, key: str, count: int, drafts: Sequence[int]) -> list[int]:
        """Run known tokens, then drafts up to a rejection. Return the sampled tokens."""
        request = self.requests[key]
        if self.worker is not None:
            self.worker.runs(key, request, count, len(drafts))
        first, end = request.computed, request.computed + count
        base, own = end - len(drafts), iter(request.drafts)
        # In a round scheduled ahead of an output, placeholders stand for the worker's drafts.
        drafts = [next(own, NONE) if draft == NONE else draft for draft in drafts]
        request.drafts = []
        if end > (blocks := len(request.blocks)) * self.page_size:
            raise IndexError(f"{key}: position {end - 1} is beyond its {blocks} blocks")
        prefix = 0
        for position in range(base):
            if position >= first:
                self._write(request, position, prefix, request.tokens[position])
            prefix = self._read(request, position, prefix)
        if base < len(request.tokens):  # The batch had only a chunk of the prefill.
            self._hash(request.blocks, first, end)
            return []
        self.firsts[key] = base
        sampled = [content.sampled(prefix)]
        most = self.accepts(key, base) if drafts and drafts[0] != NONE else 1
        for draft in drafts:
            if len(sampled) >= most or draft != sampled[-1]:
                break
            position = base + len(sampled) - 1
            self._write(request, position, prefix, draft)
            prefix = self._read(request, position, prefix)
            sampled.append(content.sampled(prefix))
        for position in range(base + len(sampled) - 1, end):  # The rest of the drafts are rejected.
            self._write(request, position, prefix, OTHER)
        self._hash(request.blocks, first, end)
        request.rejected += end + 1 - base - len(sampled)
        self.rejected.append((request, end + 1 - base - len(sampled)))
        request.tokens += sampled
        request.drafts = content.continued(prefix, request.tokens, self.proposes)
        return sampled

    def _write(self, request: RunnerRequest, position: int, prefix: int, token: int) -> None:
        size = self.page_size
        place = request.blocks[position // size], position % size
        self.kv[place] = token, position, content.computed(prefix, token, position)

    def _read(self, request: RunnerRequest, position: int, prefix: int) -> int:
        size = self.page_size
        place = request.blocks[position // size], position % size
        return content.read(prefix, self.kv.get(place, NOTHING)[2])

    def _hash(self, blocks: list[int], first: int, end: int) -> None:
        """Hash the stored tokens of the blocks that positions from ``first`` to ``end`` fill."""
        if self.hashed is None:
            return
        size = self.page_size
        for index in range(first // size, end // size):
            parent = self.hashes.get(blocks[index - 1], b"") if index else None
            stored = (self.kv.get((blocks[index], offset), NOTHING) for offset in range(size))
            tokens = [token for token, *_ in stored]
            self.hashes[blocks[index]] = b"" if parent == b"" else self.hashed(parent, tokens)
