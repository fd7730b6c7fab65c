"""Model computable by hand: the next token is a sum over the visible KV.

KV consists of stamps only. ``expected_next`` computes the correct token without a cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.requests.batch import ScheduleBatch

if TYPE_CHECKING:
    from slotproof_engine.kv.kv_cache import KVCache

PRIME = 65521
K_BIAS = (1.0, 3.0, 0.0)
V_BIAS = (3.0, 1.0, 0.0)


def weight(layer: int) -> int:
    """Return the factor by which a layer's sum counts in the total."""
    return 2 * layer + 3


def next_token(total: int, length: int, vocab: int) -> int:
    return 1 + (total + 31 * length) % PRIME % (vocab - 1)


def expected_next(tokens: Sequence[int], window: int, num_layers: int = 2, vocab: int = 250) -> int:
    """Return the token after ``tokens``, computed without any cache.

    >>> expected_next([5, 6, 7], window=0)
    45
    """
    total = 0
    parts = [2 * (token + 1) * (at + 3) for at, token in enumerate(tokens)]
    for layer in range(num_layers):
        seen = parts[-window:] if layer and window else parts
        total += weight(layer) * (sum(seen) + len(seen) * (layer + 1) ** 2)
    return next_token(total, len(tokens), vocab)


class StampModel(PagedModel):
    """Model whose layers add up (K + bias) · (V + bias) over the attended positions."""

    def __init__(self, config: EngineConfig, kv: KVCache) -> None:
        super().__init__(config, kv)
        self.vocab = config.vocab
        self._k_bias = torch.tensor(K_BIAS, device=config.device)
        self._v_bias = torch.tensor(V_BIAS, device=config.device)
        self._layers = {name: self._constants(pool.layers) for name, pool in kv.kv_pools.items()}

    def _constants(self, layers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the layers' tags, by which stamps are multiplied, and the layers' weights."""
        weights = torch.tensor([[weight(layer)] for layer in layers], device=self.device)
        return torch.stack([self._tags[layer] for layer in layers])[:, None], weights

    def forward(self, batch: ScheduleBatch) -> list[int]:
        total = torch.zeros_like(batch.seq_lens)
        k_stamp, v_stamp = self.stamps(batch)
        longest = max(batch.host_seq_lens)
        for name, pool in self._kv.kv_pools.items():
            table = self._kv.req_to_token_pool.req_to_token[name]
            out_cache_loc = table[batch.out_rows, batch.positions]
            window = self.window if name == "swa" else 0
            rows, ends = batch.req_pool_indices, batch.seq_lens
            loc, seen = self.visible(table, rows, ends, longest, window)
            # All layers at once: no layer attends to another layer's output.
            tags, weights = self._layers[name]
            pool.write(out_cache_loc, k_stamp * tags, v_stamp * tags)
            k, v = pool.bits(loc).view(pool.dtype).unbind(1)
            dots = ((k + self._k_bias) * (v + self._v_bias)).sum(-1, dtype=torch.int64)
            total += (weights * (dots * seen).sum(-1)).sum(0)
        sums: list[int] = total.tolist()
        lengths = batch.host_seq_lens
        return [next_token(s, n, self.vocab) for s, n in zip(sums, lengths, strict=True)]
