"""Page stamps: whose page it was when it was saved, so that a restore can tell if it still is."""

from __future__ import annotations

import torch
from torch import Tensor


class PageStamps:
    """A stamp (session, logical page, generation) per page of one pool, on the device.

    The generation counts how often the page was freed. Nothing is read back here.

    >>> stamps = PageStamps(4, "cpu")
    >>> stamps.save(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.verify(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.suspect.tolist()
    [False, False, False, False]
    >>> stamps.free(torch.tensor([3]))
    >>> stamps.verify(torch.tensor([2, 3]), session=7, first=1)
    >>> stamps.suspect.tolist()
    [False, False, False, True]
    """

    def __init__(self, pages: int, device: str) -> None:
        self.stamp = torch.full((pages, 3), -1, device=device)
        self.generation = torch.zeros(pages, dtype=torch.int64, device=device)
        self.suspect = torch.zeros(pages, dtype=torch.bool, device=device)
        """Pages that were restored and are not what was saved, until they are free."""
        self._steps = torch.arange(pages, device=device)

    def save(self, pages: Tensor, session: int, first: int) -> None:
        """They hold the session's logical pages from ``first`` on."""
        self.stamp[pages] = self._expected(pages, session, first)

    def verify(self, pages: Tensor, session: int, first: int) -> None:
        """Mark those as suspect that do not hold what the session saved there."""
        differs = self.stamp[pages] != self._expected(pages, session, first)
        self.suspect[pages] |= differs.any(-1)

    def free(self, pages: Tensor) -> None:
        """They are nobody's now: whoever still has them restored would get something else."""
        self.generation[pages] += 1
        self.suspect[pages] = False

    def _expected(self, pages: Tensor, session: int, first: int) -> Tensor:
        logical = self._steps[: len(pages)] + first
        whose = torch.full_like(logical, session)
        return torch.stack((whose, logical, self.generation[pages]), -1)
