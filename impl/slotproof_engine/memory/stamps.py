"""Page stamps: whose page it was when it was saved, so that a restore can tell if it still is."""

from __future__ import annotations

import torch
from torch import Tensor

LOGICAL, SESSION = 1 << 20, 1 << 40
"""A stamp is ``session * SESSION + logical page * LOGICAL + generation``, in 64 bits."""


class PageStamps:
    """A stamp (session, logical page, generation) per page of one pool, on the device.

    The generation counts how often the page was freed. Nothing is read back here.

    >>> stamps = PageStamps(4, "cpu")
    >>> stamps.save(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.verify(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.suspect().tolist()
    [False, False, False, False]
    >>> stamps.free(torch.tensor([3]))
    >>> stamps.verify(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.suspect().tolist()
    [False, False, False, True]
    """

    def __init__(self, pages: int, device: str) -> None:
        self.stamp = torch.full((pages,), -1, device=device)
        self.generation = torch.zeros(pages, dtype=torch.int64, device=device)
        self._suspected = torch.full((pages,), -1, device=device)
        """The generation in which a page was restored and was not what had been saved."""
        self._logical = torch.arange(pages, device=device) * LOGICAL
        self._one = torch.ones(pages, dtype=torch.int64, device=device)

    def save(self, pages: Tensor, session: int, first: int) -> None:
        """They hold the session's logical pages from ``first`` on."""
        self.stamp[pages] = self._expected(pages, session, first)

    def verify(self, pages: Tensor, session: int, first: int) -> None:
        """Mark those as suspect that do not hold what the session saved there."""
        differs = self.stamp[pages] != self._expected(pages, session, first)
        self._suspected[pages] = torch.where(differs, self.generation[pages], -1)

    def free(self, pages: Tensor) -> None:
        """They are nobody's now: whoever still has them restored would get something else."""
        self.generation.index_add_(0, pages, self._one[: len(pages)])

    def suspect(self) -> Tensor:
        """Per page: it was restored and is not what was saved, and was not freed since."""
        return self._suspected == self.generation

    def _expected(self, pages: Tensor, session: int, first: int) -> Tensor:
        whose = session * SESSION + first * LOGICAL
        return self.generation[pages] + self._logical[: len(pages)] + whose
