"""ScheduleBatch: requests that run together, and the tensors of their next forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from slotproof_engine.kernels.device import upload
from slotproof_engine.requests.req import Req


def _empty() -> Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass
class ScheduleBatch:
    """Batch of requests. Compare with ``is``. The operator ``==`` fails on tensors (#27228)."""

    input_ids: Tensor = field(default_factory=_empty)
    """Tokens whose KV is written, ``[tokens]``. The next two fields give row and position."""
    out_rows: Tensor = field(default_factory=_empty)
    positions: Tensor = field(default_factory=_empty)
    req_pool_indices: Tensor = field(default_factory=_empty)
    """Row per request, ``[requests]``."""
    seq_lens: Tensor = field(default_factory=_empty)
    """KV length per request after this forward pass, ``[requests]``."""
    last_tokens: Tensor = field(default_factory=_empty)
    """Index of each request's last token in ``input_ids``, ``[requests]``."""
    host_seq_lens: list[int] = field(default_factory=list)
    reqs: list[Req] = field(default_factory=list)

    def is_empty(self) -> bool:
        return not self.reqs

    def merge_batch(self, other: ScheduleBatch) -> None:
        """Take over all requests of a prefilled batch. That batch's tensors are then unused."""
        self.reqs += other.reqs
        other.reqs = []

    def remove(self, req: Req) -> None:
        if req in self.reqs:
            self.reqs.remove(req)

    def prepare(self, spans: Sequence[tuple[Req, int, Sequence[int]]], device: str) -> None:
        """Fill the tensors. A span is a request, a first position and the tokens written there."""
        tokens: list[int] = []
        rows: list[int] = []
        positions: list[int] = []
        for req, lo, new in spans:
            tokens += new
            rows += [req.req_pool_idx] * len(new)
            positions += range(lo, lo + len(new))
        self.host_seq_lens = [lo + len(new) for _, lo, new in spans]
        indices = [req.req_pool_idx for req, _, _ in spans]
        last = [end - 1 for end in accumulate(len(new) for _, _, new in spans)]
        flat = upload((tokens, rows, positions), device)
        per_request = upload((indices, self.host_seq_lens, last), device)
        self.input_ids, self.out_rows, self.positions = flat.unbind()
        self.req_pool_indices, self.seq_lens, self.last_tokens = per_request.unbind()
