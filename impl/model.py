"""A model small enough to compute by hand: the next token is a sum over the KV that it sees.

It writes KV and reads it back through ``req_to_token``, so a page that has two
owners, a row that points elsewhere or a window that was given back too early
changes the tokens. ``expected_next`` says what they have to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slotproof.impl.batch import ScheduleBatch
from slotproof.impl.config import EngineConfig

if TYPE_CHECKING:
    from slotproof.impl.kv_cache import KVCache

PRIME = 65521
K_BIAS = (1.0, 3.0, 0.0)
V_BIAS = (3.0, 1.0, 0.0)


def weight(layer: int) -> int:
    """How much a layer's sum counts."""
    return 2 * layer + 3


def next_token(total: int, length: int, vocab: int) -> int:
    return 1 + (total + 31 * length) % PRIME % (vocab - 1)


def expected_next(tokens: Sequence[int], window: int, num_layers: int = 2, vocab: int = 250) -> int:
    """What follows ``tokens``, computed from them alone: what no cache can get wrong.

    >>> expected_next([5, 6, 7], window=0)
    45
    """
    total = 0
    for layer in range(num_layers):
        first = max(0, len(tokens) - window) if layer and window else 0
        seen = range(first, len(tokens))
        dots = sum(2 * (tokens[i] + 1) * (i + 3) + (layer + 1) ** 2 for i in seen)
        total += weight(layer) * dots
    return next_token(total, len(tokens), vocab)


class StampModel:
    """Every layer adds up (K + bias) · (V + bias) over the positions it attends to.

    KV is a *stamp* that can be read back: K is (token, position, layer + 1), V
    is (position, token, layer + 1). float32 holds these integers exactly.
    """

    def __init__(self, config: EngineConfig, kv: KVCache) -> None:
        self.vocab = config.vocab
        self.window = config.window
        self._k_bias = torch.tensor(K_BIAS, device=config.device)
        self._v_bias = torch.tensor(V_BIAS, device=config.device)
        self._tags = [
            torch.tensor((1.0, 1.0, layer + 1.0), device=config.device)
            for layer in range(config.num_layers)
        ]
        self._steps = torch.arange(config.row_width, device=config.device)
        self._kv = kv

    def forward(self, batch: ScheduleBatch) -> list[int]:
        """Write the batch's KV, then sample one token per request: the only read-back.

        Changes KV at the batch's positions, nothing else.
        """
        total = torch.zeros_like(batch.seq_lens)
        token, position = batch.input_ids, batch.positions
        one = torch.ones_like(token)
        k_stamp = torch.stack((token, position, one), -1).float()
        v_stamp = torch.stack((position, token, one), -1).float()
        for name, pool in self._kv.kv_pools.items():
            table = self._kv.req_to_token_pool.req_to_token[name]
            out_cache_loc = table[batch.out_rows, position]
            loc, seen = self._visible(table, batch, self.window if name == "swa" else 0)
            for layer in pool.layers:
                tag = self._tags[layer]
                pool.set_kv_buffer(layer, out_cache_loc, k_stamp * tag, v_stamp * tag)
                k, v = pool.get_kv_buffer(layer, loc)
                dots = ((k + self._k_bias) * (v + self._v_bias)).sum(-1, dtype=torch.int64)
                total += weight(layer) * (dots * seen).sum(-1)
        sums: list[int] = total.tolist()
        lengths = batch.host_seq_lens
        return [next_token(s, n, self.vocab) for s, n in zip(sums, lengths, strict=True)]

    def _visible(self, table: Tensor, batch: ScheduleBatch, window: int) -> tuple[Tensor, Tensor]:
        """KV indices ``[requests, positions]`` that the next token sees, and which are valid.

        Sizes come from the host's lengths: no read-back.
        """
        ends = batch.seq_lens[:, None]
        longest = max(batch.host_seq_lens)
        if window and longest > window:
            positions = (ends - window).clamp_(min=0) + self._steps[:window]
        else:
            positions = self._steps[:longest].expand(len(ends), -1)
        loc = table[batch.req_pool_indices[:, None], positions]
        return loc, positions < ends

    def read_stamps(self, name: str, layer: int, loc: Tensor) -> list[tuple[int, ...]]:
        """(token, position) as K has them, then as V has them, per KV index. A read-back."""
        k, v = self._kv.kv_pools[name].get_kv_buffer(layer, loc)
        columns = torch.stack((k[:, 0], k[:, 1], v[:, 1], v[:, 0]), -1)
        return [tuple(each) for each in columns.long().tolist()]
