"""Drafts put in by hand, for builds whose rounds can't be scripted (`speculation.py`).

A speculative round may overshoot the end of a turn: it allocates ahead and commits past
the finished length. Real rounds can't run here, and between two plain decode rounds a
longer row would be overwritten, so a draft waits until its turn finishes and is put in
just before the build saves it: that is where trim has to give it back.

A draft that commits nothing is dropped. Builds from 0.5.15 on set the slot's C to the
finished length as soon as memory is allocated that far, taking a verify round in flight
for granted; memory put in without such a round would show a difference of our making.
"""

from __future__ import annotations

import importlib
from typing import Any

from .dialects.base import Dialect
from .messages import inner_rid
from .tracker import Tracker

FILLER = 1
"""The token that a committed draft position is said to hold; trim takes it away again."""


class Drafts:
    """Drafts that wait for their turns to finish."""

    def __init__(self, dialect: Dialect, tracker: Tracker, width: int) -> None:
        self.dialect = dialect
        self.tracker = tracker
        self.width = width
        self.waiting: dict[str, tuple[int, int]] = {}
        self.torch: Any = importlib.import_module("torch")

    def request(self, rid: str, allocate: int, commit: int) -> None:
        """Note a draft; a later one for the same request replaces it."""
        self.waiting[inner_rid(rid)] = allocate, commit

    def inject(self, req: Any) -> None:
        """Grow the row of a finishing turn by its draft, if pool and row have room."""
        allocate, commit = self.waiting.pop(req.rid, (0, 0))
        kv = self.dialect.kv(req)
        commit = min(commit, kv.A + allocate - kv.C)
        if commit <= 0:
            return
        # Not what is deferred: that can't be had before the iteration is over.
        room = int(self.dialect.scheduler.token_to_kv_pool_allocator.available_size())
        if kv.A + allocate > self.width or allocate + self.dialect.page_size > room:
            return
        if allocate > 0:
            indices = self._allocate(kv.row, kv.A, allocate)
            self.dialect.rows.req_to_token[kv.row, kv.A : kv.A + allocate] = indices
        if req.finished_len is None:  # what was committed now is past the end
            req.finished_len = len(req.output_ids)
        req.output_ids.extend([FILLER] * commit)
        self.dialect.grow(req, allocate, commit)
        self.tracker.of(req, "T-DECODE", d=allocate, k=commit)
        self.tracker.injected = True

    def _allocate(self, row: int, start: int, count: int) -> Any:
        """Indices for positions [start, start + count), from the build's own allocator."""
        allocator, torch = self.dialect.allocator, self.torch
        if self.dialect.page_size == 1:
            indices = allocator.alloc(count)
        else:
            before = torch.tensor([start], dtype=torch.int64)
            after = torch.tensor([start + count], dtype=torch.int64)
            last = self.dialect.rows.req_to_token[row, start - 1 : start].to(torch.int64)
            indices = allocator.alloc_extend(before, before, after, after, last, count)
        return indices.to(torch.int32)
