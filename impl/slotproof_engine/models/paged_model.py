"""What every model here has: KV with a readable stamp, and sight through the row table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.requests.batch import ScheduleBatch

if TYPE_CHECKING:
    from slotproof_engine.kv.kv_cache import KVCache

STAMP_DIM = 3
"""Numbers of K, and of V, that say of which token at which position they are."""
TORN = (-1, -1)
"""What is read where it is not the KV of one token at one position."""


class PagedModel:
    """Writes KV and reads it back through ``req_to_token``, so that a page with two owners,
    a row that points elsewhere or a window given back too early changes the tokens.

    K begins with (token, position, 1) times layer + 1 in the last place, V with
    (position, token, 1) likewise. float32 holds these integers exactly.
    """

    head_dim = STAMP_DIM
    """Numbers of K, and of V, of one token in one layer."""

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
        """Write the batch's KV, then sample one token per request: the only read-back.

        Changes KV at the batch's positions, nothing else.
        """
        raise NotImplementedError

    def stamps(self, batch: ScheduleBatch) -> tuple[Tensor, Tensor]:
        """What K and V of the batch's tokens begin with, ``[tokens, 3]`` each."""
        token, position = batch.input_ids, batch.positions
        one = torch.ones_like(token)
        k, v = (token, position, one), (position, token, one)
        return torch.stack(k, -1).float(), torch.stack(v, -1).float()

    def visible(
        self, table: Tensor, rows: Tensor, ends: Tensor, longest: int, window: int
    ) -> tuple[Tensor, Tensor]:
        """KV indices of the last positions below ``ends`` of each row, and which are valid.

        ``[len(rows), positions]`` both; as many positions as ``longest``, the largest end,
        and the window allow. Sizes come from the host: no read-back.
        """
        ends = ends[:, None]
        if window and longest > window:
            positions = (ends - window).clamp_(min=0) + self._steps[:window]
        else:
            positions = self._steps[:longest].expand(len(ends), -1)
        return table[rows[:, None], positions], positions < ends

    def read_stamps(self, name: str, bits: Tensor) -> list[tuple[int, int]]:
        """(token, position) as the bits of its KV say; ``TORN`` if poisoned, and where layers, or K
        and V, differ.

        A read-back.
        """
        kv = bits.view(self._kv.kv_pools[name].dtype)
        stamps = kv[..., :2].nan_to_num(nan=-1.0).long()
        readings: list[list[tuple[int, int]]] = []
        for k, v in stamps.tolist():
            readings.append([(token, position) for token, position in k])
            readings.append([(token, position) for position, token in v])
        if all(other == readings[0] for other in readings):
            return readings[0]
        return [said[0] if len(set(said)) == 1 else TORN for said in zip(*readings, strict=True)]
