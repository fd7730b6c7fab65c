"""Storage of KV: the tensors of a pool, and the allocator of its pages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from slotproof_engine.kernels import MemoryKernels, plain_memory

BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer type by size in bytes. KV elements are moved and poisoned as integers of their size."""


class KVPool:
    """K and V of the layers that share a pool, in tensors ``[tokens, heads, dim]``."""

    def __init__(
        self,
        tokens: int,
        layers: Iterable[int],
        head_dim: int,
        device: str,
        dtype: torch.dtype = torch.float32,
        kernels: MemoryKernels = plain_memory,
    ) -> None:
        self.layers = tuple(layers)
        self.dtype = dtype
        self._kernels = kernels
        shape = (len(self.layers), 2, tokens, 1, head_dim)
        self._bits = torch.zeros(shape, dtype=BITS[dtype.itemsize], device=device)
        self._kv = dict(zip(self.layers, self._bits, strict=True))
        self.k = {layer: bits[0].view(dtype) for layer, bits in self._kv.items()}
        self.v = {layer: bits[1].view(dtype) for layer, bits in self._kv.items()}

    def set_kv_buffer(self, layer: int, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write K and V (``[n, dim]``) to the KV indices ``loc`` (``[n]``)."""
        new = torch.stack((k, v)).to(self.dtype).view(self._bits.dtype)
        self._kernels.write_kv(self._kv[layer], loc, new[:, :, None])

    def write(self, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write K and V of all layers (``[layers, n, dim]``) to ``loc`` (``[n]``) at once."""
        new = torch.stack((k, v), 1).to(self.dtype).view(self._bits.dtype)
        self._kernels.write_kv(self._bits.flatten(0, 1), loc, new.flatten(0, 1)[:, :, None])

    def get_kv_buffer(self, layer: int, loc: Tensor) -> tuple[Tensor, Tensor]:
        """Return copies of K and V at the KV indices ``loc`` (any shape), ``[*loc.shape, dim]``."""
        kv = self._kv[layer][:, loc, 0].view(self.dtype)
        return kv[0], kv[1]

    def bits(self, loc: Tensor) -> Tensor:
        """Return a copy of all layers' bits at ``loc``, ``[layers, 2, *loc.shape, dim]``."""
        return self._bits[:, :, loc, 0]

    def poison(self, pages: Tensor, page_size: int) -> None:
        """Set every bit of the pages. All bits set read as NaN in any float type, FP8 included.

        A request that reads a freed page gets NaN, and its sampled tokens change.
        """
        layers, two, tokens, heads, dim = self._bits.shape
        by_page = self._bits.view(layers * two, tokens // page_size, page_size * heads * dim)
        by_page.index_fill_(1, pages, -1)  # assigning a number by index would make the host wait


class PageAllocator:
    """Free list of a pool. Page IDs are on the device, and the number of IDs is on the host.

    As in a real allocator, callers are trusted: a page freed twice is in the list twice.
    """

    def __init__(self, tokens: int, page_size: int, device: str) -> None:
        self.page_size = page_size
        self.total = tokens
        self.free_pages = torch.arange(tokens // page_size, device=device)

    def available_size(self) -> int:
        """Return the number of free tokens, without reading from the device."""
        return self.free_pages.numel() * self.page_size

    def alloc(self, pages: int) -> Tensor:
        """Take ``pages`` pages from the front of the list. ``RuntimeError`` if too few are free."""
        if pages > len(self.free_pages):
            raise RuntimeError(f"out of pages: {pages} wanted, {len(self.free_pages)} are free")
        taken, self.free_pages = self.free_pages[:pages], self.free_pages[pages:]
        return taken

    def free(self, pages: Tensor) -> None:
        """Put pages back at the end of the free list, in the order given."""
        self.free_pages = torch.cat((self.free_pages, pages))
