"""Pages on a CPU: torch code replaces the allocator's two Triton kernels.

Builds up to 0.5.18 launch `alloc_extend_kernel` and `alloc_decode_kernel` for every page size above
one. Newer builds use their own torch code if Triton is missing. In these newer builds, replacing
the kernels has no effect.
"""

from __future__ import annotations

import importlib
from typing import Any

MODULES = ("sglang.srt.mem_cache.allocator.paged", "sglang.srt.mem_cache.allocator")


class Kernel:
    """Replacement of a Triton kernel. `kernel[grid](…)` calls a plain function."""

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
    """Write indices for positions [prefix, length) of each request. Indices come from the request's
    last page first, then from whole pages at the head of the free list. If the free list is too
    short, nothing is written. The caller counts pages afterwards and fails."""
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
    """Write the index of each request's next position."""
    _extend(seq_lens - 1, seq_lens, last_loc, free_pages, out, upper, page_size)


def patch() -> None:
    """Replace the kernels in every module of this build."""
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
