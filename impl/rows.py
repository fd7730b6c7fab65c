"""req_to_token: which KV index each position of each request has, in each pool."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

NO_ROW = -1
NOT_THERE = -1
"""Entry of a position whose sliding-window KV was given back."""


class ReqToTokenPool:
    """Rows, dealt out on the host; one table ``[rows, row width]`` per KV pool on the device.

    A page of KV covers P positions that begin at a multiple of P, so tables are
    written by the page and page ids are read from every P-th entry.
    """

    def __init__(
        self, rows: int, width: int, page_size: int, pools: Sequence[str], device: str
    ) -> None:
        self.page_size = page_size
        self.size = rows
        self.free_slots = list(range(rows))
        self.req_to_token = {
            pool: torch.full((rows, width), NOT_THERE, device=device) for pool in pools
        }
        self._offsets = torch.arange(page_size, device=device)
        self._device = device

    def available_size(self) -> int:
        return len(self.free_slots)

    def alloc(self) -> int:
        """Take a row; raises ``IndexError`` when none is free."""
        return self.free_slots.pop(0)

    def free(self, row: int) -> None:
        """Put a row back at the end of the list. Its entries stay as they are: stale."""
        self.free_slots.append(row)

    def write(self, pool: str, rows: list[int], page_numbers: list[int], pages: Tensor) -> None:
        """The ``page_numbers[i]``-th page of ``rows[i]`` is ``pages[i]``. One scatter."""
        table = self.req_to_token[pool]
        index = torch.tensor((rows, page_numbers), device=self._device)
        blocks = table.view(table.shape[0], -1, self.page_size)
        blocks[index[0], index[1]] = pages[:, None] * self.page_size + self._offsets

    def pages(self, pool: str, row: int, lo: int, hi: int) -> Tensor:
        """Ids of the pages at positions ``[lo, hi)``, on the device."""
        return self.req_to_token[pool][row, lo : hi : self.page_size] // self.page_size

    def forget(self, pool: str, row: int, lo: int, hi: int) -> None:
        """Mark ``[lo, hi)`` as given back."""
        self.req_to_token[pool][row, lo:hi] = NOT_THERE
