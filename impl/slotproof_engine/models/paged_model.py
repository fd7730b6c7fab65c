"""Base of all models. KV carries a readable stamp and is read through the row table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.requests.batch import ScheduleBatch

if TYPE_CHECKING:
    from slotproof_engine.kv.kv_cache import KVCache

STAMP_DIM = 3
"""Number of leading values of K, and of V, that identify the token and its position."""
TORN = (-1, -1)
"""Stamp of KV that does not belong to one token at one position."""


class PagedModel:
    """Model that writes KV and reads it back through ``req_to_token``. Its tokens change if a page
    has two owners, if a row points to a wrong page, or if a window is freed too early.

    K begins with (token, position, layer + 1), V with (position, token, layer + 1). float32 holds
    these integers exactly.
    """

    head_dim = STAMP_DIM
    """Number of values in K, and in V, per token and layer."""

    def __init__(self, config: EngineConfig, kv: KVCache) -> None:
        self.window = config.window
        self.device = config.device
        self._kv = kv
        self._tags = [
            torch.tensor((1.0, 1.0, layer + 1.0), device=config.device)
            for layer in range(config.num_layers)
        ]
        self._steps = torch.arange(config.row_width, device=config.device)

    def forward(self, batch: ScheduleBatch) -> list[int]:
        """Write the batch's KV, then sample a token per request. Only the tokens are read back.

        Changes KV at the batch's positions only.
        """
        raise NotImplementedError

    def stamps(self, batch: ScheduleBatch) -> tuple[Tensor, Tensor]:
        """Return the stamps in K and in V for the batch's tokens, both ``[tokens, 3]``."""
        token, position = batch.input_ids, batch.positions
        one = torch.ones_like(token)
        k, v = (token, position, one), (position, token, one)
        return torch.stack(k, -1).float(), torch.stack(v, -1).float()

    def visible(
        self, table: Tensor, rows: Tensor, ends: Tensor, longest: int, window: int
    ) -> tuple[Tensor, Tensor]:
        """Return each row's KV indices at the last positions below its end, and a validity mask.

        Both are ``[len(rows), positions]``. ``longest``, the largest end, is the number of
        positions unless the window is smaller. Sizes come from the host, so nothing is read back.
        """
        ends = ends[:, None]
        if window and longest > window:
            positions = (ends - window).clamp_(min=0) + self._steps[:window]
        else:
            positions = self._steps[:longest].expand(len(ends), -1)
        return table[rows[:, None], positions], positions < ends

    def read_stamps(self, name: str, bits: Tensor) -> list[tuple[int, int]]:
        """Read back (token, position) from the bits of KV. The result is ``TORN`` if the KV is
        poisoned, if layers disagree, or if K and V disagree."""
        kv = bits.view(self._kv.kv_pools[name].dtype)
        stamps = kv[..., :2].nan_to_num(nan=-1.0).long()
        readings: list[list[tuple[int, int]]] = []
        for k, v in stamps.tolist():
            readings.append([(token, position) for token, position in k])
            readings.append([(token, position) for position, token in v])
        if all(other == readings[0] for other in readings):
            return readings[0]
        return [stamp[0] if len(set(stamp)) == 1 else TORN for stamp in zip(*readings, strict=True)]
