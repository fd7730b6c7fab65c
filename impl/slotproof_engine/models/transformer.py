"""Tiny greedy transformer with seeded weights: two layers, the second with an optional window.

``Transformer`` has the weights and computes a layer from any K and V, without a cache.
``expected_tokens`` runs the model on a whole conversation at once. ``PagedTransformer`` runs the
model in small batches over the paged pools. Both runs must give the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.models.paged_model import STAMP_DIM, PagedModel
from slotproof_engine.requests.batch import ScheduleBatch

if TYPE_CHECKING:
    from slotproof_engine.kv.kv_cache import KVCache

WIDTH = 32
HEADS = 4
"""Number of query heads, which share a single head of K and V."""
KEY_DIM = 8
TIE = 1e-3
"""Difference of logits below which another order of summation may swap two tokens."""


class Transformer:
    """Weights of a decoder, drawn on the CPU to be equal on every device."""

    def __init__(self, vocab: int, num_layers: int, device: str) -> None:
        generator = torch.Generator().manual_seed(20261121)

        def draw(*shape: int) -> Tensor:
            weights = torch.randn(shape, generator=generator) / math.sqrt(shape[0])
            return weights.to(device)

        self.embedding = draw(vocab, WIDTH) * math.sqrt(vocab)
        self.q = [draw(WIDTH, HEADS * KEY_DIM) * 2 for _ in range(num_layers)]
        self.kv = [draw(WIDTH, 2 * KEY_DIM) for _ in range(num_layers)]
        self.out = [draw(HEADS * KEY_DIM, WIDTH) * 3 for _ in range(num_layers)]
        self.up = [draw(WIDTH, 2 * WIDTH) for _ in range(num_layers)]
        self.down = [draw(2 * WIDTH, WIDTH) for _ in range(num_layers)]
        self.head = draw(WIDTH, vocab - 1)
        """Output weights of the tokens 1, 2, ...: token 0 is never sampled."""
        self._waves = torch.linspace(0.1, 3.0, WIDTH // 2, device=device)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the embedding of token and position, ``[tokens, width]``."""
        angles = positions[:, None] * self._waves
        return self.embedding[tokens] + torch.cat((angles.sin(), angles.cos()), -1)

    def keys_values(self, layer: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return K and V of the tokens, each ``[tokens, key dim]``."""
        k, v = (_normal(x) @ self.kv[layer]).chunk(2, -1)
        return k, v

    def layer(self, layer: int, x: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        """Attend to the seen K and V (``[tokens, positions, key dim]``), then apply an MLP."""
        q = (_normal(x) @ self.q[layer]).view(len(x), HEADS, KEY_DIM)
        scores = torch.einsum("thd,tpd->thp", q, k) / math.sqrt(KEY_DIM)
        share = scores.masked_fill(~seen[:, None], -math.inf).softmax(-1)
        values = v.masked_fill(~seen[:, :, None], 0.0)  # unseen KV may be NaN
        attended = torch.einsum("thp,tpd->thd", share, values).flatten(1)
        x = x + attended @ self.out[layer]
        return x + torch.tanh(_normal(x) @ self.up[layer]) @ self.down[layer]

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of the tokens 1 to vocab - 1, ``[..., vocab - 1]``."""
        return _normal(x) @ self.head


def _normal(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


@lru_cache(maxsize=4)
def _on_cpu(vocab: int, num_layers: int) -> Transformer:
    return Transformer(vocab, num_layers, "cpu")


def expected_tokens(
    tokens: Sequence[int], count: int, window: int, num_layers: int = 2, vocab: int = 250
) -> list[int]:
    """Return the tokens after ``tokens``, computed from scratch without any cache, on the CPU.

    Stops early at a tie, where the logits of the best two tokens are too close to decide.
    """
    model, known = _on_cpu(vocab, num_layers), list(tokens)
    for _ in range(count):
        positions = torch.arange(len(known))
        distance = positions[:, None] - positions
        x = model.embed(torch.tensor(known), positions)
        for layer in range(num_layers):
            k, v = (tensor.expand(len(known), -1, -1) for tensor in model.keys_values(layer, x))
            limit = window if layer and window else len(known)
            x = model.layer(layer, x, k, v, (distance >= 0) & (distance < limit))
        best, which = model.logits(x[-1]).topk(2)
        if best[0] - best[1] < TIE:
            break
        known.append(1 + int(which[0]))
    return known[len(tokens) :]


class PagedTransformer(PagedModel):
    """Transformer over the paged pools. Layer 0 has full attention, all others use the window."""

    head_dim = STAMP_DIM + KEY_DIM

    def __init__(self, config: EngineConfig, kv: KVCache) -> None:
        super().__init__(config, kv)
        self.model = Transformer(config.vocab, config.num_layers, config.device)

    def forward(self, batch: ScheduleBatch) -> list[int]:
        x = self.model.embed(batch.input_ids, batch.positions)
        k_stamp, v_stamp = self.stamps(batch)
        ends, longest = batch.positions + 1, max(batch.host_seq_lens)
        for name, pool in self._kv.kv_pools.items():
            table = self._kv.req_to_token_pool.req_to_token[name]
            out_cache_loc = table[batch.out_rows, batch.positions]
            window = self.window if name == "swa" else 0
            loc, seen = self.visible(table, batch.out_rows, ends, longest, window)
            for layer in pool.layers:
                k, v = self.model.keys_values(layer, x)
                tag = self._tags[layer]
                k, v = torch.cat((k_stamp * tag, k), -1), torch.cat((v_stamp * tag, v), -1)
                pool.set_kv_buffer(layer, out_cache_loc, k, v)
                k, v = pool.get_kv_buffer(layer, loc)
                x = self.model.layer(layer, x, k[..., STAMP_DIM:], v[..., STAMP_DIM:], seen)
        best = self.model.logits(x[batch.last_tokens]).argmax(-1)
        sampled: list[int] = (1 + best).tolist()
        return sampled
