"""req_to_token: KV index by pool, row and position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slotproof_engine.kernels import MemoryKernels, plain_memory
from slotproof_engine.kernels.device import upload
from slotproof_engine.kernels.plain_memory import NOT_THERE, Span

NO_ROW = -1


class ReqToTokenPool:
    """Rows, allocated on the host. Each KV pool has a table ``[rows, row width]`` on the device.

    A page of KV covers P positions, beginning at a multiple of P. Tables are written page by page,
    and page IDs are read from every P-th entry.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        page_size: int,
        pools: Sequence[str],
        device: str,
        kernels: MemoryKernels = plain_memory,
    ) -> None:
        self.page_size = page_size
        self.size = rows
        self.free_slots = list(range(rows))
        self.req_to_token = {
            pool: torch.full((rows, width), NOT_THERE, device=device) for pool in pools
        }
        self._device = device
        self._kernels = kernels

    def available_size(self) -> int:
        return len(self.free_slots)

    def alloc(self) -> int:
        """Take a row. ``IndexError`` if no row is free."""
        return self.free_slots.pop(0)

    def free(self, row: int) -> None:
        """Put a row back at the end of the free list. Its table entries stay, although stale."""
        self.free_slots.append(row)

    def extend(self, pool: str, spans: Sequence[Span], pages: Tensor) -> None:
        """Write ``pages``, in order, to positions [ceil(A), ceil(hi)) of each span (row, A, hi)."""
        self._kernels.alloc_extend(self.req_to_token[pool], spans, pages, self.page_size)

    def write(self, pool: str, row: int, first: int, pages: Tensor) -> None:
        """Write ``pages`` into the row, beginning at the row's page number ``first``."""
        count = len(pages)
        index = upload(([row] * count, range(first, first + count)), self._device)
        table = self.req_to_token[pool]
        self._kernels.write_rows(table, index[0], index[1], pages, self.page_size)

    def pages(self, pool: str, row: int, lo: int, hi: int) -> Tensor:
        """Return the IDs of the pages at positions ``[lo, hi)``, as a tensor on the device."""
        return self.req_to_token[pool][row, lo : hi : self.page_size] // self.page_size

    def take_back(self, pool: str, row: int, lo: int, hi: int, *, forget: bool = False) -> Tensor:
        """Return the pages at ``[lo, hi)``, to be freed. ``forget`` clears the table entries."""
        table = self.req_to_token[pool]
        return self._kernels.free_rows(table, [(row, lo, hi)], self.page_size, forget=forget)
