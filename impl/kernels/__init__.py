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

AUTO, TORCH, TRITON = "auto", "torch", "triton"


def wants_triton(device: str, which: str = AUTO) -> bool:
    """Whether Triton kernels are to be used there; ``ValueError`` where they can't.

    ``auto``: on a GPU, if Triton is installed.

    >>> wants_triton("cpu"), wants_triton("cpu", TORCH)
    (False, False)
    """
    there = importlib.util.find_spec("triton") is not None
    if which == TRITON and not there:
        raise ValueError("kernels: there is no Triton here: pip install 'slotproof[cuda]'")
    return which == TRITON or (which == AUTO and there and not device.startswith("cpu"))
