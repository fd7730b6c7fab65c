"""Pages on a CPU: torch in place of the allocator's two Triton kernels.

Builds up to 0.5.18 launch `alloc_extend_kernel` and `alloc_decode_kernel` for every
page size above one. Newer ones choose a torch path themselves where Triton is absent;
there the kernels are replaced as well, without effect.
"""

from __future__ import annotations

import importlib
from typing import Any

MODULES = ("sglang.srt.mem_cache.allocator.paged", "sglang.srt.mem_cache.allocator")


class Kernel:
    """What `kernel[grid](…)` needs to call a plain function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __getitem__(self, grid: object) -> Any:
        return self.function


def _extend(
    prefix_lens: Any,
    seq_lens: Any,
    last_loc: Any,
    free_pages: Any,
    out: Any,
    _upper: int,
    page_size: int,
    *_: Any,
) -> None:
    """Indices for positions [prefix, length) of each request: first what is left of its
    last page, then whole pages from the head of the free list. Where the list is too
    short nothing is written; the caller counts pages afterwards and fails."""
    fresh = iter(free_pages.tolist())
    indices: list[int] = []
    for prefix, length, last in zip(
        prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True
    ):
        current = last
        for position in range(prefix, length):
            if position % page_size == 0:
                page = next(fresh, None)
                if page is None:
                    return
                current = page * page_size
            else:
                current += 1
            indices.append(current)
    out[: len(indices)] = out.new_tensor(indices)


def _decode(
    seq_lens: Any, last_loc: Any, free_pages: Any, out: Any, upper: int, page_size: int, *_: Any
) -> None:
    """One more position for each request."""
    _extend(seq_lens - 1, seq_lens, last_loc, free_pages, out, upper, page_size)


def patch() -> None:
    """Replace the kernels wherever this build keeps them."""
    for name in MODULES:
        try:
            module: Any = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for kernel, function in (
            ("alloc_extend_kernel", _extend),
            ("alloc_decode_kernel", _decode),
        ):
            if hasattr(module, kernel):
                setattr(module, kernel, Kernel(function))
