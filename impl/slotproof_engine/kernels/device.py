"""Upload of numbers to the device, without waiting."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def upload(values: Sequence[object], device: str) -> Tensor:
    """Return the numbers as a tensor on the device. On a GPU, the copy is only queued.

    >>> upload([[1, 2], [3, 4]], "cpu").tolist()
    [[1, 2], [3, 4]]
    """
    if device.startswith("cuda"):
        return torch.tensor(values, pin_memory=True).to(device, non_blocking=True)
    return torch.tensor(values, device=device)
