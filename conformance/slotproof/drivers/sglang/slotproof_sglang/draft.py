"""Drafts injected by the driver into builds whose rounds can't be scripted (`speculation.py`).

A speculative round may go past the end of a turn: it allocates ahead and commits KV past the
finished length. On a CPU such a build can't run real rounds, and a row lengthened between two plain
rounds would be overwritten. A draft therefore waits for the end of its turn. It is injected just
before the build saves the turn, and the build's trim has to release the draft's memory.

A draft that commits nothing is dropped. From 0.5.15 on, a build that finds memory allocated past
the finished length assumes a verify round, and sets the slot's C to that length. As no round wrote
KV up to this length, the driver itself would cause a violation.
"""

from __future__ import annotations

import importlib
from typing import Any

from .dialects.base import Dialect
from .messages import inner_rid
from .tracker import Tracker

FILLER = 1
"""Token recorded at each position that a draft commits. The trim removes it."""


class Drafts:
    """Drafts that wait for the end of their turns."""

    def __init__(self, dialect: Dialect, tracker: Tracker, width: int) -> None:
        self.dialect = dialect
        self.tracker = tracker
        self.width = width
        self.waiting: dict[str, tuple[int, int]] = {}
        self.torch: Any = importlib.import_module("torch")

    def request(self, rid: str, allocate: int, commit: int) -> None:
        """Record a draft. A new draft replaces the request's old one."""
        self.waiting[inner_rid(rid)] = allocate, commit

    def inject(self, req: Any) -> None:
        """Lengthen the row of a finishing turn by its draft, if the pool and the row have room."""
        allocate, commit = self.waiting.pop(req.rid, (0, 0))
        kv = self.dialect.kv(req)
        commit = min(commit, kv.A + allocate - kv.C)
        if commit <= 0:
            return
        # Pages with a deferred free do not count, because this iteration can't allocate them.
        room = int(self.dialect.scheduler.token_to_kv_pool_allocator.available_size())
        if kv.A + allocate > self.width or allocate + self.dialect.page_size > room:
            return
        if allocate > 0:
            indices = self._allocate(kv.row, kv.A, allocate)
            self.dialect.rows.req_to_token[kv.row, kv.A : kv.A + allocate] = indices
        if req.finished_len is None:  # The tokens committed now are past the end of the turn.
            req.finished_len = len(req.output_ids)
        at = len(req.origin_input_ids) + len(req.output_ids)
        req.output_ids.extend([FILLER] * commit)
        self.dialect.grow(req, allocate, commit)
        self.tracker.of(req, "T-DECODE", at=at, d=allocate, k=commit, told=0)
        self.tracker.injected = True

    def _allocate(self, row: int, start: int, count: int) -> Any:
        """Return KV indices for positions [start, start + count), allocated by the build."""
        allocator, torch = self.dialect.allocator, self.torch
        if self.dialect.page_size == 1:
            indices = allocator.alloc(count)
        else:
            before = torch.tensor([start], dtype=torch.int64)
            after = torch.tensor([start + count], dtype=torch.int64)
            last = self.dialect.rows.req_to_token[row, start - 1 : start].to(torch.int64)
            indices = allocator.alloc_extend(before, before, after, after, last, count)
        return indices.to(torch.int32)
