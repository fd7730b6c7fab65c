"""Page stamps: a page's session and place, recorded by a save and compared by the next restore."""

from __future__ import annotations

import torch
from torch import Tensor

LOGICAL, SESSION = 1 << 20, 1 << 40
"""A stamp is ``session * SESSION + logical page * LOGICAL + generation``, in 64 bits."""


class PageStamps:
    """A stamp (session, logical page, generation) per page of a pool, on the device.

    The generation counts how often the page was freed. No method reads from the device.

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
        """Generation of the page when it was restored with wrong content, or -1."""
        self._logical = torch.arange(pages, device=device) * LOGICAL
        self._one = torch.ones(pages, dtype=torch.int64, device=device)

    def save(self, pages: Tensor, session: int, first: int) -> None:
        """Stamp the pages as consecutive logical pages of the session, beginning with ``first``."""
        self.stamp[pages] = self._expected(pages, session, first)

    def verify(self, pages: Tensor, session: int, first: int) -> None:
        """Mark pages as suspect if they do not hold the session's saved content."""
        differs = self.stamp[pages] != self._expected(pages, session, first)
        self._suspected[pages] = torch.where(differs, self.generation[pages], -1)

    def free(self, pages: Tensor) -> None:
        """Increment the pages' generation: a freed page no longer has the saved content."""
        self.generation.index_add_(0, pages, self._one[: len(pages)])

    def suspect(self) -> Tensor:
        """Return a mask of pages that were restored with wrong content and not freed since."""
        return self._suspected == self.generation

    def _expected(self, pages: Tensor, session: int, first: int) -> Tensor:
        first_stamp = session * SESSION + first * LOGICAL
        return self.generation[pages] + self._logical[: len(pages)] + first_stamp
