"""Where KV lies: the tensors of a pool, and the allocator that deals out its pages."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

HEAD_DIM = 3


class KVPool:
    """K and V of the layers that share one pool: a tensor ``[tokens, heads, dim]`` each."""

    def __init__(self, tokens: int, layers: Iterable[int], device: str) -> None:
        shape = (tokens, 1, HEAD_DIM)
        self.layers = tuple(layers)
        self.k = {layer: torch.zeros(shape, device=device) for layer in self.layers}
        self.v = {layer: torch.zeros(shape, device=device) for layer in self.layers}

    def set_kv_buffer(self, layer: int, loc: Tensor, k: Tensor, v: Tensor) -> None:
        """Write K and V (``[n, dim]``) to the KV indices ``loc`` (``[n]``)."""
        self.k[layer][loc, 0] = k
        self.v[layer][loc, 0] = v

    def get_kv_buffer(self, layer: int, loc: Tensor) -> tuple[Tensor, Tensor]:
        """K and V at the KV indices ``loc`` (any shape), ``[*loc.shape, dim]``. Copies."""
        return self.k[layer][loc, 0], self.v[layer][loc, 0]


class PageAllocator:
    """The free list of one pool: page ids on the device, their number known to the host.

    It trusts its callers as a real one does: a page freed twice is in the list twice.
    """

    def __init__(self, tokens: int, page_size: int, device: str) -> None:
        self.page_size = page_size
        self.total = tokens
        self.free_pages = torch.arange(tokens // page_size, device=device)
        self.allocated = 0
        """Tokens ever dealt out; grows only."""
        self.freed = 0
        """Tokens ever taken back; grows only."""

    def available_size(self) -> int:
        """Free tokens. Needs no read-back."""
        return len(self.free_pages) * self.page_size

    def alloc(self, pages: int) -> Tensor:
        """Take ``pages`` pages from the front of the free list; raises when it has fewer."""
        if pages > len(self.free_pages):
            raise RuntimeError(f"out of pages: {pages} wanted, {len(self.free_pages)} are free")
        taken, self.free_pages = self.free_pages[:pages], self.free_pages[pages:]
        self.allocated += pages * self.page_size
        return taken

    def free(self, pages: Tensor) -> None:
        """Put pages back at the end of the free list, in the order given."""
        self.free_pages = torch.cat((self.free_pages, pages))
        self.freed += len(pages) * self.page_size
