"""Device operations, in plain torch and in Triton for a GPU.

Every operation exists twice, with the same name, signature and result. ``plain_*`` is written to be
read, ``triton_*`` to be fast. Tests compare the two. Operations read and write tensors in place,
without waiting. No operation allocates pages or knows a page's owner.

``triton_*`` needs Triton (``pip install 'slotproof[cuda]'``) and is imported only on demand. With
``TRITON_INTERPRET=1``, the kernels run slowly on the CPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from slotproof_engine.kernels import plain_memory
from slotproof_engine.kernels.plain_memory import Span

AUTO, TORCH, TRITON = "auto", "torch", "triton"


def wants_triton(device: str, which: str = AUTO) -> bool:
    """Return True if Triton kernels are to run. ``ValueError`` if Triton is required but missing.

    ``auto``: Triton runs on a GPU if Triton is installed.

    >>> wants_triton("cpu"), wants_triton("cpu", TORCH)
    (False, False)
    """
    if which != TRITON and (which != AUTO or device.startswith("cpu")):
        return False  # skip the slow search of the import path: every example builds an engine
    installed = importlib.util.find_spec("triton") is not None
    if which == TRITON and not installed:
        raise ValueError("kernels: Triton is not installed: pip install 'slotproof[cuda]'")
    return installed


class MemoryKernels(Protocol):
    """Interface of ``plain_memory`` and ``triton_memory``, documented in ``plain_memory``."""

    def alloc_extend(
        self, table: Tensor, spans: Sequence[Span], pages: Tensor, page_size: int
    ) -> None: ...

    def write_rows(
        self, table: Tensor, rows: Tensor, numbers: Tensor, pages: Tensor, page_size: int
    ) -> None: ...

    def free_rows(
        self, table: Tensor, spans: Sequence[Span], page_size: int, *, forget: bool = False
    ) -> Tensor: ...

    def write_kv(self, buffer: Tensor, loc: Tensor, kv: Tensor) -> None: ...


def memory_kernels(device: str, page_size: int, which: str = AUTO) -> MemoryKernels:
    """Return the kernels' module for the device. Triton needs a page size that is a power of 2."""
    wanted = wants_triton(device, which)
    if wanted and page_size & (page_size - 1):
        if which == TRITON:
            raise ValueError(f"kernels: Triton needs a power of 2 as page_size, not {page_size}")
        wanted = False
    if not wanted:
        return plain_memory
    from slotproof_engine.kernels import triton_memory

    return triton_memory
