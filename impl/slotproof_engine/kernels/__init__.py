"""What runs on the device: plain torch, and the same in Triton for a GPU.

Every operation is there twice, with one name, one signature and one result:
``plain_*`` is written to be read, ``triton_*`` to be fast. Tests hold them to each
other. Nothing here allocates pages or knows who owns them: it reads and writes
tensors, in place, and waits for nobody.

``triton_*`` needs Triton (``pip install 'slotproof[cuda]'``) and is imported only
where it is wanted; with ``TRITON_INTERPRET=1`` it runs on the CPU, slowly.
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
    """Whether Triton kernels are to be used there; ``ValueError`` where they can't.

    ``auto``: on a GPU, if Triton is installed.

    >>> wants_triton("cpu"), wants_triton("cpu", TORCH)
    (False, False)
    """
    if which != TRITON and (which != AUTO or device.startswith("cpu")):
        return False  # without a look into each folder of the path: every example makes an engine
    there = importlib.util.find_spec("triton") is not None
    if which == TRITON and not there:
        raise ValueError("kernels: there is no Triton here: pip install 'slotproof[cuda]'")
    return there


class MemoryKernels(Protocol):
    """What ``plain_memory`` and ``triton_memory`` both have; see the former."""

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
    """The module to use there. Triton's take page sizes that are powers of 2."""
    wanted = wants_triton(device, which)
    if wanted and page_size & (page_size - 1):
        if which == TRITON:
            raise ValueError(f"kernels: Triton's need a page_size of 2, 4, 8 ..., not {page_size}")
        wanted = False
    if not wanted:
        return plain_memory
    from slotproof_engine.kernels import triton_memory

    return triton_memory
